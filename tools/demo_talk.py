"""The demo's last call: a spoken question goes in by one datagram, the spoken answer comes out.

Like `demo_instant`, with the embedded voice behind the server: fetched before, at first use.
"""

from __future__ import annotations

from pathlib import Path

from warp_tools.audio import packaged_sound, read_wav
from warp_tools.conversation import Conversation
from warp_tools.delay import DelayPath, PathConfig
from warp_tools.demo_instant import begin_instant
from warp_tools.lines import Line, Worker
from warp_tools.opus import SAMPLE_RATE

_PEER = "warp_tools.talk_peer"
_LOAD_S = 120.0
_TALK_S = 60.0
"""For so long the answer is waited for behind the question."""


async def talk(order: Line, rtt_s: float, question: Path | None, out: Path | None) -> Conversation:
    """Hold the conversation over a path of this delay. Raises ToolFailure, one line."""
    server = await Worker.start(_PEER, "server")
    client = await Worker.start(_PEER, "client", str(question.absolute() if question else ""))
    order = {**order, "out": str(out.absolute() if out else "")}
    asked = packaged_sound("question") if question is None else read_wav(question)
    longest_s = len(asked) / SAMPLE_RATE + _TALK_S
    try:
        for worker in (server, client):
            await worker.expect("ready", timeout_s=_LOAD_S)
        with DelayPath(config=PathConfig(delay_s=rtt_s / 2)) as path:
            await begin_instant(order, path, rtt_s, client, server)
            told = await client.expect("talked", timeout_s=longest_s)
            for worker in (client, server):
                worker.send(order="hang_up")
                await worker.expect("hung_up")
    finally:
        for worker in (client, server):
            await worker.stop()
    return Conversation.of_json(told)
