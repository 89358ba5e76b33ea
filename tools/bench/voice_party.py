"""The measured process of `warp bench voice`: one server whose calls the embedded voice takes.

Obeys one order a line (see `warp_tools.lines`): `answer` to an offer, `stats`, and the end.
"""

from __future__ import annotations

import asyncio
import contextlib

from voice_backend.model import SessionConfig
from warp.errors import WarpError
from warp.io import ServerConfig, Session, listen
from warp_tools.backends import make_embedded
from warp_tools.bench.child import resident_kib
from warp_tools.lines import Line, Lines
from warp_tools.voice_server import VoiceServer, open_voice_server


class VoiceParty:
    """Answers calls, and says what became of their frames."""

    def __init__(self, lines: Lines, server: VoiceServer) -> None:
        self._lines = lines
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()

    def obey(self, order: Line) -> None:
        """Carry out one order."""
        if order["order"] == "answer":
            session = self._server.plain.accept_offer(order["offer"])
            task = asyncio.ensure_future(self._attend(session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._lines.write(event="answer", sdp=session.answer)
        else:
            stats = self._server.voices.stats()
            self._lines.write(event="stats", stats=stats, kib=resident_kib())

    async def _attend(self, session: Session) -> None:
        # a caller that is refused or goes away shows as one that is not answered
        with contextlib.suppress(WarpError):
            await self._server.voices.attend(session, SessionConfig())


async def main() -> None:
    """Obey the parent until it closes the pipe."""
    lines = Lines()
    made = await listen("127.0.0.1", config=ServerConfig(early_data=True, audio_in_order=False))
    server = await open_voice_server(made, make_embedded())
    party = VoiceParty(lines, server)
    lines.write(event="ready", port=server.udp_port)
    while (order := await lines.read()) is not None:
        party.obey(order)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main())
