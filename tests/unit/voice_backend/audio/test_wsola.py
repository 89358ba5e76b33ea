"""Time is stretched; pitch, level and words stay."""

from __future__ import annotations

import numpy as np
import pytest

from voice_backend.audio.resample import resampled
from voice_backend.audio.wsola import Stretcher
from voice_backend.frames import Frame
from warp.errors import InvalidConfig
from warp_tools.audio import packaged_sound

RATE = 16_000
SPEECH = resampled(packaged_sound("speech"), 48_000, RATE)


def stretch(pcm: Frame, rate: int, ratio: float, *, likeness: float = 0.6) -> Frame:
    """Bring a recording to `ratio` of its speed, frame by frame, as a receiver would."""
    stretcher = Stretcher(rate)
    frame = rate // 50
    out: list[Frame] = []
    played = 0
    rest = pcm
    while len(rest) >= frame + stretcher.longest:
        stretcher.grant(frame)
        window = rest[: frame + stretcher.longest]
        behind = (len(pcm) - len(rest)) - played * ratio
        changed = window
        if ratio > 1 and behind < 0:
            changed = stretcher.shorten(window, stretcher.longest, likeness=likeness)
        elif ratio < 1 and behind > 0:
            changed = stretcher.lengthen(window, stretcher.longest, likeness=likeness)
        rest = np.concatenate([changed, rest[len(window) :]])
        out.append(rest[:frame])
        rest = rest[frame:]
        played += frame
    return np.concatenate(out)


def pitch_hz(pcm: Frame, rate: int, near: float) -> float:
    """The strongest period within a fifth of `near`: autocorrelation, refined by a parabola."""
    sound = pcm.astype(np.float64)
    spectrum = np.fft.rfft(sound, 2 * len(sound))
    auto = np.fft.irfft(np.abs(spectrum) ** 2)
    low, high = int(rate / near / 1.2), int(rate / near * 1.2) + 1
    best = low + int(np.argmax(auto[low:high]))
    before, at, after = auto[best - 1 : best + 2]
    return float(rate / (best + 0.5 * (before - after) / (before - 2 * at + after)))


def vowel(rate: int, hz: float, seconds: float = 2.0) -> Frame:
    """A buzz through two formants: periodic, rich, of one level."""
    t = np.arange(int(rate * seconds)) / rate
    out = np.zeros(len(t))
    for k in range(1, int(3500 / hz)):
        near = sum(1 / (1 + ((k * hz - formant) / 120) ** 2) for formant in (600, 1100, 2500))
        out += near * np.sin(2 * np.pi * k * hz * t + k * k)
    return (out / np.abs(out).max() * 12_000).astype(np.int16)


def rms(pcm: Frame) -> float:
    return float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2)))


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 48_000])
@pytest.mark.parametrize("ratio", [0.85, 1.2])
@pytest.mark.parametrize("hz", [110.0, 220.0])
def test_pitch_and_level_stay(rate: int, ratio: float, hz: float) -> None:
    sound = vowel(rate, hz)
    out = stretch(sound, rate, ratio)
    assert len(sound) / len(out) == pytest.approx(ratio, abs=0.03)
    assert pitch_hz(out, rate, hz) == pytest.approx(hz, rel=0.01)
    assert rms(out) == pytest.approx(rms(sound), rel=0.03)
    # no click: nothing steeper than in the sound itself
    steepest = np.abs(np.diff(sound.astype(np.int32))).max()
    assert np.abs(np.diff(out.astype(np.int32))).max() <= 1.1 * steepest


@pytest.mark.parametrize("ratio", [0.82, 1.22])
def test_speech_keeps_its_spectrum(ratio: float) -> None:
    out = stretch(SPEECH, RATE, ratio)
    assert len(SPEECH) / len(out) == pytest.approx(ratio, abs=0.08)
    assert rms(out) == pytest.approx(rms(SPEECH), rel=0.1)

    def bands(pcm: Frame) -> np.ndarray:
        frames = pcm[: len(pcm) // 512 * 512].reshape(-1, 512) * np.hanning(512)
        power = np.mean(np.abs(np.fft.rfft(frames)) ** 2, axis=0)
        return 10 * np.log10(power[1:].reshape(16, 16).sum(axis=1) + 1)

    assert np.abs(bands(out) - bands(SPEECH)).max() < 2.5


@pytest.mark.slow
def test_it_keeps_to_its_limit() -> None:
    """However much is asked for: 25 ms become 20, or 16 do."""
    noise = np.random.default_rng(1).integers(-10, 10, 5 * RATE).astype(np.int16)
    fast, slow = stretch(noise, RATE, 3.0, likeness=0), stretch(noise, RATE, 0.1, likeness=0)
    assert 1.2 < len(noise) / len(fast) <= 1.26
    assert 1.2 < len(slow) / len(noise) <= 1.26
    assert rms(fast) == pytest.approx(rms(noise), rel=0.05)
    assert rms(slow) == pytest.approx(rms(noise), rel=0.05)


def test_speech_that_is_not_periodic_is_left_alone_unless_it_must() -> None:
    hiss = np.random.default_rng(2).integers(-8000, 8000, 640).astype(np.int16)
    stretcher = Stretcher(RATE)
    stretcher.grant(RATE)
    assert stretcher.shorten(hiss, 200) is hiss
    assert stretcher.lengthen(hiss, 200) is hiss
    assert len(stretcher.shorten(hiss, 200, likeness=0.0)) < 640


def test_the_quietest_place_is_taken() -> None:
    sound = vowel(RATE, 200.0)[:720].copy()
    sound[400:] = 3
    stretcher = Stretcher(RATE)
    stretcher.grant(RATE)
    out = stretcher.shorten(sound, 80)
    assert len(out) < 720
    assert np.array_equal(out[:400], sound[:400])


def test_silence_and_full_scale() -> None:
    stretcher = Stretcher(RATE)
    for level in (0, 32767, -32768):
        stretcher.grant(RATE)
        out = stretcher.shorten(np.full(640, level, np.int16), 100)
        assert len(out) < 640 and set(np.unique(out)) == {level}


def test_too_little_is_left_as_it_is() -> None:
    stretcher = Stretcher(RATE)
    short = np.zeros(100, np.int16)
    assert stretcher.shorten(short, 200) is short
    stretcher.grant(RATE)
    assert stretcher.shorten(short, 200) is short
    assert stretcher.lengthen(short, 10) is short


def test_settings() -> None:
    for rate, most in ((4000, 1.25), (16_000, 1.0), (16_000, 3.0)):
        with pytest.raises(InvalidConfig):
            Stretcher(rate, most)
