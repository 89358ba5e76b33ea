"""The round-trip ledger: when each part of a start came, counted in round trips.

Time zero is the moment the client's first check leaves; signalling is not counted. A call by a
ticket is counted from the intent: its signalling happens meanwhile. Each figure is when the event
happens at its own end: media when it is sent, a channel when it opens there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warp_tools.conversation import Conversation
from warp_tools.delay import Rung

MILESTONES = (
    "dtls_client",
    "dtls_server",
    "server_media",
    "client_media",
    "channel_client",
    "channel_server",
)
TARGETS: dict[str, dict[str, float]] = {
    # what everybody pays today; a slower plain start would flatter us
    "plain": {"server_media": 2.5, "client_media": 3.0, "channel_client": 5.0},
    "warp": {
        "server_media": 0.5,
        "client_media": 1.0,
        "channel_client": 1.0,
        "channel_server": 1.5,
    },
}
TARGETS["warp-pq"] = TARGETS["instant"] = TARGETS["warp"]
TOLERANCE_RTT = 0.2
"""Milestones lie half a round trip apart; processes, sockets and timers need a few ms."""
TOLERANCE_SHARE = 0.1
"""Every hop adds its processing and the delay path's own slack, so more hops may add more."""
CORRELATION_TARGET = 0.9


def tolerance(target: float) -> float:
    """Return by how many round trips a start on real sockets may exceed a target."""
    return max(TOLERANCE_RTT, TOLERANCE_SHARE * target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One measured start. Times are monotonic seconds; a milestone that never came is absent."""

    name: str
    first_check: float  # or the intent
    times: dict[str, float]
    ladder: Sequence[Rung]


class Had(NamedTuple):
    """What the server had of the client, from so many milliseconds on."""

    ms: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the ledger."""

    name: str
    rtt_ms: float
    ms: dict[str, float]
    """Milliseconds after the first check, by milestone."""
    datagrams: int
    """Datagrams that the start took, both ways, media left out."""
    bytes: int
    ladder: Sequence[Rung] = ()
    began: float = 0.0
    """Time zero, in monotonic seconds."""
    had: Sequence[Had] = ()

    def round_trips(self, milestone: str) -> float | None:
        """Return when a milestone came, in round trips, or None if it never did."""
        at = self.ms.get(milestone)
        return None if at is None else at / self.rtt_ms

    def to_json(self) -> dict[str, Any]:
        """Return the row for machines."""
        out: dict[str, Any] = {"name": self.name}
        for milestone in MILESTONES:
            value = self.round_trips(milestone)
            out[f"{milestone}_rtt"] = None if value is None else round(value, 2)
        out["ms"] = {key: round(value, 1) for key, value in self.ms.items()}
        out["datagrams"] = self.datagrams
        out["bytes"] = self.bytes
        if self.had:
            out["server_had"] = [
                {"rtt": round(ms / self.rtt_ms, 2), "what": what} for ms, what in self.had
            ]
        return out


def enter(start: Start, rtt_s: float, *, had: Sequence[Had] = ()) -> Row:
    """Turn a measured start into a line of the ledger."""
    rungs = [rung for rung in start.ladder if rung.time >= start.first_check - 0.001]
    times = dict(start.times)
    for milestone, from_client in (("server_media", False), ("client_media", True)):
        sent = first_media(rungs, from_client=from_client)
        if sent is not None:
            times[milestone] = sent
    end = max(times.values(), default=start.first_check)
    counted = [
        rung for rung in rungs if rung.time <= end and rung.description.kind not in ("rtp", "rtcp")
    ]
    return Row(
        name=start.name,
        rtt_ms=rtt_s * 1000,
        ms={
            name: max(0.0, (times[name] - start.first_check) * 1000)
            for name in MILESTONES
            if name in times
        },
        datagrams=len(counted),
        bytes=sum(rung.size for rung in counted),
        ladder=rungs,
        began=start.first_check,
        had=had,
    )


def first_check(ladder: Sequence[Rung]) -> float | None:
    """Return when the client's first connectivity check left."""
    return next((r.time for r in ladder if r.from_client and r.description.kind == "stun"), None)


def first_media(ladder: Sequence[Rung], *, from_client: bool) -> float | None:
    """Return when one side's first media packet left."""
    return next(
        (r.time for r in ladder if r.from_client is from_client and r.description.kind == "rtp"),
        None,
    )


@dataclass(slots=True)
class Ledger:
    """All rows of one run, and what they must reach."""

    rtt_ms: float
    rows: list[Row] = field(default_factory=list)
    correlation: float | None = None
    audio_notes: dict[str, Any] = field(default_factory=dict)
    talks: bool = False
    """Whether there is a conversation at the end."""
    conversation: Conversation | None = None

    def targets(self) -> dict[str, dict[str, float]]:
        """Return what was checked, in round trips, by start and milestone."""
        return {row.name: TARGETS[row.name] for row in self.rows if row.name in TARGETS}

    def misses(self) -> list[str]:
        """Return what falls short, one sentence each; empty when all targets are met."""
        found = []
        for row in self.rows:
            found += too_late(row) + carried_in_one(row)
        if self.correlation is None:
            found.append("audio: nothing came back")
        elif self.correlation < CORRELATION_TARGET:
            found.append(
                f"audio: what came back is not the speech sent "
                f"(correlation {self.correlation:.2f}, target {CORRELATION_TARGET:g})"
            )
        if self.talks:
            found += unanswered(self.conversation)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the whole ledger for machines."""
        misses = self.misses()
        return {
            "rtt_ms": self.rtt_ms,
            "ledger": [row.to_json() for row in self.rows],
            "audio": {
                "correlation": None if self.correlation is None else round(self.correlation, 3),
                **self.audio_notes,
            },
            **({"talk": self.conversation.to_json()} if self.conversation else {}),
            "targets": self.targets(),
            "targets_met": not misses,
            "misses": misses,
        }


def too_late(row: Row) -> list[str]:
    """Return the milestones of a start that have a target and do not meet it."""
    found = []
    for milestone, target in TARGETS.get(row.name, {}).items():
        value = row.round_trips(milestone)
        if value is None:
            found.append(f"{row.name}: {milestone} never came (target {target:g} RTT)")
        elif value > target + tolerance(target):
            found.append(f"{row.name}: {milestone} at {value:.2f} RTT, target {target:g}")
    return found


def unanswered(conversation: Conversation | None) -> list[str]:
    """Return what is missing of a question that was heard, answered, and written down."""
    if conversation is None or conversation.reply_ms is None:
        return ["talk: no spoken answer came"]
    found = []
    if not conversation.question:
        found.append("talk: the question was not understood")
    if not conversation.answer:
        found.append("talk: the answer was not written down")
    return found


def carried_in_one(row: Row) -> list[str]:
    """With WARP the first check carries the ClientHello whole, and one answer the flight whole."""
    if row.name not in ("warp", "instant"):
        return []
    requests = [rung for rung in row.ladder if rung.from_client]
    answers = [rung for rung in row.ladder if not rung.from_client]
    found = []
    if not requests or "carries ClientHello (" not in requests[0].description.text:
        found.append(f"{row.name}: the first check does not carry the whole ClientHello")
    if not answers or "carries ServerHello + encrypted" not in answers[0].description.text:
        found.append(f"{row.name}: the first answer does not carry the server's flight")
    return found
