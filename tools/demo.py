"""`warp demo`: calls between two processes over a delayed path, and the ledger of their starts.

this process:  path (delay, ladder)     signalling over pipes, without delay and not counted,
                                        but in the last line, which counts from the intent
client process ──▶ front ═ delay ═ back ──▶ server process
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from warp_tools.audio import likeness, packaged_sound, read_wav
from warp_tools.delay import DelayPath, PathConfig, lead_through
from warp_tools.demo_instant import NAME, start_instant
from warp_tools.demo_talk import talk
from warp_tools.failure import ToolFailure
from warp_tools.ledger import Ledger, Row, Start, enter, first_check
from warp_tools.lines import Line, Worker
from warp_tools.opus import SAMPLE_RATE
from warp_tools.outputs import check_output

Progress = Callable[[str], object]

_SPEAKING = "warp"
_PEER = "warp_tools.demo_peer"
_WARM_UP: Final = 4
"""Calls without any delay before each that is counted: a server has had calls before this one, and
CPython specialises code that it has run a few times."""
_REPLY_S = 60.0
"""For so long the reply goes on behind the speech, at most."""


class _Speaking(NamedTuple):
    """What is spoken in one of the calls."""

    out: Path
    """Where to write what comes back."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Which parts of WARP a start uses."""

    version: str = "DTLS13"
    sped: bool = True
    snap: bool = True
    negotiated: bool = True
    hybrid: bool = False
    instant: bool = False


VARIANTS = {
    "plain": Variant(version="DTLS12", sped=False, snap=False, negotiated=False),
    "dtls13": Variant(sped=False, snap=False, negotiated=False),
    "sped": Variant(snap=False, negotiated=False),
    "snap": Variant(negotiated=False),
    "warp": Variant(),
    "warp-pq": Variant(hybrid=True),
    NAME: Variant(instant=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """What to show."""

    rtt_ms: float = 100.0
    speech: Path | None = None
    """The user's recording; else the one that the package carries."""
    out: Path | None = None
    """Where to write what came back."""
    question: Path | None = None
    """What the user asks the voice; else the question that the package carries."""
    conversation: Path | None = None
    """Where to write both sides of the conversation, as stereo."""
    talk: bool = True
    """Whether to talk with the embedded voice at the end."""

    def check(self) -> None:
        """Raise ToolFailure, one line, for files that cannot be read, written or kept."""
        for path in (self.speech, self.question):
            if path is not None:
                read_wav(path)
        if self.out is not None:
            check_output(self.out, keep=(self.speech, self.question))
        if self.conversation is not None:
            check_output(self.conversation, keep=(self.speech, self.question, self.out))


async def demo(config: DemoConfig, progress: Progress) -> Ledger:
    """Run every start and the call; returns the ledger. Raises ToolFailure, one line."""
    speech = read_wav(config.speech) if config.speech else packaged_sound("speech")
    ledger = Ledger(rtt_ms=config.rtt_ms, talks=config.talk)
    server = await Worker.start(_PEER, "server")
    client = await Worker.start(_PEER, "client", str(config.speech or ""))
    speech_s = len(speech) / SAMPLE_RATE
    try:
        for worker in (server, client):
            await worker.expect("ready", timeout_s=60)
        with tempfile.TemporaryDirectory() as folder:
            out = (config.out or Path(folder) / "reply.wav").absolute()
            for name, variant in VARIANTS.items():
                progress(f"calling: {name}")
                for _ in range(_WARM_UP):
                    if variant.instant:
                        await start_instant(asdict(variant), 0.0, client, server)
                    else:
                        await _start(name, variant, 0.0, client, server)
                if variant.instant:
                    row = await start_instant(asdict(variant), config.rtt_ms / 1000, client, server)
                    ledger.rows.append(row)
                    continue
                speaking = name == _SPEAKING
                row, spoken = await _start(
                    name,
                    variant,
                    config.rtt_ms / 1000,
                    client,
                    server,
                    _Speaking(out, speech_s) if speaking else None,
                )
                ledger.rows.append(row)
                if spoken is not None:
                    ledger.correlation = likeness(speech, read_wav(out)).correlation
                    ledger.audio_notes = {k: spoken[k] for k in ("seconds", "frames", "concealed")}
    finally:
        for worker in (client, server):
            await worker.stop()
    if config.talk:
        progress("talking")
        ledger.conversation = await talk(
            asdict(VARIANTS[NAME]), config.rtt_ms / 1000, config.question, config.conversation
        )
    return ledger


async def _start(
    name: str,
    variant: Variant,
    rtt_s: float,
    client: Worker,
    server: Worker,
    speaking: _Speaking | None = None,
) -> tuple[Row, Line | None]:
    order = {**asdict(variant), "out": str(speaking.out) if speaking is not None else ""}
    client.send(order="offer", role="client", **order)
    offer = (await client.expect("offer"))["sdp"]
    spoken = None
    with DelayPath(config=PathConfig(delay_s=rtt_s / 2)) as path:
        server.send(
            order="answer", role="server", offer=lead_through(offer, path.client_side), **order
        )
        answer = (await server.expect("answer"))["sdp"]
        path.lead_to(candidate_of(answer))
        client.send(order="accept", answer=lead_through(answer, path.server_side))
        times: dict[str, float] = {}
        for worker in (client, server):
            await worker.expect("started")
            for _ in range(2):
                mark = await worker.expect("mark")
                times[mark["name"]] = mark["at"]
        if speaking is not None:
            longest_s = speaking.seconds + _REPLY_S
            spoken = await client.expect("spoken", timeout_s=longest_s)
        client.send(order="hang_up")
        await client.expect("hung_up")
        server.send(order="hang_up")
        await server.expect("hung_up")
        began = first_check(path.ladder)
    if began is None:
        raise ToolFailure(f"{name}: no check ever left the client")
    start = Start(name=name, first_check=began, times=times, ladder=path.ladder)
    return enter(start, rtt_s or 1.0), spoken


def candidate_of(sdp: str) -> tuple[str, int]:
    """Return the address of a description's first UDP candidate."""
    for line in sdp.splitlines():
        if line.startswith("a=candidate:"):
            fields = line.split()
            if fields[2].lower() == "udp":
                return fields[4], int(fields[5])
    raise ToolFailure("the server's answer names no address")
