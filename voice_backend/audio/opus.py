"""Opus by way of the libopus that a wheel brings along; never a library of the system.

PyAV's wheel carries libopus beside its FFmpeg; `opuslib-next-bundled` carries one too. PyAV's own
codec objects give neither concealment (RFC 6716 section 4.4) nor in-band FEC (section 2.1.7), so
the library is called directly; PyAV itself is not imported. The calls release the GIL.

    int16 samples at the model's rate ──▶ OpusEncoder.encode ──▶ payload of RFC 7587
    payload                           ──▶ OpusDecoder.decode  ──▶ int16 samples, one channel
    the payload behind a lost one     ──▶ OpusDecoder.recover ──▶ the lost one's samples
    nothing                           ──▶ OpusDecoder.conceal ──▶ what it may have been

Called by `receive` and `send`, and by the command line's tools.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from voice_backend.frames import MEDIA_FRAME_MS, RATES, Frame, frame_samples
from warp.errors import InvalidConfig, UsageError
from warp.rtp.opus import FRAME_SAMPLES

FRAME_MS: Final = (10, 20, 40, 60)
"""What one packet may last when we encode (RFC 6716 section 2.1.4, without the shortest)."""
MAX_PACKET_MS: Final = 120
"""The most that one payload can hold (RFC 6716 section 3.2.5)."""
MAX_PAYLOAD_BYTES: Final = 1275
INAUDIBLE: Final = 1
"""One sample of this in each frame of perfect silence, 90 dB below full scale. In silence libopus's
filters decay into denormal numbers, and a frame of nothing costs three times one of speech."""
FIX: Final = "pip install 'warp-rtc[voice]'"

_APPLICATION_VOIP = 2048
_SET_BITRATE = 4002
_SET_COMPLEXITY = 4010
_SET_INBAND_FEC = 4012
_SET_PACKET_LOSS = 4014
_SET_DTX = 4016
_GET_LOOKAHEAD = 4027
_RESET_STATE = 4028


class OpusError(UsageError):
    """libopus refused; the text is its own."""


class OpusMissing(UsageError):
    """No installed wheel carries libopus, or it cannot be loaded; the text names the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """What a voice encoder is told. 32 kbit/s mono is transparent for speech."""

    bitrate_bit_s: int = 32_000
    complexity: int = 5  # 0..10; 10 costs a third more than 5
    fec: bool = True  # RFC 6716 section 2.1.7
    expected_loss_percent: int = 5  # how much of the bit rate goes into FEC; 0: none, in effect
    dtx: bool = False  # RFC 6716 section 2.1.9


def find_library() -> Path:
    """Return the libopus of an installed wheel; raises OpusMissing when there is none."""
    av = _package_folder("av")
    places = [av.parent / "av.libs", av / ".dylibs"] if av else []
    bundled = _package_folder("opuslib_next")
    if bundled:
        places.append(bundled / "_native")
    for place in places:
        for found in sorted(place.glob("*opus*")) if place.is_dir() else []:
            if any(part in found.name for part in (".so", ".dylib", ".dll")):
                return found
    raise OpusMissing(f"no Opus codec found: {FIX} (its PyAV brings one along)")


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
        raise OpusMissing(f"cannot load {path}: {error}; try again after {FIX}") from error
    pointer, integer, int32 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int32
    signatures = {
        "opus_encoder_create": ([int32, integer, integer, pointer], pointer),
        "opus_encoder_destroy": ([pointer], None),
        # the rest of a ctl's arguments are variadic; naming the fixed ones is what the ABI needs
        "opus_encoder_ctl": ([pointer, integer], integer),
        "opus_encode": ([pointer, pointer, integer, pointer, int32], int32),
        "opus_decoder_create": ([int32, integer, pointer], pointer),
        "opus_decoder_destroy": ([pointer], None),
        "opus_decoder_ctl": ([pointer, integer], integer),
        "opus_decode": ([pointer, ctypes.c_char_p, int32, pointer, integer, integer], integer),
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


def _checked_rate(rate: int) -> int:
    if rate not in RATES:
        rates = ", ".join(map(str, RATES))
        raise InvalidConfig(f"Opus has {rates} Hz, not {rate}: resample (voice_backend.audio)")
    return rate


class OpusEncoder:
    """A voice encoder: one channel, frames of one length."""

    __slots__ = (
        "__weakref__", "_address", "_buffer", "_encode", "_hush", "_state", "frame_samples", "rate",
    )  # fmt: skip

    def __init__(
        self,
        rate: int = 48_000,
        config: EncoderConfig | None = None,
        *,
        frame_ms: int = MEDIA_FRAME_MS,
    ) -> None:
        """`rate` is one of Opus's, `frame_ms` one of FRAME_MS; raises InvalidConfig, OpusMissing.

        Raises OpusError when libopus refuses a value of `config`.
        """
        config = config or EncoderConfig()
        if frame_ms not in FRAME_MS:
            raise InvalidConfig(f"an Opus packet of ours lasts {FRAME_MS} ms, not {frame_ms}")
        self.rate = _checked_rate(rate)
        self.frame_samples = frame_samples(rate, frame_ms)
        library = _library()
        error = ctypes.c_int()
        self._state = library.opus_encoder_create(rate, 1, _APPLICATION_VOIP, ctypes.byref(error))
        _check(error.value)
        # not at exit: the media thread may be in mid-frame, and the system takes it all back
        weakref.finalize(self, library.opus_encoder_destroy, self._state).atexit = False
        self._encode = library.opus_encode
        self._hush = np.zeros(self.frame_samples, np.int16)
        self._hush[0] = INAUDIBLE
        self._buffer = ctypes.create_string_buffer(MAX_PAYLOAD_BYTES)
        self._address = ctypes.addressof(self._buffer)
        for request, value in (
            (_SET_BITRATE, config.bitrate_bit_s),
            (_SET_COMPLEXITY, config.complexity),
            (_SET_INBAND_FEC, int(config.fec)),
            (_SET_PACKET_LOSS, config.expected_loss_percent),
            (_SET_DTX, int(config.dtx)),
        ):
            self._set(request, value)

    @property
    def lookahead_samples(self) -> int:
        """By how many samples the sound comes out later than it went in."""
        value = ctypes.c_int32()
        _check(_library().opus_encoder_ctl(self._state, _GET_LOOKAHEAD, ctypes.byref(value)))
        return value.value

    def set_bitrate(self, bitrate_bit_s: int) -> None:
        """Change the bit rate from the next frame on; raises OpusError when it is absurd."""
        self._set(_SET_BITRATE, bitrate_bit_s)

    def set_expected_loss(self, percent: int) -> None:
        """Tell how much is lost on the way (0..100), by which redundancy is measured out."""
        self._set(_SET_PACKET_LOSS, percent)

    def encode(self, pcm: Frame) -> bytes:
        """Turn one frame into one payload (1 or 2 bytes: nothing to say, under DTX).

        Raises OpusError when `pcm` is not `frame_samples` of int16.
        """
        if pcm.dtype != np.int16 or pcm.shape != (self.frame_samples,):
            raise OpusError(
                f"a frame is {self.frame_samples} int16 samples, not {pcm.shape} {pcm.dtype}"
            )
        if not pcm.any():
            pcm = self._hush
        elif not pcm.flags.c_contiguous:
            pcm = np.ascontiguousarray(pcm)
        size = self._encode(
            self._state, pcm.ctypes.data, self.frame_samples, self._address, MAX_PAYLOAD_BYTES
        )
        return ctypes.string_at(self._address, _check(size))

    def _set(self, request: int, value: int) -> None:
        _check(_library().opus_encoder_ctl(self._state, request, ctypes.c_int(value)))


class OpusDecoder:
    """A decoder to one channel at one of Opus's rates, with concealment and FEC.

    Stereo is mixed down. Each call continues the sound of the call before.
    """

    __slots__ = ("__weakref__", "_address", "_decode", "_longest", "_out", "_state", "rate")

    def __init__(self, rate: int = 48_000) -> None:
        """`rate` is 8, 12, 16, 24 or 48 kHz; raises InvalidConfig, OpusMissing."""
        self.rate = _checked_rate(rate)
        library = _library()
        error = ctypes.c_int()
        self._state = library.opus_decoder_create(rate, 1, ctypes.byref(error))
        _check(error.value)
        # not at exit: the media thread may be in mid-frame, and the system takes it all back
        weakref.finalize(self, library.opus_decoder_destroy, self._state).atexit = False
        self._decode = library.opus_decode
        self._longest = rate * MAX_PACKET_MS // 1000
        self._out = np.empty(self._longest, np.int16)
        self._address = self._out.ctypes.data

    def decode(self, payload: bytes) -> Frame:
        """Turn a payload into its samples; raises OpusError when it is not Opus."""
        if not payload:
            raise OpusError("opus: an empty payload is no packet (RFC 6716 section 3.4, R1)")
        return self._call(payload, self._longest, 0)

    def recover(self, payload: bytes, samples: int) -> Frame:
        """Return the last `samples` before a payload from its redundancy (`decode_fec`).

        What it does not cover, or all when it has none, is concealed; a multiple of 2.5 ms, at
        most 120 ms. Decode the payload itself afterwards. Raises OpusError.
        """
        room = self._room(samples)
        if not payload:
            return self._call(None, room, 0)
        # asked for less than a frame, libopus conceals, and says nothing
        frame = FRAME_SAMPLES[payload[0] >> 3] * self.rate // 48_000
        return self._call(payload, max(room, frame), 1)[-samples:]

    def conceal(self, samples: int) -> Frame:
        """Return what may follow: speech that fades, or the noise behind it (RFC 6716 4.4).

        `samples` is a multiple of 2.5 ms, at most 120 ms; raises OpusError.
        """
        return self._call(None, self._room(samples), 0)

    def reset(self) -> None:
        """Forget what was heard: another source follows."""
        _check(_library().opus_decoder_ctl(self._state, _RESET_STATE))

    def _room(self, samples: int) -> int:
        if not 0 < samples <= self._longest:
            raise OpusError(f"1 to {self._longest} samples can be made up at once, not {samples}")
        return samples

    def _call(self, payload: bytes | None, room: int, fec: int) -> Frame:
        size = len(payload) if payload else 0
        count = self._decode(self._state, payload, size, self._address, room, fec)
        return self._out[: _check(count)].copy()
