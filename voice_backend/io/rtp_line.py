"""A session of `warp.io` as a line of the media loop: Opus payloads on one side, frames on another.

asyncio thread   audio_in.take ─▶ inbox ─┐          ┌─ outbox (crossing) ─▶ audio_out.send
media thread                             └▶ take    give ─▶ AudioSender
                            AudioReceiver ─▶ frame          ▲
asyncio thread   the peer's reports ─▶ ExpectedLoss ────────┘ redundancy
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from voice_backend.audio import AudioReceiver, AudioSender, EncoderConfig, ExpectedLoss
from voice_backend.counts import LineCounts
from voice_backend.frames import MEDIA_FRAME_MS, Frame, frame_samples, silence
from voice_backend.io.crossing import Crossing
from voice_backend.model import ModelInfo
from voice_backend.seat import VoiceEvent
from warp.errors import UsageError
from warp.io import Session
from warp.rtp import AudioFrame, ReportBlock

MAX_INBOX: Final = 128
"""Packets between two ticks of the media thread; beyond, the oldest go: they would be too late."""
MAX_AHEAD_MS: Final = 40
"""Frames wait to leave for so long at the most: then they are dropped, and the newest goes."""


class RtpLine:
    """Made and collected from by the asyncio thread; the rest is the media thread's."""

    __slots__ = (
        "_crossing",
        "_expected",
        "_greeting",
        "_inbox",
        "_receive",
        "_receiver",
        "_report",
        "_sender",
        "_session",
        "_silence",
        "behind",
        "flooded",
        "muted",
    )

    def __init__(
        self,
        session: Session,
        info: ModelInfo,
        crossing: Crossing,
        receive: Callable[[list[VoiceEvent]], object],
        encoder: EncoderConfig | None = None,
    ) -> None:
        self._session = session
        self._crossing = crossing
        self._receive = receive
        self._receiver = AudioReceiver(info.in_rate)
        self._sender = AudioSender(info.out_rate, config=encoder)
        self._expected = ExpectedLoss(self._sender.expected_loss)
        self._report: ReportBlock | None = None
        """What the peer has reported last."""
        self._inbox: deque[AudioFrame] = deque(maxlen=MAX_INBOX)
        self._silence = silence(frame_samples(info.in_rate))
        self.muted = False
        """Whether the voice hears silence in place of the peer."""
        self._greeting = session.audio_out.queued_ms > 0
        self.behind = 0
        """Frames dropped because others still waited to leave."""
        self.flooded = 0
        """Packets dropped because more came between two ticks than anybody could play."""

    # -- the asyncio thread --------------------------------------------------------------------

    def collect(self) -> None:
        """Fetch what has arrived."""
        frames, inbox = self._session.audio_in.take(), self._inbox
        if frames:
            self.flooded += max(len(inbox) + len(frames) - MAX_INBOX, 0)
            inbox.extend(frames)
        report = self._session.audio_out.report
        if report is not None and report is not self._report:
            self._report = report
            self._expected.receive_report(report.fraction_lost)

    def _send(self, payload: bytes) -> None:
        out = self._session.audio_out
        if self._greeting:
            # what was said to whoever was not authenticated yet is said to its end first
            if out.queued_ms > 0:
                return
            self._greeting = False
        elif out.queued_ms > MAX_AHEAD_MS:
            dropped = round(out.queued_ms / MEDIA_FRAME_MS)
            self.behind += dropped
            self._crossing.behind += dropped
            out.clear()
        # the session may have ended while this was on its way
        with contextlib.suppress(UsageError):
            out.send(payload)

    def _clear(self, _: None) -> None:
        # who talks into a greeting does not want to hear the rest of it
        self._greeting = False
        self._session.audio_out.clear()

    # -- the media thread ----------------------------------------------------------------------

    def take(self, now: float) -> Frame:
        """Return the next 20 ms of what the peer says."""
        inbox, receiver = self._inbox, self._receiver
        while inbox:
            receiver.receive_frame(inbox.popleft())
        pcm = receiver.frame(now).pcm
        return self._silence if self.muted else pcm

    def give(self, pcm: Frame, now: float) -> None:
        """Encode 20 ms and send them on their way."""
        sender, percent = self._sender, self._expected.percent
        if percent != sender.expected_loss:
            sender.set_expected_loss(percent)
        payload = sender.encode(pcm)
        if payload is not None:
            self._crossing.send(self._send, payload)

    def flush(self) -> None:
        """Drop what has not left."""
        self._crossing.send(self._clear, None)

    def tell(self, events: list[VoiceEvent]) -> None:
        """Pass events on."""
        self._crossing.send(self._receive, events)

    @property
    def target_ms(self) -> float:
        """The delay that the jitter buffer aims at."""
        return self._receiver.target_ms

    @property
    def expected_loss(self) -> int:
        """The loss that the encoder makes up for, in percent."""
        return self._expected.percent

    def counts(self) -> LineCounts:
        """Return what became of what was heard."""
        heard = self._receiver.counts
        return LineCounts(heard.concealed, heard.recovered, heard.stretched, self.flooded)

    def stats(self) -> dict[str, object]:
        """Return counts and the present state, for machines."""
        counts = self.counts()
        return {
            "concealed_in": counts.concealed,
            "recovered_in": counts.recovered,
            "stretched_in": counts.stretched,
            "target_ms": round(self.target_ms, 1),
            "behind": self.behind,
            "flooded": counts.flooded,
            "expected_loss_percent": self.expected_loss,
        }
