"""The demo's last call: a spoken question goes in by one datagram, the spoken answer comes out.

Like `demo_instant`, with the embedded voice behind the server: fetched before, at first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from warp_tools.audio import packaged_sound, read_wav
from warp_tools.conversation import Conversation
from warp_tools.delay import DelayPath, PathConfig, Rung
from warp_tools.demo_instant import begin_instant
from warp_tools.lines import Line, Worker
from warp_tools.opus import SAMPLE_RATE

PACKAGED_QUESTION = "What is seven times eight?"
_PEER = "warp_tools.talk_peer"
_FRAME_S = 0.02
_TORN_S = 0.06
"""A longer gap than that is no jitter: a quiet path leaves the voice little to bridge it with."""
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
            late = late_frames(path.ladder)
    finally:
        for worker in (client, server):
            await worker.stop()
    found = Conversation.of_json(told)
    found.asked = PACKAGED_QUESTION if question is None else ""
    found.late = late
    return found


def late_frames(ladder: Sequence[Rung]) -> int:
    """Return for how many frames of the question nothing had left that could be heard in time."""
    spoken = [r.time for r in ladder if r.from_client and r.description.kind == "rtp"]
    gaps = (behind - before for before, behind in pairwise(spoken))
    return sum(round(gap / _FRAME_S) - 1 for gap in gaps if gap > _TORN_S)
