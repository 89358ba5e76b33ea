from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from warp_tools.audio import packaged_sound, read_wav, wav, write_wav
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


def riff(tag: int, bits: int, data: bytes, *, channels: int = 1, extensible: bool = False) -> bytes:
    """A WAV file as other programs write it, with a chunk that we have no use for."""
    frame = channels * bits // 8
    fmt = struct.pack("<HHIIHH", tag, channels, 48_000, 48_000 * frame, frame, bits)
    if extensible:
        guid = struct.pack("<H", tag) + bytes.fromhex("000000001000800000aa00389b71")
        fmt = struct.pack("<H", 0xFFFE) + fmt[2:] + struct.pack("<HHI", 22, bits, 4) + guid
    chunks = b"".join(
        name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
        for name, body in ((b"LIST", b"odd"), (b"fmt ", fmt), (b"data", data))
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize(("tag", "bits", "form"), [(1, 16, "<i2"), (3, 32, "<f4"), (3, 64, "<f8")])
def test_what_other_programs_write(
    tmp_path: Path, extensible: bool, tag: int, bits: int, form: str
) -> None:
    sound = tone(48_000)
    data = (sound if tag == 3 else np.rint(sound * 32_768)).astype(form).tobytes()
    path = tmp_path / "a.wav"
    path.write_bytes(riff(tag, bits, data, extensible=extensible))
    assert np.abs(read_wav(path) / 32_768 - sound).max() < 0.0001


def test_numbers_that_are_none_are_no_sound(tmp_path: Path) -> None:
    data = np.array([np.nan, np.inf, -np.inf, 1e30, 0.5], "<f4").tobytes()
    path = tmp_path / "a.wav"
    path.write_bytes(riff(3, 32, data))
    assert read_wav(path).tolist() == [0, 32767, -32768, 32767, 16384]


def test_several_channels_are_written(tmp_path: Path) -> None:
    both = np.stack([np.arange(9), -np.arange(9)], axis=1).astype(np.int16)
    write_wav(tmp_path / "a.wav", both)
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getnchannels() == 2
        assert file.readframes(9) == both.tobytes()


def test_what_no_call_can_take_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wav, "MAX_SECONDS", 60)
    path = store(tmp_path / "a.wav", [np.zeros(60 * 4_000 + 1)], 1, 4_000)
    with pytest.raises(ToolFailure, match=r"longer than the 1 minutes .* -t 60"):
        read_wav(path)
    assert len(read_wav(store(path, [np.zeros(60 * 4_000)], 1, 4_000))) == 60 * 48_000
