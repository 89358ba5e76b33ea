"""A session over a WebSocket as a line of the media loop: sound in pieces of any length, 20 ms out.

asyncio thread   hear(octets) ─▶ pieces ─┐              send(octets) ◀─ call_soon_threadsafe
media thread                             └▶ Rhythm ─▶ take   give ─▶ rate, format ─┘
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from voice_backend.audio.resample import Resampler
from voice_backend.frames import MEDIA_FRAME_MS, Frame, silence
from voice_backend.live.rhythm import Rhythm
from voice_backend.live.shapes import AudioFormat
from voice_backend.live.sound import DEFAULT_FORMAT, decode_sound, encode_sound
from voice_backend.model import ModelInfo
from voice_backend.seat import VoiceEvent


class SocketLine:
    """Made by the asyncio thread, which hears and sends; the rest is the media thread's."""

    __slots__ = (
        "_early", "_format", "_in", "_loop", "_out", "_pieces", "_receive", "_send", "_silence",
        "muted", "rhythm",
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
        samples = rate * MEDIA_FRAME_MS // 1000
        in_samples = info.in_rate * MEDIA_FRAME_MS // 1000
        self._in = None if rate == info.in_rate else Resampler(rate, info.in_rate, in_samples)
        self._out = None if rate == info.out_rate else Resampler(info.out_rate, rate, samples)
        self._silence = silence(in_samples)
        self._pieces: deque[Frame] = deque()
        self._early = False
        """Whether what was heard had to wait for this line."""
        self.rhythm = Rhythm(rate)
        self.muted = False
        """Whether the voice hears silence in place of the client."""

    # -- the asyncio thread --------------------------------------------------------------------

    def hear(self, sound: bytes, *, early: bool = False) -> None:
        """Take octets of the client's format; whole samples. `early`: they have waited before."""
        if sound:
            self._pieces.append(decode_sound(sound, self._format))
            self._early = self._early or early

    # -- the media thread ----------------------------------------------------------------------

    def take(self, now: float) -> Frame | None:
        """Return the next 20 ms at the model's rate; None while nothing comes."""
        pieces = self._pieces
        self.rhythm.receive([pieces.popleft() for _ in range(len(pieces))])
        if self._early:
            self._early = False
            self.rhythm.catch_up()
        pcm = self.rhythm.take()
        if pcm is None or self._in is None:
            return pcm if pcm is None or not self.muted else self._silence
        heard = self._in.resample(pcm)
        return self._silence if self.muted else heard

    def give(self, pcm: Frame, now: float) -> None:
        """Send 20 ms on their way."""
        heard = pcm if self._out is None else self._out.resample(pcm)
        self._cross(self._send, encode_sound(heard, self._format))

    def flush(self) -> None:
        """Drop what has not left."""
        self._cross(self._send, None)

    def tell(self, events: list[VoiceEvent]) -> None:
        """Pass events on."""
        self._cross(self._receive, events)

    def _cross(self, call: Callable[..., object], argument: object) -> None:
        # a loop that is closed has nobody left who could be told
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, argument)
