"""The two processes of the demo's conversation: `python -m warp_tools.talk_peer server|client`.

Orders as in `demo_peer`: a bundle, a call by it, the offer that follows. The server answers with
the embedded voice; the client asks a question, listens, and tells what it came to.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from instant_connect.calls import CallInfo
from instant_connect.host import HostConfig
from instant_connect.io import Arrival, InstantConfig, Kind, listen_instant
from warp.io import ServerConfig
from warp_tools.audio import packaged_sound, read_wav
from warp_tools.backends import make_embedded
from warp_tools.conversation import Caller
from warp_tools.demo_peer import CHANNEL_ID, ClientPeer, Peer, attach, obey_all, options
from warp_tools.lines import Line, Lines
from warp_tools.opus import Samples
from warp_tools.voice_server import VoiceServer, open_voice_server

EVENTS = "oai-events"


class VoicePeer(Peer):
    """One server with one voice; every call begins with its first datagram."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(lines)
        self._server: VoiceServer | None = None

    async def obey(self, order: Line) -> None:
        """Carry out one order."""
        match order["order"]:
            case "bundle":
                server = self._server = await self._open(order)
                self.lines.write(event="bundle", text=server.instant.bundle())
            case "attach" if self._server is not None:
                self.start(attach(self.lines, self._server.instant, order))
            case "hang_up":
                if self._server is not None:
                    await self._server.close()
                self.lines.write(event="hung_up")

    async def _open(self, order: Line) -> VoiceServer:
        config = InstantConfig(
            host=HostConfig(dcid=CHANNEL_ID),
            server=ServerConfig(warp=options(order), early_data=True, audio_in_order=False),
        )
        made = await listen_instant("127.0.0.1", 0, config=config)
        server = await open_voice_server(made, make_embedded())

        def accept(arrival: Arrival) -> None:
            info = CallInfo(id="demo", kind=Kind.REALTIME, path=arrival.path, events=arrival.events)
            self.start(server.receive_call(arrival.session, info))

        made.receive_arrivals(accept)
        return server


class TalkPeer(ClientPeer):
    """Asks its question by a ticket."""

    def __init__(self, lines: Lines, question: Samples) -> None:
        super().__init__(lines, question[:0])
        self._question = question

    async def _call_by_ticket(self, order: Line) -> None:
        session = await self._connect_by_ticket(order)
        events = session.channel(EVENTS, negotiated=True, stream_id=CHANNEL_ID)
        out = Path(order["out"]) if order["out"] else None
        found = await Caller(session, events).ask(self._question, out)
        self.lines.write(event="talked", **found.to_json())


async def main(role: str, question: str = "") -> None:
    """Obey the parent until it closes the pipe."""
    lines = Lines()
    peer: Peer
    if role == "server":
        peer = VoicePeer(lines)
    else:
        sound = read_wav(Path(question)) if question else packaged_sound("question")
        peer = TalkPeer(lines, sound)
    await obey_all(peer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
