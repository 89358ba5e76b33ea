"""Words by which a listener says "go on" without asking for the floor."""

from __future__ import annotations

import re

_WORDS = frozenset(
    {
        "ah", "aha", "alright", "cool", "exactly", "fine", "good", "gotcha", "great", "hm", "hmm",
        "hmmm", "huh", "interesting", "mhm", "mm", "mmhm", "mmm", "nice", "oh", "ok", "okay",
        "right", "sure", "true", "uh", "uhhuh", "uhuh", "um", "wow", "yeah", "yep", "yes", "yup",
    }
)  # fmt: skip
_PHRASES = frozenset(
    {"i see", "got it", "go on", "of course", "oh really", "really", "makes sense", "uh huh",
     "mm hm", "mm hmm", "mhm mhm"}
)  # fmt: skip
_MOST_WORDS = 3


def is_back_channel(text: str) -> bool:
    """Whether these words only acknowledge: "mm-hm", "yeah, right"; "" says nothing and is none."""
    words = re.findall(r"[^\W_]+", text.lower().replace("'", ""))
    if not words or len(words) > _MOST_WORDS:
        return False
    return " ".join(words) in _PHRASES or all(word in _WORDS for word in words)
