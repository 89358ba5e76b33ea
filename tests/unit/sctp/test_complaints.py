"""ABORT and ERROR (RFC 9260 sections 3.3.7, 3.3.10)."""

from __future__ import annotations

from warp.sctp.chunks import ChunkType, split_chunks
from warp.sctp.complaints import (
    abort_chunk,
    error_chunk,
    missing_cookie_chunk,
    stale_cookie_chunk,
    unrecognized_chunk,
)
from warp.sctp.parameters import Cause, parse_causes


def read(raw: bytes) -> tuple[int, list[tuple[int, bytes]]]:
    assert len(raw) % 4 == 0
    [(kind, _, body)] = split_chunks(bytes(12) + raw)
    return kind, parse_causes(body)


def test_abort() -> None:
    cause = Cause.PROTOCOL_VIOLATION
    assert read(abort_chunk(cause, "é", 1191)) == (ChunkType.ABORT, [(13, "é".encode())])
    assert len(abort_chunk(cause, "x" * 5000, 1191)) + 12 <= 1191


def test_missing_cookie() -> None:
    assert read(missing_cookie_chunk()) == (ChunkType.ABORT, [(2, b"\0\0\0\x01\0\x07")])


def test_errors() -> None:
    assert read(error_chunk(Cause.INVALID_STREAM, b"\0\x01\0\0"))[1] == [(1, b"\0\x01\0\0")]
    assert read(stale_cookie_chunk(0.5))[1] == [(3, (500_000).to_bytes(4, "big"))]
    assert read(stale_cookie_chunk(1e9))[1] == [(3, b"\xff" * 4)]


def test_an_unknown_chunk_is_shown_as_far_as_it_fits() -> None:
    assert read(unrecognized_chunk(0x60, 5, b"abc", 1191))[1] == [(6, b"\x60\x05\0\x07abc")]
    for size in range(1100, 1200):
        assert len(unrecognized_chunk(0x60, 5, bytes(size), 1191)) + 12 <= 1191
