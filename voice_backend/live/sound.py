"""The sound of a WebSocket: base64 of PCM16 or G.711 on the wire, int16 samples inside.

Mono, little-endian; G.711 by ITU-T's tables. Between the wire's rate and the model's, whoever has
the line converts.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import numpy as np

from voice_backend.frames import Frame
from voice_backend.live.faults import LiveFault
from voice_backend.live.shapes import AudioFormat, G711Format, PcmFormat

DEFAULT_FORMAT: Final = PcmFormat(type="audio/pcm", rate=24000)


def octets_per_s(given: AudioFormat | None) -> int:
    """Return how many octets a second of a format has."""
    shape = given or DEFAULT_FORMAT
    return shape.rate * (1 if isinstance(shape, G711Format) else 2)


def sound_of(text: str, given: AudioFormat | None, limit_s: float) -> bytes:
    """Return the octets of a base64 text; raises LiveFault unless they are whole samples."""
    shape = given or DEFAULT_FORMAT
    width = 1 if isinstance(shape, G711Format) else 2
    limit = int(limit_s * shape.rate) * width
    if len(text) > limit * 4 // 3 + 4:
        raise LiveFault("too_long", f"send at most {limit_s:g} s of sound at once", param="audio")
    try:
        sound = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LiveFault("invalid_value", "audio is base64", param="audio") from None
    if len(sound) % width:
        raise LiveFault("invalid_value", "audio has whole samples of 16 bits", param="audio")
    return sound


def decode_sound(sound: bytes, given: AudioFormat | None) -> Frame:
    """Return octets of a format as samples."""
    if isinstance(given, G711Format):
        table = _ULAW if given.type == "audio/pcmu" else _ALAW
        return table[np.frombuffer(sound, np.uint8)]
    return np.frombuffer(sound, "<i2").astype(np.int16, copy=False)


def encode_sound(pcm: Frame, given: AudioFormat | None) -> bytes:
    """Return samples as octets of a format."""
    if not isinstance(given, G711Format):
        return pcm.astype("<i2", copy=False).tobytes()
    table, codes = _SORTED[given.type]
    # the nearest of the 256 values that the code knows
    above = np.searchsorted(table, pcm).clip(1, 255)
    nearer = (pcm.astype(np.int32) - table[above - 1]) <= (table[above] - pcm.astype(np.int32))
    return codes[np.where(nearer, above - 1, above)].tobytes()


def _ulaw() -> Frame:
    code = ~np.arange(256, dtype=np.uint8)
    magnitude = (((code & 15).astype(np.int32) << 3) + 132 << ((code >> 4) & 7)) - 132
    return np.where(code & 128, -magnitude, magnitude).astype(np.int16)


def _alaw() -> Frame:
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    mantissa, exponent = (code & 15).astype(np.int32), ((code >> 4) & 7).astype(np.int32)
    magnitude = np.where(
        exponent == 0, (mantissa << 4) + 8, ((mantissa << 4) + 264) << (exponent - 1).clip(0)
    )
    return np.where(code & 128, magnitude, -magnitude).astype(np.int16)


_ULAW: Final = _ulaw()
_ALAW: Final = _alaw()


def _sorted(table: Frame) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(table, kind="stable")
    return table[order].astype(np.int32), order.astype(np.uint8)


_SORTED: Final = {"audio/pcmu": _sorted(_ULAW), "audio/pcma": _sorted(_ALAW)}
