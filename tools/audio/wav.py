"""WAV files in and out: any PCM width, rate and number of channels; 48 kHz mono inside."""

from __future__ import annotations

import wave
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warp_tools.audio.resample import resample
from warp_tools.failure import ToolFailure
from warp_tools.opus import SAMPLE_RATE, Samples

MAX_SECONDS = 600
WIDTHS = (1, 2, 3, 4)  # bytes a sample
LOWEST_RATE, HIGHEST_RATE = 4_000, 192_000


def packaged_sound(name: str) -> Samples:
    """Return a recording that the package carries: `speech` or `greeting`."""
    with resources.as_file(resources.files("warp_tools") / "data" / f"{name}.wav") as path:
        return read_wav(path)


def read_wav(path: Path) -> Samples:
    """Return a WAV file as 48 kHz mono int16.

    Raises ToolFailure, one line, when the file is missing or is not PCM sound.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            if not LOWEST_RATE <= rate <= HIGHEST_RATE:
                raise ToolFailure(f"unreadable audio: {path}: {rate} Hz is not a sound")
            if width not in WIDTHS:
                raise ToolFailure(f"unreadable audio: {path}: samples of {8 * width} bits")
            raw = file.readframes(rate * MAX_SECONDS)
    except FileNotFoundError as error:
        raise ToolFailure(f"no such file: {path}") from error
    except OSError as error:
        raise ToolFailure(f"cannot read {path}: {error.strerror or error}") from error
    except (wave.Error, EOFError, RuntimeError) as error:
        # RuntimeError: how the module says that a chunk reaches beyond the file
        reason = str(error) or "it ends too early"
        raise ToolFailure(f"unreadable audio: {path}: {reason} (PCM WAV is needed)") from error
    samples = _to_float(raw, width)
    mono = samples[: len(samples) // channels * channels].reshape(-1, channels).mean(axis=1)
    if len(mono) == 0:
        raise ToolFailure(f"unreadable audio: {path}: it holds no samples")
    return to_int16(resample(mono, rate, SAMPLE_RATE))


def write_wav(path: Path, samples: Samples) -> None:
    """Write 48 kHz mono int16. Raises ToolFailure when the place cannot be written."""
    try:
        with path.open("wb") as raw, wave.open(raw, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(SAMPLE_RATE)
            file.writeframes(samples.astype("<i2").tobytes())
    except OSError as error:
        raise ToolFailure(f"cannot write {path}: {error.strerror or error}") from error


def to_int16(samples: NDArray[np.float64]) -> Samples:
    """Scale [-1, 1] to int16, clipping what is louder."""
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)


def _to_float(raw: bytes, width: int) -> NDArray[np.float64]:
    """PCM of 8 (unsigned), 16, 24 or 32 bits, little-endian, as [-1, 1]."""
    raw = raw[: len(raw) // width * width]
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float64) - 128.0) / 128.0
    if width == 3:
        octets = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(octets), 4), np.uint8)
        wide[:, 1:] = octets
        return wide.view("<i4").ravel().astype(np.float64) / 2.0**31
    scale = 2.0 ** (8 * width - 1)
    return np.frombuffer(raw, f"<i{width}").astype(np.float64) / scale
