"""What `warp bench voice` found: trials, the largest number in time, and what had to be reached.

Called by `voice` and `voice_plot`; pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from warp_tools.bench.neighbours import NOISY_CORES
from warp_tools.bench.report import Target
from warp_tools.bench.voice_stages import STAGES

SESSIONS_TARGET: Final = 16
P50_TARGET_MS: Final = 500.0
P95_TARGET_MS: Final = 900.0
BARGE_IN_TARGET_MS: Final = 60.0
STANDSTILL_MS: Final = 12.0
"""A stop of the machine this long, added to a tick's own work, makes frames late."""
Shares = dict[str, float]
"""`p50` and `p95`; empty where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one number of sessions came to."""

    sessions: int
    frames: int
    late: int
    late_by_cause: dict[str, int]
    missing_ms: int
    longest_late_run: int
    reply_ms: Shares
    stages_ms: dict[str, float]
    """Medians, in the order of `STAGES`."""
    barge_in_ms: Shares
    """From when the voice had heard 200 ms of its caller's speech to the last sound of its own.

    Below 0: it was silent by then."""
    barge_in_heard_ms: Shares
    """The same as its caller has it: the jitter buffer's delay is in it."""
    replies: int
    unanswered: int
    overlaps: int
    calls: int
    """Calls begun; some hang up and others come in their place."""
    refused: int
    """Calls that there was no room for, or that were not connected."""
    tick_p99_ms: float
    server_mib: int
    neighbours_cores: float | None
    """How many cores other processes of the machine kept busy meanwhile; None: nobody knows."""
    standstill_ms: float | None
    """For how long the machine itself stood still at the most; None: nobody knows."""

    @property
    def is_carried(self) -> bool:
        """Whether everybody was taken, and every frame was on time."""
        return self.frames > 0 and self.late == 0 and self.refused == 0

    @property
    def is_noisy(self) -> bool:
        """Whether something else than the voice may have had a part in what went wrong."""
        return self.disturbance is not None

    @property
    def disturbance(self) -> str | None:
        """What that is; None: nothing of the kind."""
        if self.standstill_ms is not None and self.standstill_ms > STANDSTILL_MS:
            return f"the machine stood still for {self.standstill_ms:.0f} ms"
        if self.neighbours_cores is not None and self.neighbours_cores > NOISY_CORES:
            return f"other processes kept {self.neighbours_cores:.1f} cores busy"
        return None


@dataclass(slots=True)
class VoiceReport:
    """All trials, and what had to be reached."""

    loss: float
    trials: list[Trial] = field(default_factory=list)
    latencies: dict[int, list[float]] = field(default_factory=dict)
    """Milliseconds to each answer, by number of sessions: for the picture."""
    seconds: dict[int, float] = field(default_factory=dict)
    """How long each number was held."""
    remarks: list[str] = field(default_factory=list)

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
    def last(self) -> list[Trial]:
        """The last trial of each number, by number."""
        by_number = {trial.sessions: trial for trial in self.trials}
        return [by_number[number] for number in sorted(by_number)]

    @property
    def targets(self) -> list[Target]:
        """What has to be reached."""
        best, judged = self.best, self.judged
        reply = judged.reply_ms if judged is not None else {}
        stop = judged.barge_in_ms if judged is not None else {}
        carried = best.sessions if best is not None else 0
        return [
            Target(
                name="sessions without a late frame",
                value=carried,
                limit=SESSIONS_TARGET,
                at_least=True,
            ),
            Target(name="ms to an answer, median", value=reply.get("p50"), limit=P50_TARGET_MS),
            Target(name="ms to an answer, p95", value=reply.get("p95"), limit=P95_TARGET_MS),
            Target(
                name="ms to silence at barge-in, median",
                value=stop.get("p50"),
                limit=BARGE_IN_TARGET_MS,
            ),
        ]

    @property
    def targets_met(self) -> bool:
        """Whether every target is met."""
        return all(target.met for target in self.targets)

    def to_json(self) -> dict[str, Any]:
        """Return the report for machines; but for the number carried, it is the judged trial's."""
        best, judged = self.best, self.judged
        told: dict[str, Any] = {} if judged is None else asdict(judged)
        return {
            "sessions_no_late": best.sessions if best is not None else 0,
            "late_by_cause": told.get("late_by_cause", {}),
            "reply_ms": told.get("reply_ms", {}),
            "stages_ms": told.get("stages_ms", {}),
            "barge_in_ms": told.get("barge_in_ms", {}),
            "targets": [
                {"name": one.name, "value": one.value, "limit": one.limit, "met": one.met}
                for one in self.targets
            ],
            "targets_met": self.targets_met,
            "misses": [str(target) for target in self.targets if not target.met],
            "remarks": self.remarks,
            "seconds": self.seconds,
            "loss": self.loss,
            "backend": "duplex-cpu",
            "frame_ms": 20,
            "trials": [asdict(trial) for trial in self.trials],
        }

    def show(self, console: Console) -> None:
        """Print the report for people."""
        table = Table(title=f"Conversations, {self.loss:.0%} of media lost each way")
        for column in ("sessions", "frames", "late", "causes", "answer p50/p95 ms", "unanswered"):
            table.add_column(column, justify="right")
        for trial in sorted(self.trials, key=lambda one: one.sessions):
            causes = ", ".join(f"{k} {v}" for k, v in trial.late_by_cause.items() if v)
            if trial.refused:
                causes = f"{causes}, {trial.refused} refused".lstrip(", ")
            table.add_row(
                str(trial.sessions),
                f"{trial.frames:,}",
                str(trial.late),
                causes or "-",
                _shown(trial.reply_ms),
                str(trial.unanswered),
            )
        console.print(table)
        if self.judged is not None and self.judged.stages_ms:
            stages = Table(title=f"Where an answer's time goes, {self.judged.sessions} sessions")
            stages.add_column("stage")
            stages.add_column("median ms", justify="right")
            stages.add_column("")
            for name, value in self.judged.stages_ms.items():
                stages.add_row(name, f"{value:.0f}", STAGES[name])
            console.print(stages)
        for remark in self.remarks:
            console.print(remark, style="yellow")
        for target in self.targets:
            style = "green" if target.met else "bold red"
            console.print(f"{'met' if target.met else 'missed'}: {target}", style=style)


def _shown(shares: Shares) -> str:
    return f"{shares['p50']:.0f} / {shares['p95']:.0f}" if shares else "-"
