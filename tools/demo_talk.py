"""The demo's last call: a spoken question goes in by one datagram, the spoken answer comes out.

Like `demo_instant`, with the embedded voice behind the server: fetched before, at first use.
"""

from __future__ import annotations

from pathlib import Path

from warp_tools.conversation import Conversation
from warp_tools.delay import DelayPath, PathConfig
from warp_tools.demo_instant import begin_instant
from warp_tools.lines import Line, Worker

_PEER = "warp_tools.talk_peer"
_LOAD_S = 120.0
_TALK_S = 60.0


async def talk(order: Line, rtt_s: float, question: Path | None, out: Path | None) -> Conversation:
    """Hold the conversation over a path of this delay. Raises ToolFailure, one line."""
    server = await Worker.start(_PEER, "server")
    client = await Worker.start(_PEER, "client", str(question.absolute() if question else ""))
    order = {**order, "out": str(out.absolute() if out else "")}
    try:
        for worker in (server, client):
            await worker.expect("ready", timeout_s=_LOAD_S)
        with DelayPath(config=PathConfig(delay_s=rtt_s / 2)) as path:
            await begin_instant(order, path, rtt_s, client, server)
            told = await client.expect("talked", timeout_s=_TALK_S)
            for worker in (client, server):
                worker.send(order="hang_up")
                await worker.expect("hung_up")
    finally:
        for worker in (client, server):
            await worker.stop()
    return Conversation.of_json(told)
