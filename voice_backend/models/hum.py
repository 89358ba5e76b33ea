"""Whether a sound is hummed: "mm-hm" has no vowel, so next to nothing above the first formant.

The ears, who know words alone, write hums as "Mama" or "Her". A dark voice's "no" is nearly a hum
as well, so a word that asks for the floor is believed before this is asked.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.models.numbers import split

RATE: Final = 16_000
LOWEST_HZ: Final = 70
"""Below lies the hum of the mains, and not of a voice."""
VOWELS_HZ: Final = 600
MOST_ABOVE: Final = 0.05
"""Of the energy; the vowels of words have three times as much there, or more."""
WRITTEN: Final = "Mm-hm."
_ASKING: Final = frozenset(
    {"but", "hang", "hello", "help", "hey", "hold", "how", "listen", "more", "never", "next", "no",
     "nope", "not", "now", "one", "stop", "wait", "what", "when", "where", "who", "why"}
)  # fmt: skip


def is_hum(sound: NDArray[np.float32]) -> bool:
    """Tell whether a short piece of speech, 16 kHz, is hummed."""
    power = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) ** 2
    hertz = np.fft.rfftfreq(len(sound), 1 / RATE)
    voice = float(power[hertz >= LOWEST_HZ].sum())
    return voice > 0 and float(power[hertz > VOWELS_HZ].sum()) / voice < MOST_ABOVE


def heard_as(text: str, sound: NDArray[np.float32]) -> str:
    """Return what a short piece of speech is to be taken for: its text, or a hum."""
    if len(sound) == 0 or _ASKING.intersection(split(text)) or not is_hum(sound):
        return text
    return WRITTEN
