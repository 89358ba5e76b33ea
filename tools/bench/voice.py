"""`warp bench voice`: how many conversations the embedded voice carries, with every frame on time.

C is the largest number of sessions, open at once, with no frame handed to the packetiser late:
sessions arrive by chance (open loop), their callers ask, listen, and now and then talk into an
answer, over Opus and SRTP, with 1 % of media lost each way. Late frames are counted by cause.

    this process: callers ══ SRTP ══ lossy path (process) ══ server (process) ─ engine (process)
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

from voice_backend.audio.resample import resampled
from voice_backend.models.jobs import finish
from voice_backend.models.mouth import RATE as VOICE_RATE
from voice_backend.models.mouth import Mouth, Utterance
from voice_backend.models.store import Store
from warp.io import Client, ClientConfig, Session
from warp_tools.bench.report import Target
from warp_tools.bench.slices import percentile
from warp_tools.bench.voice_caller import Caller, Heard, Plan, Question
from warp_tools.bench.voice_path import open_path
from warp_tools.conversation import audible_frames
from warp_tools.delay import lead_through
from warp_tools.lines import Worker
from warp_tools.opus import FRAME_SAMPLES, SAMPLE_RATE, encoded

STEPS: Final = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32)
SESSIONS_TARGET: Final = 16
P50_TARGET_MS: Final = 500.0
P95_TARGET_MS: Final = 900.0
SECONDS: Final = 60.0
LOSS: Final = 0.01
RAMP_S: Final = 6.0
_LOAD_S = 120.0
_PARTY = "warp_tools.bench.voice_party"
PHRASES: Final = (
    "What is seven times eight?",
    "What time is it?",
    "Please count from one to five.",
    "My name is Alexander.",
    "What is twenty plus twenty two?",
    "Can you repeat that, please?",
    "Tell me what you can do.",
    "How are you today?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one number of sessions came to."""

    sessions: int
    frames: int
    late: int
    late_by_cause: dict[str, int]
    missing_ms: int
    longest_late_run: int
    reply_ms: dict[str, float]
    replies: int
    unanswered: int
    overlaps: int
    tick_p99_ms: float
    server_mib: int

    @property
    def is_carried(self) -> bool:
        """Whether every frame was on time."""
        return self.frames > 0 and self.late == 0


@dataclass(slots=True)
class VoiceReport:
    """All trials, and what had to be reached."""

    seconds: float
    loss: float
    trials: list[Trial] = field(default_factory=list)
    latencies: dict[int, list[float]] = field(default_factory=dict)
    """Milliseconds to each answer, by number of sessions: for the picture."""

    @property
    def best(self) -> Trial | None:
        """The largest number without a late frame."""
        carried = [trial for trial in self.trials if trial.is_carried]
        return max(carried, key=lambda trial: trial.sessions, default=None)

    @property
    def judged(self) -> Trial | None:
        """The trial that the targets speak of; the last one if it was not made."""
        found = [trial for trial in self.trials if trial.sessions == SESSIONS_TARGET]
        return found[-1] if found else (self.trials[-1] if self.trials else None)

    @property
    def targets(self) -> list[Target]:
        """What has to be reached."""
        best, judged = self.best, self.judged
        reply = judged.reply_ms if judged is not None else {}
        return [
            Target(
                name="sessions without a late frame",
                value=best.sessions if best is not None else 0,
                limit=SESSIONS_TARGET,
                at_least=True,
            ),
            Target(name="ms to an answer, median", value=reply.get("p50"), limit=P50_TARGET_MS),
            Target(name="ms to an answer, p95", value=reply.get("p95"), limit=P95_TARGET_MS),
        ]

    @property
    def targets_met(self) -> bool:
        """Whether every target is met."""
        return all(target.met for target in self.targets)

    def to_json(self) -> dict[str, Any]:
        """Return the report for machines; `late_by_cause` and `reply_ms` are the judged trial's."""
        best, judged = self.best, self.judged
        return {
            "sessions_no_late": best.sessions if best is not None else 0,
            "late_by_cause": judged.late_by_cause if judged is not None else {},
            "reply_ms": judged.reply_ms if judged is not None else {},
            "targets_met": self.targets_met,
            "misses": [str(target) for target in self.targets if not target.met],
            "seconds": self.seconds,
            "loss": self.loss,
            "backend": "duplex-cpu",
            "frame_ms": 20,
            "trials": [asdict(trial) for trial in self.trials],
        }

    def show(self, console: Console) -> None:
        """Print the report for people."""
        table = Table(title=f"Conversations, {self.seconds:g} s, {self.loss:.0%} loss each way")
        for column in ("sessions", "frames", "late", "causes", "answer p50/p95 ms", "unanswered"):
            table.add_column(column, justify="right")
        for trial in sorted(self.trials, key=lambda one: one.sessions):
            causes = ", ".join(f"{k} {v}" for k, v in trial.late_by_cause.items() if v)
            reply = trial.reply_ms
            table.add_row(
                str(trial.sessions),
                f"{trial.frames:,}",
                str(trial.late),
                causes or "-",
                f"{reply.get('p50', 0):.0f} / {reply.get('p95', 0):.0f}",
                str(trial.unanswered),
            )
        console.print(table)
        for target in self.targets:
            style = "green" if target.met else "bold red"
            console.print(f"{'met' if target.met else 'missed'}: {target}", style=style)


async def run(*, quick: bool = False, sessions: int | None = None, seed: int = 1) -> VoiceReport:
    """Find the capacity; with `sessions`, measure that number alone."""
    seconds = 20.0 if quick else SECONDS
    report = VoiceReport(seconds, LOSS)
    questions = questions_of(PHRASES)
    if sessions is not None:
        await _add(report, sessions, questions, seed)
        return report
    low, high = 0, len(STEPS)
    at = STEPS.index(SESSIONS_TARGET)
    while low < high:
        trial = await _add(report, STEPS[at], questions, seed)
        if trial.is_carried:
            low = at + 1
        else:
            high = at
        at = (low + high) // 2
    return report


async def _add(
    report: VoiceReport, sessions: int, questions: Sequence[Question], seed: int
) -> Trial:
    server = await Worker.start(_PARTY)
    try:
        port = int((await server.expect("ready", timeout_s=_LOAD_S))["port"])
        found = await _talk(server, port, sessions, report.seconds, questions, seed)
        server.send(order="stats")
        told = await server.expect("stats")
    finally:
        await server.stop()
    frames = told["stats"]["frames"]
    replies = sorted(ms for one in found for ms in one.reply_ms)
    trial = Trial(
        sessions=sessions,
        frames=frames["frames"],
        late=sum(frames["late"].values()),
        late_by_cause=frames["late"],
        missing_ms=frames["missing_ms"],
        longest_late_run=frames["longest_late_run"],
        reply_ms={
            "p50": round(statistics.median(replies), 1) if replies else 0.0,
            "p95": round(percentile(replies, 0.95), 1),
        },
        replies=len(replies),
        unanswered=sum(one.unanswered for one in found),
        overlaps=sum(one.overlaps for one in found),
        tick_p99_ms=told["stats"]["tick_p99_ms"],
        server_mib=told["kib"] // 1024,
    )
    report.trials.append(trial)
    report.latencies[sessions] = replies
    return trial


async def _talk(
    server: Worker,
    port: int,
    sessions: int,
    seconds: float,
    questions: Sequence[Question],
    seed: int,
) -> list[Heard]:
    """Let so many callers talk; returns what each heard."""
    luck = random.Random(seed)
    loop = asyncio.get_running_loop()
    silence = encoded(np.zeros(FRAME_SAMPLES * 4, np.int16))[2]
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(open_path(port, LOSS, seed))
        client = Client()

        async def signal(offer: str) -> str:
            server.send(order="answer", offer=offer)
            return lead_through((await server.expect("answer"))["sdp"], ("127.0.0.1", front))

        async def call(number: int, after_s: float, until: float) -> Heard:
            await asyncio.sleep(after_s)
            async with turn:
                config = ClientConfig(host="127.0.0.1", loopback=True)
                session: Session = await client.connect(signal, config=config)
                await session.connected()
            stack.push_async_callback(session.close)
            caller = Caller(session, questions, silence, seed * 1_000 + number, Plan())
            return await caller.run(until)

        turn = asyncio.Lock()
        until = loop.time() + RAMP_S + seconds
        arrivals = sorted(luck.uniform(0, RAMP_S) for _ in range(sessions))
        return list(
            await asyncio.gather(*[call(n, after, until) for n, after in enumerate(arrivals)])
        )


def questions_of(phrases: Sequence[str]) -> list[Question]:
    """Return phrases as the embedded voice says them, encoded."""
    mouth = Mouth.load(Store())
    return [_question(finish(mouth.say(phrase))) for phrase in phrases]


def _question(clause: Utterance) -> Question:
    sound = resampled(clause.pcm, VOICE_RATE, SAMPLE_RATE)
    return Question(encoded(sound), audible_frames(sound))


def plot(report: VoiceReport, path: Path) -> None:
    """Draw late frames by cause and times of answers, by number of sessions (PNG)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    trials = sorted(report.trials, key=lambda one: one.sessions)
    places = [str(one.sessions) for one in trials]
    below = np.zeros(len(trials))
    for cause in trials[0].late_by_cause if trials else ():
        share = np.array([1e4 * t.late_by_cause[cause] / max(1, t.frames) for t in trials])
        left.bar(places, share, bottom=below, label=cause)
        below = below + share
    left.set(title="Late frames", xlabel="sessions", ylabel="of 10,000 frames")
    left.legend()
    for trial in trials:
        times = report.latencies[trial.sessions]
        if times:
            shares = np.arange(1, len(times) + 1) / len(times)
            right.plot(times, shares, label=f"{trial.sessions} sessions")
    for limit in (P50_TARGET_MS, P95_TARGET_MS):
        right.axvline(limit, color="grey", linestyle=":")
    right.set(title="Time to an answer", xlabel="ms", ylabel="share of answers", ylim=(0, 1))
    right.legend()
    figure.savefig(path)
