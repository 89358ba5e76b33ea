"""ABORT and ERROR chunks: what we tell a peer that went wrong (RFC 9260 section 3.3.7, 3.3.10)."""

from __future__ import annotations

from warp.sctp.chunks import CHUNK, ChunkType, encode_chunk
from warp.sctp.parameters import Cause, ParameterType, encode_causes

_OVERHEAD = 12 + 4 + 4


def abort_chunk(cause: Cause, detail: str, mtu: int) -> bytes:
    """Return an ABORT with one cause and a text, cut to fit the packet."""
    text = detail.encode()[: mtu - _OVERHEAD - 3]
    return encode_chunk(ChunkType.ABORT, 0, encode_causes([(cause, text)]))


def error_chunk(cause: Cause, value: bytes) -> bytes:
    """Return an ERROR with one cause."""
    return encode_chunk(ChunkType.ERROR, 0, encode_causes([(cause, value)]))


def unrecognized_chunk(kind: int, flags: int, body: bytes, mtu: int) -> bytes:
    """Return the ERROR that shows a chunk we do not know, cut to fit the packet."""
    shown = CHUNK.pack(kind, flags, len(body) + 4) + body
    return error_chunk(Cause.UNRECOGNIZED_CHUNK, shown[: mtu - _OVERHEAD - 3])


def stale_cookie_chunk(late_s: float) -> bytes:
    """Return the ERROR for a cookie that came so many seconds too late (3.3.10.3: microseconds)."""
    return error_chunk(Cause.STALE_COOKIE, min(int(late_s * 1e6), 0xFFFFFFFF).to_bytes(4, "big"))


def missing_cookie_chunk() -> bytes:
    """Return the ABORT for an INIT ACK without State Cookie (3.3.10.2: one type is missing)."""
    missing = (1).to_bytes(4, "big") + int(ParameterType.STATE_COOKIE).to_bytes(2, "big")
    causes = encode_causes([(Cause.MISSING_PARAMETER, missing)])
    return encode_chunk(ChunkType.ABORT, 0, causes)
