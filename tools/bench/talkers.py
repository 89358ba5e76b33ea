"""Our party that talks: real speech in Opus to a server that decodes it and encodes what it hears.

Our server is `voice_backend` with its echo; aiortc's is `aiortc_talker`. The caller is ours for
both, passes payloads through, and notes when what it said comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from typing import Any

from voice_backend.audio import EncoderConfig
from voice_backend.io import Voices, VoicesConfig, inline, open_voices
from voice_backend.models.echo import EchoModel
from warp.errors import WarpError
from warp.io import Session
from warp_tools.audio import packaged_sound
from warp_tools.bench.ours import OurParty
from warp_tools.bench.party import FRAME_S
from warp_tools.opus import encoded

_QUEUE_MS = 2_000


@cache
def speech() -> tuple[bytes, ...]:
    """The packaged question as Opus payloads of 20 ms."""
    return tuple(encoded(packaged_sound("speech")))


class OurTalker(OurParty):
    """Our voice at the server, our caller at the client."""

    audio_in_order = False

    def __init__(self) -> None:
        super().__init__()
        self._voices: Voices | None = None
        self._attending: set[asyncio.Task[None]] = set()
        self._said: dict[Session, int] = {}

    async def prepare(self, role: str) -> None:
        """Open the server's port and its media loop, or the client of all calls."""
        await super().prepare(role)
        speech()
        if self._server is not None:
            # the caller counts packets: what is silent is sent as well
            config = VoicesConfig(encoder=EncoderConfig(dtx=False))
            tick = self._server.add_media_tick
            self._voices = await open_voices(inline(EchoModel), config, add_media_tick=tick)

    async def answer(self, session: str, kind: str, offer: str) -> str:
        """Begin a session by an offer and let the voice take it."""
        answer = await super().answer(session, kind, offer)
        task = asyncio.create_task(self._attend(self._sessions[session]))
        self._attending.add(task)
        task.add_done_callback(self._attending.discard)
        return answer

    async def _attend(self, session: Session) -> None:
        if self._voices is not None:
            with contextlib.suppress(WarpError):
                await self._voices.attend(session)

    async def start_media(self) -> None:
        """Speak, at the client; the server's media loop runs already."""
        if self._server is None:
            self._tasks["media"] = asyncio.create_task(self._speak())

    def figures(self) -> dict[str, Any]:
        """Return what the media loop says of itself."""
        return {} if self._voices is None else self._voices.stats()

    def _feed(self, session: Session) -> None:
        out, payloads = session.audio_out, speech()
        said = self._said.get(session, 0)
        for _ in range(int((_QUEUE_MS - out.queued_ms) / (FRAME_S * 1000))):
            out.send(payloads[said % len(payloads)])
            said += 1
        self._said[session] = said
        self._note(session)

    def collect(self) -> int:
        """Note what has arrived since each session's turn."""
        before = self.packets
        for session in self._sessions.values() if self._server is None else ():
            self._note(session)
        return self.packets - before

    def _note(self, session: Session) -> None:
        number = self.arrivals.number(str(id(session)))
        for frame in session.audio_in.take():
            if frame.payload is not None:
                self.packets += 1
                self.arrivals.note(number, frame.timestamp, frame.received_at)
