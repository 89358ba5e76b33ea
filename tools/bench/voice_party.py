"""The measured process of `warp bench voice`: one server whose calls the embedded voice takes.

Obeys one order a line (see `warp_tools.lines`): `answer` to an offer, `stats`, and the end. What
each voice tells of its answers is kept, with the moment at which its media time began.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from voice_backend.io.rtp_line import RtpLine
from voice_backend.io.voice import Voice
from voice_backend.io.voices import COLLECT_LEAD_S
from voice_backend.model import NoCapacity, SessionConfig, SpeakingOn
from warp.errors import WarpError
from warp.io import ServerConfig, Session, listen
from warp_tools.backends import make_embedded
from warp_tools.bench.child import resident_kib
from warp_tools.bench.voice_stages import FRAME_MS
from warp_tools.lines import Line, Lines
from warp_tools.voice_server import VoiceServer, open_voice_server


@dataclass(slots=True)
class _Call:
    """One call that is attended."""

    number: int
    voice: Voice
    origins: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    """What the last ticks say of when its media time began; one that came late says too late."""


class VoiceParty:
    """Answers calls, and says what became of their frames."""

    def __init__(self, lines: Lines, server: VoiceServer) -> None:
        self._lines = lines
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[int, _Call] = {}
        self._answered = 0
        self._refused = 0
        self._told: list[dict[str, Any]] = []
        self._delays: list[float] = []

    def obey(self, order: Line) -> None:
        """Carry out one order."""
        if order["order"] == "answer":
            session = self._server.plain.accept_offer(order["offer"])
            self._answered += 1
            task = asyncio.ensure_future(self._attend(session, self._answered))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._lines.write(event="answer", sdp=session.answer, call=self._answered)
            return
        self._lines.write(
            event="stats",
            stats=self._server.voices.stats(),
            kib=resident_kib(),
            refused=self._refused,
            answers=self._told,
            delay_ms=sorted(self._delays)[len(self._delays) // 2] if self._delays else 0.0,
        )

    def handle_tick(self, now: float) -> None:
        """Note where each voice's media time is (the server's audio clock)."""
        for call in self._calls.values():
            # the media thread's next tick hears the frame behind what was heard
            heard_s = (call.voice.heard_ms + FRAME_MS) / 1000
            call.origins.append(now + COLLECT_LEAD_S - heard_s)

    async def _attend(self, session: Session, number: int) -> None:
        # a caller that goes away shows as one that is not answered
        with contextlib.suppress(WarpError):
            try:
                voice = await self._server.voices.attend(session, SessionConfig())
            except NoCapacity:
                self._refused += 1
                await session.close()
                return
            call = self._calls[number] = _Call(number, voice)
            try:
                async for event in voice:
                    if isinstance(event, SpeakingOn) and event.course is not None:
                        self._note(call, event)
            finally:
                del self._calls[number]

    def _note(self, call: _Call, event: SpeakingOn) -> None:
        if event.course is None or not call.origins:
            return
        line = call.voice.line
        delay_ms = line.target_ms if isinstance(line, RtpLine) else 0.0
        self._delays.append(delay_ms)
        self._told.append(
            {
                "call": call.number,
                "origin": min(call.origins),
                "begun_ms": event.at_ms + FRAME_MS,
                "delay_ms": delay_ms,
                "course": asdict(event.course),
            }
        )


async def main() -> None:
    """Obey the parent until it closes the pipe."""
    lines = Lines()
    made = await listen("127.0.0.1", config=ServerConfig(early_data=True, audio_in_order=False))
    server = await open_voice_server(made, make_embedded())
    party = VoiceParty(lines, server)
    made.add_media_tick(party.handle_tick)
    lines.write(event="ready", port=server.udp_port)
    while (order := await lines.read()) is not None:
        party.obey(order)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main())
