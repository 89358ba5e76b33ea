"""WAV files in and out: PCM of any width or floating point, any rate and number of channels.

    RIFF ─ "fmt " ─▶ Layout ┐
           "data" ──────────┴▶ blocks ─▶ one channel ─▶ 48 kHz int16

Inside everything is 48 kHz mono. The header is read here, since the standard library knows plain
PCM only (until Python 3.12 not even in the form that is usual for 24 bits). Called by `demo` and
`call`, and for the recordings that the package carries.
"""

from __future__ import annotations

import struct
import wave
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warp_tools.audio.resample import resample
from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.opus import SAMPLE_RATE, Samples

MAX_SECONDS = 600
LOWEST_RATE, HIGHEST_RATE = 4_000, 192_000
MAX_CHANNELS = 64
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_BITS = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}
_BLOCK_BYTES = 1 << 20
_EXTENSION_BYTES = 40

Floats = NDArray[np.float64]


class _NoSoundError(Exception):
    """What is wrong with a file."""


class Layout(NamedTuple):
    """How the samples of a file lie."""

    is_float: bool
    channels: int
    rate: int
    width: int
    """Bytes of one sample of one channel."""


def packaged_sound(name: str) -> Samples:
    """Return a recording that the package carries: `speech`, `greeting`, `hello`, `question`."""
    with resources.as_file(resources.files("warp_tools") / "data" / f"{name}.wav") as path:
        return read_wav(path)


def read_wav(path: Path) -> Samples:
    """Return a WAV file as 48 kHz mono int16.

    Raises ToolFailure, one line, when the file is missing, is no such sound, or lasts longer than
    `MAX_SECONDS`.
    """
    try:
        with path.open("rb") as file:
            return _read(file)
    except FileNotFoundError as error:
        raise CommandRefused(f"no such file: {path}") from error
    except OSError as error:
        raise CommandRefused(f"cannot read {path}: {error.strerror or error}") from error
    except _NoSoundError as error:
        raise CommandRefused(f"unreadable audio: {path}: {error}") from None


def write_wav(path: Path, samples: Samples) -> None:
    """Write 48 kHz int16, (n,) mono or (n, channels). Raises ToolFailure where it cannot."""
    try:
        with path.open("wb") as raw, wave.open(raw, "wb") as file:
            file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
            file.setsampwidth(2)
            file.setframerate(SAMPLE_RATE)
            file.writeframes(samples.astype("<i2").tobytes())
    except OSError as error:
        raise ToolFailure(f"cannot write {path}: {error.strerror or error}") from error


def _read(file: BinaryIO) -> Samples:
    layout, size = _to_samples(file)
    parts: list[NDArray[np.generic]] = []
    frames = 0
    for mono in _blocks(file, layout, size):
        frames += len(mono)
        if frames > MAX_SECONDS * layout.rate:
            raise _NoSoundError(
                f"it lasts longer than the {MAX_SECONDS // 60} minutes that a call may take: "
                f"cut it (ffmpeg -i IN -t {MAX_SECONDS} OUT.wav)"
            )
        # minutes of eight bytes a sample are kept only while their rate has to change
        parts.append(to_int16(mono) if layout.rate == SAMPLE_RATE else mono)
    if not frames:
        raise _NoSoundError("it holds no samples")
    whole = np.concatenate(parts)
    if layout.rate == SAMPLE_RATE:
        return whole.astype(np.int16, copy=False)
    return to_int16(resample(whole.astype(np.float64, copy=False), layout.rate, SAMPLE_RATE))


def _to_samples(file: BinaryIO) -> tuple[Layout, int]:
    """Read until the samples begin; return how they lie, and how many bytes are announced."""
    head = file.read(12)
    if not head:
        raise _NoSoundError("it ends too early: it is empty")
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise _NoSoundError("it is no WAV (PCM WAV is needed: ffmpeg -i IN OUT.wav)")
    layout = None
    while len(chunk := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", chunk)
        if name == b"data":
            if layout is None:
                raise _NoSoundError("nothing says how its samples lie (no fmt chunk before them)")
            return layout, size
        kept = file.read(min(size, _EXTENSION_BYTES))
        if name == b"fmt ":
            layout = _layout(kept)
        _skip(file, size - len(kept) + size % 2)
    raise _NoSoundError("it ends too early: there are no samples in it")


def _layout(fmt: bytes) -> Layout:
    if len(fmt) < 16:
        raise _NoSoundError("it ends too early")
    tag, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", fmt)
    if tag == _EXTENSIBLE and len(fmt) >= _EXTENSION_BYTES:
        (tag,) = struct.unpack_from("<H", fmt, 24)  # the first octets of the format's GUID
    if tag not in _BITS:
        raise _NoSoundError(
            f"its samples are coded as 0x{tag:04x} (PCM WAV is needed: ffmpeg -i IN OUT.wav)"
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise _NoSoundError(f"{channels} channels, where 1 to {MAX_CHANNELS} can be mixed")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise _NoSoundError(f"{rate} Hz is not a sound")
    width = (bits + 7) // 8
    if 8 * width not in _BITS[tag]:
        raise _NoSoundError(f"samples of {bits} bits, where {_BITS[tag]} can be read")
    return Layout(tag == _FLOAT, channels, rate, width)


def _skip(file: BinaryIO, size: int) -> None:
    while size > 0 and (read := file.read(min(size, _BLOCK_BYTES))):
        size -= len(read)


def _blocks(file: BinaryIO, layout: Layout, size: int) -> Iterator[Floats]:
    """Yield the samples, mixed to one channel, as [-1, 1]; fewer than announced are all right."""
    frame = layout.width * layout.channels
    block = max(1, _BLOCK_BYTES // frame) * frame
    while size > 0 and (raw := file.read(min(size, block))):
        size -= len(raw)
        samples = _to_float(raw[: len(raw) // frame * frame], layout)
        yield samples.reshape(-1, layout.channels).mean(axis=1)


def to_int16(samples: Floats) -> Samples:
    """Scale [-1, 1] to int16, clipping what is louder."""
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)


def _to_float(raw: bytes, layout: Layout) -> Floats:
    """PCM of 8 (unsigned), 16, 24 or 32 bits or floats of 32 or 64, little-endian, as [-1, 1]."""
    width = layout.width
    if layout.is_float:
        found = np.frombuffer(raw, f"<f{width}").astype(np.float64)
        # what is no number is silence; the rest is clipped before it can become too large to add
        return np.clip(np.nan_to_num(found, nan=0.0), -1.0, 1.0)
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float64) - 128.0) / 128.0
    if width == 3:
        octets = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(octets), 4), np.uint8)
        wide[:, 1:] = octets
        return wide.view("<i4").ravel().astype(np.float64) / 2.0**31
    scale = 2.0 ** (8 * width - 1)
    return np.frombuffer(raw, f"<i{width}").astype(np.float64) / scale
