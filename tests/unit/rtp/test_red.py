"""Redundant audio: the layout of RFC 2198 section 3."""

from __future__ import annotations

import pytest

from warp.errors import Discard, InvalidConfig
from warp.rtp import RedBlock, RtpDiscard, build_red, parse_red


def test_layout() -> None:
    # 1|111 offset 1920 length 3 · 1|111 offset 960 length 2 · 0|111
    data = bytes.fromhex("ef1e0003ef0f00026f") + b"one" + b"tw" + b"primary"
    blocks = [RedBlock(111, 1920, b"one"), RedBlock(111, 960, b"tw"), RedBlock(111, 0, b"primary")]
    assert parse_red(data) == blocks
    assert build_red(blocks) == data


def test_primary_alone() -> None:
    assert parse_red(b"\x6fabc") == [RedBlock(111, 0, b"abc")]
    assert parse_red(b"\x6f") == [RedBlock(111, 0, b"")]


@pytest.mark.parametrize("data", ["", "ef", "ef0f00", "ef0f0002", "ef0f00026f00", "efefefef"])
def test_blocks_that_do_not_add_up(data: str) -> None:
    with pytest.raises(Discard) as caught:
        parse_red(bytes.fromhex(data))
    assert caught.value.reason is RtpDiscard.REDUNDANCY


def test_limits_of_the_format() -> None:
    primary = RedBlock(111, 0, b"")
    for blocks in ([], [RedBlock(111, 1 << 14, b"x"), primary],
                   [RedBlock(111, 1, bytes(1024)), primary]):  # fmt: skip
        with pytest.raises(InvalidConfig):
            build_red(blocks)
