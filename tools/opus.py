"""Opus by way of the libopus that a wheel brings along; never a library of the system.

PyAV's wheel carries libopus beside its FFmpeg; `opuslib-next-bundled` carries one too. PyAV's own
codec objects give neither concealment (RFC 6716 section 4.4) nor in-band FEC (section 2.1.7), so
the library is called directly.

    20 ms of int16 samples at 48 kHz ──▶ Encoder.encode ──▶ payload of RFC 7587
    payload, None (lost) or the next payload with fec=True ──▶ Decoder.decode ──▶ int16 samples
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warp_tools.failure import ToolFailure

SAMPLE_RATE = 48_000
FRAME_SAMPLES = 960
"""20 ms, what RFC 7587 section 4.2 recommends."""
LONGEST_FRAME_SAMPLES = 5760
"""120 ms, the most that one payload can hold (RFC 6716 section 3.2)."""
MAX_PAYLOAD_BYTES = 1275

_APPLICATION_VOIP = 2048
_SET_BITRATE = 4002
_SET_COMPLEXITY = 4010
_SET_INBAND_FEC = 4012
_SET_PACKET_LOSS = 4014
_SET_DTX = 4016
_GET_LOOKAHEAD = 4027

Samples = NDArray[np.int16]


class OpusError(ToolFailure):
    """libopus refused; the text is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """What a voice encoder is told. 32 kbit/s mono is transparent for speech."""

    bitrate_bit_s: int = 32_000
    complexity: int = 5
    fec: bool = True
    expected_loss_percent: int = 5
    """How much of the bit rate goes into FEC; 0 turns it off in effect."""
    dtx: bool = False


def find_library() -> Path:
    """Return the libopus of an installed wheel; raises ToolFailure when there is none."""
    av = _package_folder("av")
    places = [av.parent / "av.libs", av / ".dylibs"] if av else []
    bundled = _package_folder("opuslib_next")
    if bundled:
        places.append(bundled / "_native")
    for place in places:
        for found in sorted(place.glob("*opus*")) if place.is_dir() else []:
            if any(part in found.name for part in (".so", ".dylib", ".dll")):
                return found
    raise ToolFailure("no Opus codec found: pip install 'warp-rtc[tools]' (PyAV brings one along)")


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


@functools.cache
def _library() -> ctypes.CDLL:
    path = find_library()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolFailure(f"cannot load {path}: {error}") from error
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    signatures = {
        "opus_encoder_create": ([ctypes.c_int32, integer, integer, pointer], pointer),
        "opus_encoder_destroy": ([pointer], None),
        # the rest of a ctl's arguments are variadic; naming the fixed ones is what the ABI needs
        "opus_encoder_ctl": ([pointer, integer], integer),
        "opus_encode": ([pointer, pointer, integer, pointer, ctypes.c_int32], ctypes.c_int32),
        "opus_decoder_create": ([ctypes.c_int32, integer, pointer], pointer),
        "opus_decoder_destroy": ([pointer], None),
        "opus_decode": (
            [pointer, ctypes.c_char_p, ctypes.c_int32, pointer, integer, integer],
            integer,
        ),
        "opus_strerror": ([integer], ctypes.c_char_p),
        "opus_get_version_string": ([], ctypes.c_char_p),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
    return library


def version() -> str:
    """Return the library's name and version, e.g. `libopus 1.6.1`."""
    return str(_library().opus_get_version_string().decode())


def _check(result: int) -> int:
    if result < 0:
        raise OpusError(f"opus: {_library().opus_strerror(result).decode()}")
    return result


class Encoder:
    """A voice encoder: mono, 48 kHz, 20 ms frames."""

    __slots__ = ("__weakref__", "_buffer", "_library", "_state")

    def __init__(self, config: EncoderConfig | None = None) -> None:
        config = config or EncoderConfig()
        self._library = _library()
        error = ctypes.c_int()
        self._state = self._library.opus_encoder_create(
            SAMPLE_RATE, 1, _APPLICATION_VOIP, ctypes.byref(error)
        )
        _check(error.value)
        weakref.finalize(self, self._library.opus_encoder_destroy, self._state)
        self._buffer = ctypes.create_string_buffer(MAX_PAYLOAD_BYTES)
        for request, value in (
            (_SET_BITRATE, config.bitrate_bit_s),
            (_SET_COMPLEXITY, config.complexity),
            (_SET_INBAND_FEC, int(config.fec)),
            (_SET_PACKET_LOSS, config.expected_loss_percent),
            (_SET_DTX, int(config.dtx)),
        ):
            _check(self._library.opus_encoder_ctl(self._state, request, ctypes.c_int(value)))

    @property
    def lookahead_samples(self) -> int:
        """By how many samples the sound comes out later than it went in."""
        value = ctypes.c_int32()
        _check(self._library.opus_encoder_ctl(self._state, _GET_LOOKAHEAD, ctypes.byref(value)))
        return value.value

    def encode(self, samples: Samples) -> bytes:
        """Turn one frame of 960 samples into one payload (1 or 2 bytes: silence under DTX)."""
        if samples.dtype != np.int16 or samples.shape != (FRAME_SAMPLES,):
            raise OpusError(f"a frame is {FRAME_SAMPLES} int16 samples, not {samples.shape}")
        frame = np.ascontiguousarray(samples)
        size = self._library.opus_encode(
            self._state, frame.ctypes.data, FRAME_SAMPLES, self._buffer, MAX_PAYLOAD_BYTES
        )
        return self._buffer.raw[: _check(size)]


class Decoder:
    """A decoder to mono at 48 kHz, with concealment and FEC."""

    __slots__ = ("__weakref__", "_library", "_out", "_state")

    def __init__(self) -> None:
        self._library = _library()
        error = ctypes.c_int()
        self._state = self._library.opus_decoder_create(SAMPLE_RATE, 1, ctypes.byref(error))
        _check(error.value)
        weakref.finalize(self, self._library.opus_decoder_destroy, self._state)
        self._out = np.empty(LONGEST_FRAME_SAMPLES, np.int16)

    def decode(
        self, payload: bytes | None, *, fec: bool = False, samples: int = FRAME_SAMPLES
    ) -> Samples:
        """Turn a payload into samples.

        None conceals a lost frame of `samples`. With `fec`, `payload` is the one after the
        lost frame, and what comes out is the lost frame from its redundancy.
        Raises OpusError for a payload that is not Opus.
        """
        room = LONGEST_FRAME_SAMPLES if payload and not fec else samples
        count = self._library.opus_decode(
            self._state,
            payload or None,
            len(payload or b""),
            self._out.ctypes.data,
            room,
            int(fec and bool(payload)),
        )
        return self._out[: _check(count)].copy()


def frames_of(samples: Samples) -> list[Samples]:
    """Cut sound into frames of 20 ms; the last one is filled up with silence."""
    whole = np.concatenate([samples, np.zeros(-len(samples) % FRAME_SAMPLES, np.int16)])
    return [whole[at : at + FRAME_SAMPLES] for at in range(0, len(whole), FRAME_SAMPLES)]


def encoded(samples: Samples) -> list[bytes]:
    """Encode sound into Opus payloads of 20 ms."""
    encoder = Encoder()
    return [encoder.encode(frame) for frame in frames_of(samples)]
