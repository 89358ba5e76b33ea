"""Early packets are kept in order and never without bound."""

from __future__ import annotations

from warp.peer.hold import MAX_BYTES, MAX_PACKETS, HoldBuffer


def test_in_order_with_their_times() -> None:
    hold = HoldBuffer()
    hold.add(b"a", 1.0)
    hold.add(b"b", 2.0)
    assert hold.take() == [(b"a", 1.0), (b"b", 2.0)]
    assert hold.take() == []


def test_bounded_by_number() -> None:
    hold = HoldBuffer()
    for number in range(MAX_PACKETS + 3):
        hold.add(bytes([number]), 0.0)
    assert len(hold) == MAX_PACKETS
    assert hold.dropped == 3
    assert hold.take()[0][0] == bytes([3])


def test_bounded_by_bytes() -> None:
    hold = HoldBuffer()
    for _ in range(50):
        hold.add(bytes(2000), 0.0)
    assert sum(len(data) for data, _ in hold.take()) <= MAX_BYTES
