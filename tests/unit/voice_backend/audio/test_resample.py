"""Rates: frames stay whole, tones stay tones."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from voice_backend.audio.resample import Resampler, opus_rate, resampled
from warp.errors import InvalidConfig, UsageError


def tone(rate: int, hz: float = 440.0, seconds: float = 1.0) -> np.ndarray:
    t = np.arange(int(rate * seconds)) / rate
    return (10_000 * np.sin(2 * np.pi * hz * t)).astype(np.int16)


@pytest.mark.parametrize(
    ("rate", "wanted"), [(22_050, 24_000), (24_000, 22_050), (44_100, 48_000), (24_000, 48_000)]
)
@pytest.mark.parametrize("quality", ["LQ", "QQ", None])
def test_a_stream_has_whole_frames(rate: int, wanted: int, quality: Any) -> None:
    n, m = rate // 50, wanted // 50
    stream = Resampler(rate, wanted, m, quality=quality)
    sound = tone(rate, seconds=4)
    out = [stream.resample(sound[at : at + n]) for at in range(0, len(sound) - n + 1, n)]
    assert all(len(part) == m for part in out)
    assert len(stream._rest) < m
    whole = np.concatenate(out).astype(np.float64)
    spectrum = np.abs(np.fft.rfft(whole[m * 10 :] * np.hanning(len(whole) - m * 10)))
    peak = int(np.argmax(spectrum)) * wanted / (len(whole) - m * 10)
    assert peak == pytest.approx(440, abs=1)
    # not interrupted anywhere: nothing steeper than the tone itself
    steepest = 10_000 * 2 * np.pi * 440 / wanted
    assert np.abs(np.diff(whole[2 * m :])).max() < 1.1 * steepest + 2


@pytest.mark.parametrize(
    ("rate", "wanted"), [(24_000, 22_050), (48_000, 44_100), (22_050, 24_000), (44_100, 48_000)]
)
def test_how_far_it_is_behind(rate: int, wanted: int) -> None:
    n, m = rate // 50, wanted // 50
    stream = Resampler(rate, wanted, m)
    assert stream.behind < 0.001 * wanted
    click = np.zeros(8 * n, np.int16)
    click[n : n + 8] = 20_000
    out = np.concatenate([stream.resample(click[at : at + n]) for at in range(0, 8 * n, n)])
    behind = int(np.argmax(np.abs(out.astype(np.int32)))) - m
    assert 0 <= behind <= 0.0015 * wanted


def test_whole_recordings() -> None:
    sound = tone(24_000)
    assert resampled(sound, 24_000, 24_000) is sound
    assert len(resampled(sound, 24_000, 16_000)) == 16_000


def test_which_rate_the_codec_gets() -> None:
    rates = {8_000: 8_000, 11_025: 12_000, 22_050: 24_000, 44_100: 48_000, 96_000: 48_000}
    assert {rate: opus_rate(rate) for rate in rates} == rates
    with pytest.raises(InvalidConfig):
        opus_rate(3)


def test_without_soxr_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "soxr":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"soxr: pip install 'warp-rtc\[voice\]'"):
        Resampler(22_050, 24_000, 480)
