"""Sound of the wire: PCM as it is, G.711 by its tables."""

from __future__ import annotations

import numpy as np
import pytest

from voice_backend.live.shapes import G711Format
from voice_backend.live.sound import decode_sound, encode_sound

MU = G711Format(type="audio/pcmu")
A = G711Format(type="audio/pcma")


def test_pcm_is_little_endian() -> None:
    pcm = decode_sound(b"\x01\x00\xff\x7f\x00\x80", None)
    assert pcm.tolist() == [1, 32767, -32768]
    assert encode_sound(pcm, None) == b"\x01\x00\xff\x7f\x00\x80"


@pytest.mark.parametrize(
    ("shape", "code", "value"),
    [
        # ITU-T G.711 tables 1a and 2a, in 16 bits
        (MU, 0xFF, 0), (MU, 0x80, 32124), (MU, 0x00, -32124), (MU, 0xF0, 120),
        (A, 0xD5, 8), (A, 0x55, -8), (A, 0xAA, 32256), (A, 0x2A, -32256), (A, 0x80, 5504),
    ],
)  # fmt: skip
def test_values_of_the_tables(shape: G711Format, code: int, value: int) -> None:
    assert decode_sound(bytes([code]), shape).tolist() == [value]


@pytest.mark.parametrize("shape", [MU, A])
def test_every_code_comes_back_and_the_nearest_is_chosen(shape: G711Format) -> None:
    values = decode_sound(bytes(range(256)), shape)
    again = decode_sound(encode_sound(values, shape), shape)
    assert (again == values).all()
    pcm = np.arange(-32768, 32768, 7).astype(np.int16)
    coded = decode_sound(encode_sound(pcm, shape), shape).astype(int)
    best = np.abs(values.astype(int)[None, :] - pcm.astype(int)[:, None]).min(axis=1)
    assert (np.abs(coded - pcm) == best).all()
