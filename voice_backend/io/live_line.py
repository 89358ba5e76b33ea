"""A session over a WebSocket as a line of the media loop: sound in pieces of any length, 20 ms out.

asyncio thread   hear(octets) ─▶ pieces ─┐        send(octets) ◀─ call_soon_threadsafe
media thread                             └▶ take   give ─▶ rate, format ─┘

Pieces come in a client's own rhythm: 20 ms, 100 ms, a whole file. The first one waits for a moment,
so that the next may be a little late, and for longer when one was too late all the same. What piles
up is let go where it is quiet, and in the end where it is not: a live session is never more than
`MAX_BEHIND_S` behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from voice_backend.audio.resample import Resampler
from voice_backend.frames import MEDIA_FRAME_MS, Frame, silence
from voice_backend.live.shapes import AudioFormat
from voice_backend.live.sound import DEFAULT_FORMAT, decode_sound, encode_sound
from voice_backend.model import ModelInfo
from voice_backend.seat import VoiceEvent

MAX_BEHIND_S: Final = 10.0
CATCH_UP_FRAMES: Final = 15
"""With more than this beyond what the rhythm needs, quiet frames are skipped."""
MIN_GUARD_FRAMES: Final = 2
"""The first piece waits for so long: the next may be so late."""
MAX_GUARD_FRAMES: Final = 15
MAX_PIECE_FRAMES: Final = 15
_SOON_FRAMES: Final = 15
QUIET: Final = 500
"""Peak below which a frame may be skipped."""


class SocketLine:
    """Made by the asyncio thread, which hears and sends; the rest is the media thread's."""

    __slots__ = (
        "_flowing", "_format", "_frame", "_guard", "_idle", "_in", "_longest", "_loop", "_out",
        "_pieces", "_receive", "_rest", "_send", "_silence", "_waited", "dropped_ms", "muted",
    )  # fmt: skip

    def __init__(
        self,
        info: ModelInfo,
        given: AudioFormat | None,
        receive: Callable[[list[VoiceEvent]], object],
        send: Callable[[bytes | None], object],
    ) -> None:
        """`send(octets)` takes 20 ms of sound, `send(None)` says that what waits is to be dropped.

        Both are called in the asyncio thread.
        """
        rate = (given or DEFAULT_FORMAT).rate
        self._format = given
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._send = send
        self._frame = rate * MEDIA_FRAME_MS // 1000
        in_samples = info.in_rate * MEDIA_FRAME_MS // 1000
        self._in = None if rate == info.in_rate else Resampler(rate, info.in_rate, in_samples)
        self._out = None if rate == info.out_rate else Resampler(info.out_rate, rate, self._frame)
        self._silence = silence(in_samples)
        self._pieces: deque[Frame] = deque()
        self._rest = np.zeros(0, np.int16)
        self._guard = MIN_GUARD_FRAMES
        self._longest = 1
        self._flowing = False
        self._idle = _SOON_FRAMES  # frames since it last flowed
        self._waited = 0
        self.muted = False
        """Whether the voice hears silence in place of the client."""
        self.dropped_ms = 0
        """Sound that came so fast that it could not be heard in time."""

    # -- the asyncio thread --------------------------------------------------------------------

    def hear(self, sound: bytes) -> None:
        """Take octets of the client's format; whole samples."""
        if sound:
            self._pieces.append(decode_sound(sound, self._format))

    def _sent(self, sound: bytes | None) -> None:
        self._send(sound)

    # -- the media thread ----------------------------------------------------------------------

    def take(self, now: float) -> Frame | None:
        """Return the next 20 ms at the model's rate; None while nothing comes."""
        self._gather()
        if not self._flows():
            return None
        pcm = self._next()
        while len(self._rest) // self._frame > self._longest + self._guard + CATCH_UP_FRAMES:
            if int(np.abs(pcm.astype(np.int32)).max()) >= QUIET:
                break
            self.dropped_ms += MEDIA_FRAME_MS
            pcm = self._next()
        if self.muted:
            return self._silence
        return pcm if self._in is None else self._in.resample(pcm)

    def _flows(self) -> bool:
        """Whether a frame may be taken: after a gap the first piece waits for a moment."""
        waiting = len(self._rest) // self._frame
        self._idle += 1
        if self._flowing:
            if not waiting:
                self._flowing = False
                self._idle = 0
                self._waited = 0
            return waiting > 0
        if not waiting:
            return False
        if self._waited == 0 and 0 < self._idle <= _SOON_FRAMES:
            # it came only a little too late: the next ones shall not
            self._guard = min(self._guard + 1, MAX_GUARD_FRAMES)
        self._waited += 1
        self._flowing = self._waited > self._guard
        return self._flowing

    def _gather(self) -> None:
        pieces = self._pieces
        if not pieces:
            return
        fresh = [pieces.popleft() for _ in range(len(pieces))]
        longest = max(len(piece) for piece in fresh) // self._frame
        self._longest = max(self._longest, min(longest, MAX_PIECE_FRAMES))
        self._rest = np.concatenate([self._rest, *fresh])
        limit = int(MAX_BEHIND_S * 1000 / MEDIA_FRAME_MS) * self._frame
        if len(self._rest) > limit:
            self.dropped_ms += (len(self._rest) - limit) * MEDIA_FRAME_MS // self._frame
            self._rest = self._rest[-limit:]

    def _next(self) -> Frame:
        pcm, self._rest = self._rest[: self._frame], self._rest[self._frame :]
        return pcm

    def give(self, pcm: Frame, now: float) -> None:
        """Send 20 ms on their way."""
        heard = pcm if self._out is None else self._out.resample(pcm)
        self._cross(self._sent, encode_sound(heard, self._format))

    def flush(self) -> None:
        """Drop what has not left."""
        self._cross(self._sent, None)

    def tell(self, events: list[VoiceEvent]) -> None:
        """Pass events on."""
        self._cross(self._receive, events)

    def _cross(self, call: Callable[..., object], argument: object) -> None:
        # a loop that is closed has nobody left who could be told
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, argument)
