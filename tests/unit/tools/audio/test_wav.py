from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from warp_tools.audio import packaged_sound, read_wav, write_wav
from warp_tools.failure import ToolFailure


def tone(rate: int, seconds: float = 0.2, hertz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)


def store(path: Path, channels: list[np.ndarray], width: int, rate: int) -> Path:
    frames = np.stack(channels, axis=1).ravel()
    if width == 1:
        raw = np.rint(frames * 127 + 128).astype(np.uint8).tobytes()
    else:
        wide = np.rint(frames * (2.0 ** (8 * width - 1) - 1)).astype("<i4")
        raw = wide.view(np.uint8).reshape(-1, 4)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels_count := len(channels))
        assert channels_count
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(raw)
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000])
def test_every_width_and_rate_arrives_as_48_khz(tmp_path: Path, width: int, rate: int) -> None:
    got = read_wav(store(tmp_path / "a.wav", [tone(rate)], width, rate)) / 32767
    assert abs(len(got) - 9_600) <= 1
    inner = slice(1_000, 8_600)
    expected = tone(48_000, 0.21)[: len(got)]
    error = np.abs(got[inner] - expected[inner]).max()
    assert error < (0.012 if width == 1 else 0.002)


def test_channels_are_mixed(tmp_path: Path) -> None:
    left = tone(48_000)
    path = store(tmp_path / "a.wav", [left, np.zeros_like(left)], 2, 48_000)
    assert np.abs(read_wav(path) / 32767 - left / 2).max() < 0.001


def test_a_high_tone_is_removed_not_folded(tmp_path: Path) -> None:
    path = store(tmp_path / "a.wav", [tone(96_000, 0.2, 30_000.0)], 2, 96_000)
    assert np.abs(read_wav(path)[500:-500]).max() < 30


def test_written_is_what_is_read(tmp_path: Path) -> None:
    samples = packaged_sound("speech")
    write_wav(tmp_path / "b.wav", samples)
    assert np.array_equal(read_wav(tmp_path / "b.wav"), samples)


def test_the_packaged_sounds_are_speech() -> None:
    for name, seconds in (("speech", 5.3), ("greeting", 3.69)):
        samples = packaged_sound(name)
        assert len(samples) == pytest.approx(seconds * 48_000, abs=2)
        assert np.abs(samples).max() > 3_000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it ends too early"),
        (b"RIFF\x00", "unreadable audio"),
        (b"ID3\x04 this is an mp3" * 10, "PCM WAV is needed"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x55\x00\x01\x00", "unreadable audio"),
    ],
)
def test_unreadable_audio_is_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad.wav"
    path.write_bytes(content)
    with pytest.raises(ToolFailure, match=says) as caught:
        read_wav(path)
    assert "\n" not in str(caught.value)


def test_other_unusable_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="no such file"):
        read_wav(tmp_path / "absent.wav")
    with pytest.raises(ToolFailure, match="cannot read"):
        read_wav(tmp_path)
    with pytest.raises(ToolFailure, match="no samples"):
        read_wav(store(tmp_path / "empty.wav", [np.zeros(0)], 2, 48_000))
    with pytest.raises(ToolFailure, match="1 Hz is not a sound"):
        read_wav(store(tmp_path / "slow.wav", [np.zeros(9)], 2, 1))
    with pytest.raises(ToolFailure, match="cannot write"):
        write_wav(tmp_path / "no" / "place.wav", np.zeros(10, np.int16))
