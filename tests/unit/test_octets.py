"""Reading of network-order fields: never beyond the end, never in silence."""

from __future__ import annotations

import pytest

from warp.octets import OctetsError, Reader


def test_fields_are_read_one_after_the_other():
    reader = Reader(bytes.fromhex("01 0203 040506 0708090a 02aabb 0001cc 000001dd ee"))
    assert (reader.u8(), reader.u16(), reader.u24(), reader.u32()) == (1, 0x203, 0x40506, 0x708090A)
    assert (reader.vector8(), reader.vector16()) == (b"\xaa\xbb", b"\xcc")
    assert (reader.vector24(), reader.remaining(), reader.rest()) == (b"\xdd", 1, b"\xee")
    reader.expect_end()


@pytest.mark.parametrize("read", ["u8", "u16", "u24", "u32", "u48", "u64", "vector8", "vector16"])
def test_nothing_is_read_from_nothing(read):
    with pytest.raises(OctetsError, match="bytes wanted, 0 left"):
        getattr(Reader(b""), read)()


@pytest.mark.parametrize(
    ("read", "data", "text"),
    [
        ("vector8", "05aabb", "5 bytes wanted, 2 left"),
        ("vector16", "0003aa", "3 bytes wanted, 1 left"),
        ("vector16", "00", "2 bytes wanted, 1 left"),
        ("vector24", "000002aa", "2 bytes wanted, 1 left"),
    ],
)
def test_a_vector_ends_inside_its_buffer(read, data, text):
    with pytest.raises(OctetsError, match=text):
        getattr(Reader(bytes.fromhex(data)), read)()


def test_a_part_of_a_buffer_has_its_own_end():
    reader = Reader(b"\x01\x02\x03\x04", 1, 3)
    assert reader.u16() == 0x0203
    with pytest.raises(OctetsError):
        reader.u8()
    with pytest.raises(OctetsError, match="1 bytes too many"):
        Reader(b"\x00").expect_end()
