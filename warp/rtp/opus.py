"""What an Opus payload says of itself, without decoding it (RFC 6716 section 3, RFC 7587).

     0 1 2 3 4 5 6 7
    | config  |s| c |   config: mode, bandwidth, frame size · s: stereo · c: frames in the packet

`packet_samples` is for the path of every packet; `parse_opus` also checks the frame lengths. Used
by the player (durations, DTX, whether a lost frame can be recovered from its successor).
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from warp.errors import Discard

CLOCK_RATE: Final = 48000
"""RTP clock rate of Opus, whatever the coded bandwidth (RFC 7587 section 4.1)."""
MAX_SAMPLES: Final = 5760
"""120 ms, the longest packet (RFC 6716 section 3.1)."""
MAX_FRAME_BYTES: Final = 1275


class OpusDiscard(enum.Enum):
    """Which rule of RFC 6716 section 3.4 a payload breaks."""

    EMPTY = "no TOC byte (R1)"
    FRAME_TOO_LONG = "a frame exceeds 1275 bytes (R2)"
    UNEVEN = "two equal frames of an odd total, or a remainder between frames (R3, R6)"
    TRUNCATED = "a length or frame runs past the end (R4, R5, R7)"
    DURATION = "no frame, or more than 120 ms (R5)"


class OpusMode(enum.Enum):
    """The coder behind a configuration number (RFC 6716 table 2)."""

    SILK = "silk"
    HYBRID = "hybrid"
    CELT = "celt"


class OpusPacket(NamedTuple):
    """What the TOC and the frame lengths say. `frames` are start and end in the payload."""

    mode: OpusMode
    bandwidth_hz: int
    channels: int
    frame_samples: int
    frames: tuple[tuple[int, int], ...]

    @property
    def samples(self) -> int:
        """Duration in samples at 48 kHz."""
        return self.frame_samples * len(self.frames)


def _frame_samples_table() -> tuple[int, ...]:
    silk = (480, 960, 1920, 2880)
    return tuple(
        silk[config & 3] if config < 12
        else (480, 960)[config & 1] if config < 16
        else (120, 240, 480, 960)[config & 3]
        for config in range(32)
    )  # fmt: skip


FRAME_SAMPLES: Final = _frame_samples_table()
"""Samples at 48 kHz of one frame, by configuration number (RFC 6716 table 2)."""
_SILK_BANDWIDTHS: Final = (8000, 12000, 16000)
_CELT_BANDWIDTHS: Final = (8000, 16000, 24000, 48000)


def packet_samples(payload: bytes) -> int:
    """Return the duration in samples at 48 kHz; 0 when the payload is empty or not Opus."""
    if not payload:
        return 0
    toc = payload[0]
    count = (1, 2, 2, 0)[toc & 3]
    if not count and len(payload) > 1:
        count = payload[1] & 0x3F
    samples = FRAME_SAMPLES[toc >> 3] * count
    return samples if samples <= MAX_SAMPLES else 0


def is_dtx(payload: bytes) -> bool:
    """Tell whether the encoder said "nothing to say": a TOC and at most one byte.

    libopus sends such packets when DTX begins and every 400 ms after (RFC 7587 section 3.1.3).
    """
    return len(payload) <= 2


def parse_opus(payload: bytes) -> OpusPacket:
    """Return the packet's shape, or raise `Discard(OpusDiscard)` (RFC 6716 section 3.4)."""
    if not payload:
        raise Discard(OpusDiscard.EMPTY)
    toc = payload[0]
    config = toc >> 3
    lengths, start = _frame_lengths(payload)
    frame_samples = FRAME_SAMPLES[config]
    if not lengths or frame_samples * len(lengths) > MAX_SAMPLES:
        raise Discard(OpusDiscard.DURATION)
    frames = []
    for length in lengths:
        if length > MAX_FRAME_BYTES:
            raise Discard(OpusDiscard.FRAME_TOO_LONG)
        frames.append((start, start + length))
        start += length
    if start > len(payload):
        raise Discard(OpusDiscard.TRUNCATED)
    mode, bandwidth = _coder(config)
    return OpusPacket(mode, bandwidth, 2 if toc & 4 else 1, frame_samples, tuple(frames))


def has_fec(payload: bytes) -> bool:
    """Tell whether the packet carries its predecessor at low bit rate (in-band FEC, LBRR).

    Only SILK and hybrid packets can. The flag stands behind the VAD flags at the start of the
    first frame (RFC 6716 section 4.2.3); False for what is not Opus.
    """
    flags = _silk_flags(payload)
    return flags is not None and any(lbrr for _, lbrr in flags)


def has_voice(payload: bytes) -> bool | None:
    """Tell whether the encoder's own detector heard voice; None when the mode cannot say.

    Reads the VAD flags of the first frame (RFC 6716 section 4.2.3).
    """
    flags = _silk_flags(payload)
    return None if flags is None else any(vad for vad, _ in flags)


def _coder(config: int) -> tuple[OpusMode, int]:
    if config < 12:
        return OpusMode.SILK, _SILK_BANDWIDTHS[config >> 2]
    if config < 16:
        return OpusMode.HYBRID, 24000 if config < 14 else 48000
    return OpusMode.CELT, _CELT_BANDWIDTHS[config - 16 >> 2]


def _silk_flags(payload: bytes) -> list[tuple[bool, bool]] | None:
    """Return (any VAD flag, LBRR flag) of each channel, or None without a SILK layer."""
    if not payload or payload[0] & 0x80:
        return None
    try:
        packet = parse_opus(payload)
    except Discard:
        return None
    start, end = packet.frames[0]
    if start == end:
        return None
    # coded with even odds at the very front, so the range coder leaves them as plain bits
    header = payload[start]
    silk_frames = max(packet.frame_samples // 960, 1)
    out = []
    for _ in range(packet.channels):
        vad = header >> (8 - silk_frames)
        lbrr = header >> (7 - silk_frames) & 1
        out.append((vad != 0, lbrr != 0))
        header = header << (silk_frames + 1) & 0xFF
    return out


def _frame_lengths(payload: bytes) -> tuple[list[int], int]:
    """Return the length of each frame and where the first starts."""
    size, code = len(payload), payload[0] & 3
    if code == 0:
        return [size - 1], 1
    if code == 1:
        if (size - 1) % 2:
            raise Discard(OpusDiscard.UNEVEN)
        return [(size - 1) // 2] * 2, 1
    if code == 2:
        first, at = _length(payload, 1)
        if at + first > size:
            raise Discard(OpusDiscard.TRUNCATED)
        return [first, size - at - first], at
    return _many_lengths(payload)


def _many_lengths(payload: bytes) -> tuple[list[int], int]:
    """Code 3: a count byte, padding, and equal or separate lengths (RFC 6716 section 3.2.5)."""
    size = len(payload)
    if size < 2:
        raise Discard(OpusDiscard.TRUNCATED)
    count = payload[1] & 0x3F
    if not count or count * FRAME_SAMPLES[payload[0] >> 3] > MAX_SAMPLES:
        raise Discard(OpusDiscard.DURATION)
    at, end = 2, size
    if payload[1] & 0x40:
        while True:
            if at >= size:
                raise Discard(OpusDiscard.TRUNCATED)
            value = payload[at]
            at += 1
            end -= 254 if value == 255 else value
            if value != 255:
                break
    if payload[1] & 0x80:
        lengths = []
        for _ in range(count - 1):
            length, at = _length(payload, at)
            lengths.append(length)
        lengths.append(end - at - sum(lengths))
        if lengths[-1] < 0:
            raise Discard(OpusDiscard.TRUNCATED)
        return lengths, at
    if end < at:
        raise Discard(OpusDiscard.TRUNCATED)
    each, rest = divmod(end - at, count)
    if rest:
        raise Discard(OpusDiscard.UNEVEN)
    return [each] * count, at


def _length(payload: bytes, at: int) -> tuple[int, int]:
    """Read a frame length of one or two bytes (RFC 6716 section 3.2.1)."""
    size = len(payload)
    if at >= size:
        raise Discard(OpusDiscard.TRUNCATED)
    first = payload[at]
    if first < 252:
        return first, at + 1
    if at + 1 >= size:
        raise Discard(OpusDiscard.TRUNCATED)
    return payload[at + 1] * 4 + first, at + 2
