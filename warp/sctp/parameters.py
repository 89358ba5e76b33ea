"""Type-length-value parameters and error causes (RFC 9260 section 3.2.1, 3.3.10; RFC 6525 4).

Pure wire code: a value or a Discard, for INIT, HEARTBEAT, RE-CONFIG, ABORT and ERROR.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from warp.errors import Discard
from warp.sctp.reasons import SctpDiscard

PADS: Final = (b"", bytes(3), bytes(2), bytes(1))
"""Padding for a length, by its low two bits."""
_TLV: Final = struct.Struct("!HH")
_OUTGOING_RESET: Final = struct.Struct("!III")
_RESPONSE: Final = struct.Struct("!II")


class ParameterType(enum.IntEnum):
    """Parameter types we send, use or knowingly ignore."""

    HEARTBEAT_INFO = 1
    IPV4_ADDRESS = 5
    IPV6_ADDRESS = 6
    STATE_COOKIE = 7
    UNRECOGNIZED = 8
    COOKIE_PRESERVATIVE = 9
    HOST_NAME = 11
    SUPPORTED_ADDRESSES = 12
    OUTGOING_RESET = 13
    INCOMING_RESET = 14
    SSN_TSN_RESET = 15
    RECONFIG_RESPONSE = 16
    ADD_OUTGOING_STREAMS = 17
    ADD_INCOMING_STREAMS = 18
    ECN_CAPABLE = 0x8000
    ZERO_CHECKSUM = 0x8001
    RANDOM = 0x8002
    CHUNK_LIST = 0x8003
    HMAC_ALGORITHMS = 0x8004
    PADDING = 0x8005
    SUPPORTED_EXTENSIONS = 0x8008
    FORWARD_TSN_SUPPORTED = 0xC000
    ADAPTATION_LAYER = 0xC006


KNOWN_PARAMETERS: Final = frozenset(int(kind) for kind in ParameterType)


class Cause(enum.IntEnum):
    """Error cause codes (RFC 9260 section 3.3.10)."""

    INVALID_STREAM = 1
    MISSING_PARAMETER = 2
    STALE_COOKIE = 3
    OUT_OF_RESOURCE = 4
    UNRECOGNIZED_CHUNK = 6
    UNRECOGNIZED_PARAMETERS = 8
    NO_USER_DATA = 9
    COOKIE_WHILE_SHUTTING_DOWN = 10
    USER_INITIATED_ABORT = 12
    PROTOCOL_VIOLATION = 13


class OutgoingReset(NamedTuple):
    """Outgoing SSN Reset Request (RFC 6525 section 4.1); no ids: every stream."""

    request_seq: int
    response_seq: int
    last_tsn: int
    stream_ids: tuple[int, ...]


class ReconfigResponse(NamedTuple):
    """Re-configuration Response (RFC 6525 section 4.4)."""

    response_seq: int
    result: int


def parse_parameters(data: bytes, position: int = 0) -> list[tuple[int, bytes]]:
    """Split `data` into (type, value) pairs; the padding of the last may be missing.

    Raises Discard on a length below 4 or beyond the data: such a list cannot be trusted at all.
    """
    found: list[tuple[int, bytes]] = []
    size = len(data)
    while position + 4 <= size:
        kind, length = _TLV.unpack_from(data, position)
        if length < 4 or position + length > size:
            raise Discard(SctpDiscard.BAD_PARAMETER, f"type {kind:#06x} length {length}")
        found.append((kind, data[position + 4 : position + length]))
        position += (length + 3) & ~3
    if position < size and any(data[position:]):
        raise Discard(SctpDiscard.BAD_PARAMETER, "loose bytes after the last parameter")
    return found


def encode_parameter(kind: int, value: bytes) -> bytes:
    """Return one parameter without padding."""
    return _TLV.pack(kind, len(value) + 4) + value


def encode_parameters(parameters: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the parameters, padded between each other but not after the last."""
    out: list[bytes] = []
    pad = b""
    for kind, value in parameters:
        out.append(pad + encode_parameter(kind, value))
        pad = PADS[len(value) & 3]
    return b"".join(out)


def parse_outgoing_reset(value: bytes) -> OutgoingReset:
    """Read an Outgoing SSN Reset Request. Raises Discard if truncated."""
    if len(value) < 12 or len(value) & 1:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "outgoing reset request")
    count = (len(value) - 12) // 2
    request_seq, response_seq, last_tsn = _OUTGOING_RESET.unpack_from(value)
    stream_ids = struct.unpack_from(f"!{count}H", value, 12)
    return OutgoingReset(request_seq, response_seq, last_tsn, stream_ids)


def encode_outgoing_reset(request: OutgoingReset) -> tuple[int, bytes]:
    """Return the request as a (type, value) pair."""
    ids = request.stream_ids
    value = _OUTGOING_RESET.pack(request.request_seq, request.response_seq, request.last_tsn)
    return ParameterType.OUTGOING_RESET, value + struct.pack(f"!{len(ids)}H", *ids)


def parse_reconfig_response(value: bytes) -> ReconfigResponse:
    """Read a Re-configuration Response; the optional TSNs are not needed."""
    if len(value) < 8:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "re-configuration response")
    return ReconfigResponse(*_RESPONSE.unpack_from(value))


def encode_reconfig_response(response: ReconfigResponse) -> tuple[int, bytes]:
    """Return the response as a (type, value) pair."""
    return ParameterType.RECONFIG_RESPONSE, _RESPONSE.pack(*response)


def parse_causes(body: bytes) -> list[tuple[int, bytes]]:
    """Read the error causes of ABORT or ERROR; reading stops quietly where they make no sense.

    An ABORT counts whatever its causes look like, hence no Discard here.
    """
    found: list[tuple[int, bytes]] = []
    position = 0
    while position + 4 <= len(body):
        code, length = _TLV.unpack_from(body, position)
        if length < 4 or position + length > len(body):
            break
        found.append((code, body[position + 4 : position + length]))
        position += (length + 3) & ~3
    return found


def encode_causes(causes: Sequence[tuple[int, bytes]]) -> bytes:
    """Return error causes, laid out as parameters are."""
    return encode_parameters(causes)
