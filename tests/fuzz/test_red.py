"""Any bytes as redundant audio: blocks or Discard."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.errors import Discard
from warp.rtp import RtpDiscard, build_red, parse_red


def fuzz_red(data: bytes) -> None:
    try:
        blocks = parse_red(data)
    except Discard as discard:
        assert discard.reason is RtpDiscard.REDUNDANCY
        return
    assert len(blocks) <= 1 + len(data) // 4
    assert build_red(blocks) == data


@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    fuzz_red(data)


@given(st.lists(st.binary(min_size=3, max_size=3), max_size=5), st.binary(max_size=60))
def test_plausible_blocks(headers: list[bytes], rest: bytes) -> None:
    fuzz_red(b"".join(b"\xef" + h for h in headers) + b"\x6f" + rest)
