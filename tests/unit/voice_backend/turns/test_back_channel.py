"""Words that say "go on", and words that do not."""

from __future__ import annotations

import pytest

from voice_backend.turns import is_back_channel


@pytest.mark.parametrize(
    "text", ["Mm-hm.", "mhm", "Uh-huh", "Yeah.", "I see", "okay, right", "Got it!", "oh really?"]
)
def test_acknowledgements(text: str) -> None:
    assert is_back_channel(text)


@pytest.mark.parametrize(
    "text", ["", "...", "stop", "no", "wait", "yeah but why", "what", "okay stop", "mm hm " * 4]
)
def test_everything_else(text: str) -> None:
    assert not is_back_channel(text)
