"""A hum is told from a word by where its energy lies."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from voice_backend.models.hum import WRITTEN, heard_as, is_hum


def voice(formants: dict[int, float]) -> NDArray[np.float32]:
    """Half a second of a voice at 120 Hz, loud where it is told to."""
    at = np.arange(8000) / 16_000
    sound = np.zeros(8000)
    for hertz, loud in formants.items():
        near = round(hertz / 120) * 120
        sound += loud * np.sin(2 * np.pi * near * at)
    return np.asarray(0.2 * sound, np.float32)


HUM = voice({120: 1.0, 240: 0.8, 1000: 0.1})
WORD = voice({120: 1.0, 480: 0.8, 720: 0.6, 1200: 0.4})


def test_a_hum_and_a_word() -> None:
    assert is_hum(HUM)
    assert not is_hum(WORD)
    assert not is_hum(np.zeros(8000, np.float32))


@pytest.mark.parametrize(
    ("text", "sound", "meant"),
    [
        ("Mama.", HUM, WRITTEN),
        ("", HUM, WRITTEN),
        ("No.", HUM, "No."),
        ("Mama.", WORD, "Mama."),
        ("Mama.", HUM[:0], "Mama."),
    ],
)
def test_what_a_short_piece_of_speech_is_taken_for(
    text: str, sound: NDArray[np.float32], meant: str
) -> None:
    assert heard_as(text, sound) == meant
