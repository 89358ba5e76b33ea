"""Redundant audio data (RFC 2198): older frames travel again with the newest.

    |1| block PT | timestamp offset (14) | block length (10) |   for each redundant block
    |0| block PT |                                              the primary
    redundant data, oldest first, then the primary to the end

`receiver` unpacks it; `build_red` is for senders and tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warp.errors import Discard, InvalidConfig
from warp.rtp.packet import RtpDiscard


class RedBlock(NamedTuple):
    """One encoding. `offset` is how many ticks before the packet's timestamp it belongs."""

    payload_type: int
    offset: int
    payload: bytes


def parse_red(payload: bytes) -> list[RedBlock]:
    """Return the blocks, oldest first, the primary last. Raises `Discard(REDUNDANCY)`."""
    headers: list[tuple[int, int, int]] = []
    at, size = 0, len(payload)
    while True:
        if at >= size:
            raise Discard(RtpDiscard.REDUNDANCY)
        first = payload[at]
        if not first & 0x80:
            at += 1
            break
        if at + 4 > size:
            raise Discard(RtpDiscard.REDUNDANCY)
        word = int.from_bytes(payload[at + 1 : at + 4], "big")
        headers.append((first & 0x7F, word >> 10, word & 0x3FF))
        at += 4
    blocks = []
    for payload_type, offset, length in headers:
        if at + length > size:
            raise Discard(RtpDiscard.REDUNDANCY)
        blocks.append(RedBlock(payload_type, offset, payload[at : at + length]))
        at += length
    blocks.append(RedBlock(first, 0, payload[at:]))
    return blocks


def build_red(blocks: Sequence[RedBlock]) -> bytes:
    """Return a payload with the blocks given oldest first, the primary last."""
    if not blocks:
        raise InvalidConfig("redundant audio needs a primary block")
    head, body = b"", b""
    for block in blocks[:-1]:
        if block.offset >= 1 << 14 or len(block.payload) >= 1 << 10:
            raise InvalidConfig("a redundant block spans at most 16383 ticks and 1023 bytes")
        word = block.offset << 10 | len(block.payload)
        head += bytes((0x80 | block.payload_type,)) + word.to_bytes(3, "big")
        body += block.payload
    return head + bytes((blocks[-1].payload_type,)) + body + blocks[-1].payload
