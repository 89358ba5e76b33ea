"""Wraps of the numbers, and the memory of what was played."""

from __future__ import annotations

import pytest

from warp.rtp.numbering import BufferedPacket, Numbering


def packet(sequence: int) -> BufferedPacket:
    return BufferedPacket(sequence, b"x", 960)


@pytest.mark.parametrize("wraps", [0, 3])
def test_numbers_are_extended_from_the_wire_and_from_a_session(wraps: int) -> None:
    n = Numbering(8)
    n.begin(0xFFFE, 0xFFFFFF00)
    # what comes next has wrapped on the wire; a session counts its wraps as it likes
    got = n.extend(1 + (wraps << 16), 0x80 + (wraps << 32))
    assert got == (0x10001, 0x100000080)
    assert n.extend(0xFFF0, 0xFFFFF000) == (0xFFF0, 0xFFFFF000)


def test_what_was_missing_is_told_unless_no_time_is() -> None:
    n = Numbering(8)
    n.begin(10, 9600)
    assert n.play(packet(10), 9600) == 0
    assert n.play(packet(13), 9600 + 3 * 960) == 2
    # three packets of padding
    assert n.play(packet(17), 9600 + 4 * 960) == 0
    assert n.play(packet(15), 9600 + 6 * 960) == 0
    assert n.heard == 17


def test_the_memory_is_bounded() -> None:
    n = Numbering(8)
    n.begin(0, 0)
    for i in range(100):
        n.play(packet(i), 960 * i)
    assert n.was_played(960 * 95) and not n.was_played(960 * 80)
    assert len(n._played) == 8
    n.begin(0, 0)
    assert not n.was_played(960 * 95)
