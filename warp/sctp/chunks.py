"""Chunks as bytes: layouts, flags, and the codecs of those with a fixed body (RFC 9260 3.3).

Pure wire code. DATA and SACK are packed and unpacked in place by `outbound`, `inbound` and `sack`
with the layouts from here; the functions serve everything off the hot path.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from warp.errors import Discard
from warp.sctp.packet import COMMON_HEADER_SIZE
from warp.sctp.parameters import PADS
from warp.sctp.reasons import SctpDiscard

CHUNK: Final = struct.Struct("!BBH")
DATA_LAYOUT: Final = struct.Struct("!BBHIHHI")
I_DATA_LAYOUT: Final = struct.Struct("!BBHIHHII")
SACK_LAYOUT: Final = struct.Struct("!BBHIIHH")
_SACK_BODY: Final = struct.Struct("!IIHH")
_PAIR: Final = struct.Struct("!HH")
_I_SKIP: Final = struct.Struct("!HHI")
_U32: Final = struct.Struct("!I")

DATA_HEADER: Final = 16
I_DATA_HEADER: Final = 20
END: Final = 1
BEGIN: Final = 2
UNORDERED: Final = 4
IMMEDIATE: Final = 8
"""The I bit: acknowledge at once (RFC 7053)."""
TAG_REFLECTED: Final = 1
"""The T bit of ABORT and SHUTDOWN COMPLETE: the tag is the sender's own peer tag."""
CHUNK_DATA: Final = 0
CHUNK_SACK: Final = 3
CHUNK_I_DATA: Final = 0x40


class ChunkType(enum.IntEnum):
    """The chunk types that we understand."""

    DATA = 0
    INIT = 1
    INIT_ACK = 2
    SACK = 3
    HEARTBEAT = 4
    HEARTBEAT_ACK = 5
    ABORT = 6
    SHUTDOWN = 7
    SHUTDOWN_ACK = 8
    ERROR = 9
    COOKIE_ECHO = 10
    COOKIE_ACK = 11
    SHUTDOWN_COMPLETE = 14
    I_DATA = 0x40
    RE_CONFIG = 0x82
    FORWARD_TSN = 0xC0
    I_FORWARD_TSN = 0xC2


class Data(NamedTuple):
    """A DATA chunk."""

    flags: int
    tsn: int
    stream_id: int
    stream_seq: int
    ppid: int
    payload: bytes


class IData(NamedTuple):
    """An I-DATA chunk; `word` is the PPID with the B bit set, else the FSN (RFC 8260 2.1)."""

    flags: int
    tsn: int
    stream_id: int
    message_id: int
    word: int
    payload: bytes


class Sack(NamedTuple):
    """A SACK chunk; gaps are (start, end) offsets from the cumulative TSN."""

    cumulative_tsn: int
    a_rwnd: int
    gaps: tuple[tuple[int, int], ...]
    duplicates: tuple[int, ...]


class Skip(NamedTuple):
    """One stream entry of FORWARD-TSN (SSN) or I-FORWARD-TSN (MID)."""

    stream_id: int
    unordered: bool
    sequence: int


class ForwardTsn(NamedTuple):
    """A FORWARD-TSN or I-FORWARD-TSN chunk (RFC 3758 section 3.2, RFC 8260 section 2.3.1)."""

    cumulative_tsn: int
    skips: tuple[Skip, ...]


def split_chunks(packet: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (type, flags, body) of every chunk. Raises Discard at the first impossible length."""
    position, size = COMMON_HEADER_SIZE, len(packet)
    while position + 4 <= size:
        kind, flags, length = CHUNK.unpack_from(packet, position)
        end = position + length
        if length < 4 or end > size:
            raise Discard(SctpDiscard.BAD_CHUNK_LENGTH, f"type {kind} length {length}")
        yield kind, flags, packet[position + 4 : end]
        position = (end + 3) & ~3


def encode_chunk(kind: int, flags: int, body: bytes = b"") -> bytes:
    """Return one padded chunk."""
    return CHUNK.pack(kind, flags, len(body) + 4) + body + PADS[len(body) & 3]


def encode_data(chunk: Data) -> bytes:
    """Return a padded DATA chunk."""
    flags, tsn, stream_id, stream_seq, ppid, payload = chunk
    length = DATA_HEADER + len(payload)
    head = DATA_LAYOUT.pack(CHUNK_DATA, flags, length, tsn, stream_id, stream_seq, ppid)
    return head + payload + PADS[length & 3]


def parse_data(flags: int, body: bytes) -> Data:
    """Read the body of a DATA chunk. Raises Discard if truncated."""
    if len(body) < 12:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "DATA")
    tsn, stream_id, stream_seq, ppid = struct.unpack_from("!IHHI", body)
    return Data(flags, tsn, stream_id, stream_seq, ppid, body[12:])


def encode_i_data(chunk: IData) -> bytes:
    """Return a padded I-DATA chunk."""
    flags, tsn, stream_id, mid, word, payload = chunk
    length = I_DATA_HEADER + len(payload)
    head = I_DATA_LAYOUT.pack(CHUNK_I_DATA, flags, length, tsn, stream_id, 0, mid, word)
    return head + payload + PADS[length & 3]


def parse_i_data(flags: int, body: bytes) -> IData:
    """Read the body of an I-DATA chunk. Raises Discard if truncated."""
    if len(body) < 16:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "I-DATA")
    tsn, stream_id, _, mid, word = struct.unpack_from("!IHHII", body)
    return IData(flags, tsn, stream_id, mid, word, body[16:])


def encode_sack(
    cumulative_tsn: int,
    a_rwnd: int,
    gaps: Sequence[tuple[int, int]] = (),
    duplicates: Sequence[int] = (),
) -> bytes:
    """Return a SACK chunk."""
    length = 16 + 4 * (len(gaps) + len(duplicates))
    head = SACK_LAYOUT.pack(
        CHUNK_SACK, 0, length, cumulative_tsn, a_rwnd, len(gaps), len(duplicates)
    )
    if length == 16:
        return head
    tail = [_PAIR.pack(start, end) for start, end in gaps]
    return b"".join((head, *tail, *map(_U32.pack, duplicates)))


def parse_sack(body: bytes) -> Sack:
    """Read the body of a SACK. Raises Discard if truncated."""
    if len(body) < 12:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "SACK")
    cumulative, a_rwnd, gap_count, duplicate_count = _SACK_BODY.unpack_from(body)
    if not gap_count and not duplicate_count:
        return Sack(cumulative, a_rwnd, (), ())
    if len(body) < 12 + 4 * (gap_count + duplicate_count):
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "SACK")
    edges = struct.unpack_from(f"!{2 * gap_count}H", body, 12)
    duplicates = struct.unpack_from(f"!{duplicate_count}I", body, 12 + 4 * gap_count)
    return Sack(cumulative, a_rwnd, tuple(zip(edges[::2], edges[1::2], strict=True)), duplicates)


def encode_forward_tsn(chunk: ForwardTsn) -> bytes:
    """Return a FORWARD-TSN chunk; unordered skips have no place in it."""
    body = [_U32.pack(chunk.cumulative_tsn)]
    body += [_PAIR.pack(s.stream_id, s.sequence) for s in chunk.skips if not s.unordered]
    return encode_chunk(ChunkType.FORWARD_TSN, 0, b"".join(body))


def parse_forward_tsn(body: bytes) -> ForwardTsn:
    """Read the body of a FORWARD-TSN. Raises Discard if truncated."""
    if len(body) < 4 or len(body) & 3:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "FORWARD-TSN")
    skips = tuple(Skip(sid, False, ssn) for sid, ssn in _PAIR.iter_unpack(body[4:]))
    return ForwardTsn(_U32.unpack_from(body)[0], skips)


def encode_i_forward_tsn(chunk: ForwardTsn) -> bytes:
    """Return an I-FORWARD-TSN chunk."""
    body = [_U32.pack(chunk.cumulative_tsn)]
    body += [_I_SKIP.pack(s.stream_id, int(s.unordered), s.sequence) for s in chunk.skips]
    return encode_chunk(ChunkType.I_FORWARD_TSN, 0, b"".join(body))


def parse_i_forward_tsn(body: bytes) -> ForwardTsn:
    """Read the body of an I-FORWARD-TSN. Raises Discard if truncated."""
    if len(body) < 4 or (len(body) - 4) & 7:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "I-FORWARD-TSN")
    skips = tuple(
        Skip(sid, bool(flags & 1), mid) for sid, flags, mid in _I_SKIP.iter_unpack(body[4:])
    )
    return ForwardTsn(_U32.unpack_from(body)[0], skips)


def parse_tsn(body: bytes) -> int:
    """Read the only field of SHUTDOWN. Raises Discard if truncated."""
    if len(body) < 4:
        raise Discard(SctpDiscard.TRUNCATED_CHUNK, "SHUTDOWN")
    return int(_U32.unpack_from(body)[0])


def encode_tsn(tsn: int) -> bytes:
    """Return a 32-bit number as bytes."""
    return _U32.pack(tsn)
