"""The ring: what is written is read, in order, whole; what does not fit is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_backend.rings import HEADER_BYTES, Ring
from warp.errors import InvalidConfig


def ends(capacity: int) -> tuple[Ring, Ring]:
    memory = memoryview(bytearray(HEADER_BYTES + capacity))
    return Ring(memory), Ring(memory)


@given(st.lists(st.one_of(st.binary(max_size=40), st.none()), max_size=60))
def test_records_come_out_as_they_went_in(moves: list[bytes | None]) -> None:
    writer, reader = ends(100)
    expected: list[bytes] = []
    for record in moves:
        if record is None:
            assert reader.read() == (expected.pop(0) if expected else None)
        else:
            fits = writer.used + len(record) + 4 <= 100
            assert writer.write([record[:3], record[3:]]) is fits
            if fits:
                expected.append(record)
    while expected:
        assert reader.read() == expected.pop(0)
    assert reader.read() is None
    assert writer.used == 0


def test_words_are_seen_at_the_other_end() -> None:
    writer, reader = ends(100)
    writer.set_word(3, 1 << 40)
    assert (reader.word(3), reader.word(2)) == (1 << 40, 0)


def test_a_record_that_can_never_fit_is_refused() -> None:
    writer, _ = ends(100)
    assert not writer.write([bytes(97)])
    assert writer.write([bytes(96)])


def test_memory_without_room_is_refused() -> None:
    with pytest.raises(InvalidConfig):
        Ring(memoryview(bytearray(HEADER_BYTES)))
