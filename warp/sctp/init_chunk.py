"""The INIT chunk: in a packet, or alone in `a=sctp-init` (RFC 9260 3.3.2, draft-hancke-tsvwg-snap).

`local_init` makes the value that a description carries, `parse_init` judges one that came from a
peer's description; the handshake uses the same class for INIT and INIT ACK on the wire.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from warp.entropy import Entropy, random_u32
from warp.errors import Discard
from warp.sctp.chunks import CHUNK, ChunkType
from warp.sctp.config import SctpConfig
from warp.sctp.parameters import (
    KNOWN_PARAMETERS,
    ParameterType,
    encode_parameter,
    encode_parameters,
    parse_parameters,
)
from warp.sctp.reasons import SctpDiscard

MAX_SNAP_INIT_BYTES: Final = 2048
"""Longer values are refused before parsing: they come from signalling, from anyone."""
_DTLS_DETECTS_ERRORS: Final = (1).to_bytes(4, "big")
_FIXED: Final = struct.Struct("!IIHHI")
_STOP, _REPORT = 0x8000, 0x4000
_Parameters: TypeAlias = tuple[tuple[int, bytes], ...]
_REMEMBERED: Final = 32


class Capabilities(NamedTuple):
    """The optional features that one side announces, or that both share."""

    partial_reliability: bool
    reconfig: bool
    interleaving: bool
    zero_checksum: bool


@dataclass(frozen=True, slots=True)
class InitChunk:
    """The body of INIT or INIT ACK; `parameters` are (type, value) in the order of the wire."""

    initiate_tag: int
    a_rwnd: int
    outbound_streams: int
    inbound_streams: int
    initial_tsn: int
    parameters: tuple[tuple[int, bytes], ...] = ()
    unrecognized: tuple[bytes, ...] = ()
    """Parameters that ask to be reported back (RFC 9260 section 3.2.1)."""

    def to_bytes(self) -> bytes:
        """Return the INIT chunk, exactly as long as its length field: the value SNAP carries."""
        return self.to_chunk(ChunkType.INIT)

    def to_chunk(self, kind: int) -> bytes:
        """Return an unpadded INIT or INIT ACK chunk."""
        body = _FIXED.pack(
            self.initiate_tag,
            self.a_rwnd,
            self.outbound_streams,
            self.inbound_streams,
            self.initial_tsn,
        ) + _encoded(self.parameters)
        return CHUNK.pack(kind, 0, len(body) + 4) + body

    def parameter(self, kind: int) -> bytes | None:
        """Return the value of the first parameter of this type."""
        return next((value for k, value in self.parameters if k == kind), None)

    @property
    def capabilities(self) -> Capabilities:
        """What this side announces. Partial reliability may be announced in either place."""
        return _capabilities(self.parameters)


# The features of an INIT are those of its implementation, so that they are the same few in every
# session; only tags and TSNs differ.


@lru_cache(maxsize=_REMEMBERED)
def _encoded(parameters: _Parameters) -> bytes:
    return encode_parameters(parameters)


@lru_cache(maxsize=_REMEMBERED)
def _capabilities(parameters: _Parameters) -> Capabilities:
    values = dict(reversed(parameters))  # of several of one type the first counts
    extensions = values.get(ParameterType.SUPPORTED_EXTENSIONS, b"")
    announced = ParameterType.FORWARD_TSN_SUPPORTED in values
    return Capabilities(
        partial_reliability=announced or ChunkType.FORWARD_TSN in extensions,
        reconfig=ChunkType.RE_CONFIG in extensions,
        interleaving=ChunkType.I_DATA in extensions and ChunkType.I_FORWARD_TSN in extensions,
        zero_checksum=values.get(ParameterType.ZERO_CHECKSUM) == _DTLS_DETECTS_ERRORS,
    )


@lru_cache(maxsize=4)
def _local_parameters(interleaving: bool, zero_checksum: bool) -> _Parameters:
    extensions = [ChunkType.RE_CONFIG, ChunkType.FORWARD_TSN]
    if interleaving:
        extensions += [ChunkType.I_DATA, ChunkType.I_FORWARD_TSN]
    parameters: list[tuple[int, bytes]] = [(ParameterType.FORWARD_TSN_SUPPORTED, b"")]
    if zero_checksum:
        parameters.append((ParameterType.ZERO_CHECKSUM, _DTLS_DETECTS_ERRORS))
    parameters.append((ParameterType.SUPPORTED_EXTENSIONS, bytes(extensions)))
    return tuple(parameters)


def local_init(config: SctpConfig, entropy: Entropy) -> InitChunk:
    """Return a fresh INIT with our features; tag and TSN are unpredictable and never 0."""
    return InitChunk(
        initiate_tag=random_u32(entropy, nonzero=True),
        a_rwnd=config.a_rwnd,
        outbound_streams=config.outbound_streams,
        inbound_streams=config.inbound_streams,
        # 0 is legal (RFC 9260 section 3.3.2), yet some peers refuse it in a description
        initial_tsn=random_u32(entropy, nonzero=True),
        parameters=_local_parameters(config.interleaving, config.zero_checksum),
    )


@lru_cache(maxsize=_REMEMBERED)  # what a description says is judged, and then used
def parse_init(data: bytes) -> InitChunk:
    """Judge a decoded `a=sctp-init` value: one serialised INIT chunk, with 0-3 bytes of padding.

    Raises Discard (SctpDiscard.INVALID_INIT, BAD_PARAMETER) with the reason in its text. A
    parameter that demands that processing stop makes the whole value invalid: there is no INIT ACK
    in which it could be reported.
    """
    if len(data) > MAX_SNAP_INIT_BYTES:
        raise Discard(SctpDiscard.INVALID_INIT, f"{len(data)} bytes")
    if len(data) < 20:
        raise Discard(SctpDiscard.INVALID_INIT, "truncated")
    kind, _, length = CHUNK.unpack_from(data)
    if kind != ChunkType.INIT:
        raise Discard(SctpDiscard.INVALID_INIT, f"chunk type {kind}")
    spare = len(data) - length
    if not 0 <= spare <= 3 or any(data[length:]) or length < 20:
        raise Discard(SctpDiscard.INVALID_INIT, f"length {length} of {len(data)}")
    return parse_init_body(data[4:length], strict=True)


def parse_init_body(body: bytes, *, strict: bool = False) -> InitChunk:
    """Read the body of INIT or INIT ACK. Raises Discard.

    Unless `strict`, an unknown parameter of the "stop" kind only ends the reading of parameters
    (RFC 9260 section 3.2.1).
    """
    if len(body) < _FIXED.size:
        raise Discard(SctpDiscard.INVALID_INIT, "truncated")
    tag, a_rwnd, outbound, inbound, tsn = _FIXED.unpack_from(body)
    if tag == 0:
        raise Discard(SctpDiscard.INVALID_INIT, "initiate tag 0")
    if a_rwnd < 1500:
        raise Discard(SctpDiscard.INVALID_INIT, f"a_rwnd {a_rwnd}")
    if outbound == 0 or inbound == 0:
        raise Discard(SctpDiscard.INVALID_INIT, "no streams")
    known, unrecognized = _split_parameters(body[_FIXED.size :], strict)
    return InitChunk(tag, a_rwnd, outbound, inbound, tsn, known, unrecognized)


@lru_cache(maxsize=_REMEMBERED)
def _split_parameters(data: bytes, strict: bool) -> tuple[_Parameters, tuple[bytes, ...]]:
    """Return the parameters that we know, and those to be reported back. Raises Discard."""
    known: list[tuple[int, bytes]] = []
    unrecognized: list[bytes] = []
    for kind, value in parse_parameters(data):
        if kind in KNOWN_PARAMETERS:
            known.append((kind, value))
            continue
        if kind & _REPORT:
            unrecognized.append(encode_parameter(kind, value))
        if kind & _STOP:
            continue
        if strict:
            raise Discard(SctpDiscard.INVALID_INIT, f"unknown parameter {kind:#06x}")
        break
    return tuple(known), tuple(unrecognized)
