"""Our own voice come back is told from anybody else's, by keeping to one lag."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from voice_backend.models.own_echo import OwnEcho

ROOT = Path(__file__).parents[4]
FRAMES = 130
FIRST = 14
"""Frames until there is enough sound to tell by."""


def recording(name: str, rate: int) -> NDArray[np.float32]:
    """2.6 s of a recording that the package carries, at another rate."""
    with wave.open(str(ROOT / "tools" / "data" / name)) as file:
        raw = np.frombuffer(file.readframes(5 * 16_000), np.int16).astype(np.float32) / 32768
    at = np.arange(FRAMES * rate // 50) * (16_000 / rate)
    return np.asarray(np.interp(at, np.arange(len(raw)), raw), np.float32)


@pytest.fixture(scope="module")
def ours() -> NDArray[np.float32]:
    return recording("greeting.wav", 24_000)


@pytest.fixture(scope="module")
def back() -> NDArray[np.float32]:
    """Ours, at the rate that is heard, 20 dB softer."""
    return np.float32(0.1) * recording("greeting.wav", 16_000)


@pytest.fixture(scope="module")
def user() -> NDArray[np.float32]:
    return recording("speech.wav", 16_000)


def told(heard: NDArray[np.float32], ours: NDArray[np.float32] | None) -> list[bool]:
    echo, found = OwnEcho(), []
    for frame in range(FRAMES):
        echo.receive_heard(heard[frame * 320 : frame * 320 + 320])
        found.append(echo.explains())
        echo.receive_ours(None if ours is None else ours[frame * 480 : frame * 480 + 480])
    return found


def late(sound: NDArray[np.float32], milliseconds: int) -> NDArray[np.float32]:
    return np.concatenate([np.zeros(16 * milliseconds, np.float32), sound])[: FRAMES * 320]


def loud(sound: NDArray[np.float32], level: float = 0.0015) -> NDArray[np.bool_]:
    """In which frames there is something that a detector would call speech."""
    return np.abs(sound.reshape(FRAMES, 320)).mean(axis=1) > level


@pytest.mark.parametrize("delay_ms", [20, 155, 400, 700])
def test_an_echo_at_minus_20_db_is_known(
    delay_ms: int, ours: NDArray[np.float32], back: NDArray[np.float32]
) -> None:
    heard = late(back, delay_ms)
    found = np.array(told(heard, ours))[loud(heard)]
    assert np.mean(found[FIRST:]) > 0.95


def test_noise_on_top_changes_little(ours: NDArray[np.float32], back: NDArray[np.float32]) -> None:
    noise = np.random.default_rng(5).standard_normal(FRAMES * 320).astype(np.float32)
    heard = late(back, 150)
    found = np.array(told(heard + np.float32(0.001) * noise, ours))[loud(heard)]
    assert np.mean(found[FIRST:]) > 0.9


def test_somebody_else_is_heard(user: NDArray[np.float32], ours: NDArray[np.float32]) -> None:
    assert np.mean(told(user, ours)) < 0.02


def test_somebody_else_is_heard_over_an_echo(
    user: NDArray[np.float32], back: NDArray[np.float32], ours: NDArray[np.float32]
) -> None:
    heard = user + late(back, 155)
    # where the user is no louder than the echo, it may win for a moment
    assert np.mean(np.array(told(heard, ours))[loud(user, 0.01)]) < 0.15


def test_nothing_comes_back_of_silence(
    user: NDArray[np.float32], ours: NDArray[np.float32]
) -> None:
    assert not any(told(user, None))
    assert not any(told(np.zeros(FRAMES * 320, np.float32), ours))
