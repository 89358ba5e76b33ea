"""From measured starts to rows with a verdict, and from those to a table or JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interop.measure.clients import AUDIBLE_MS, AUDIBLE_RTT, JITTER_RTT
from interop.measure.series import Series
from interop.measure.start import Figures
from warp_tools.dissect import describe

_DIGITS = 2
_HEAD = ("client", "", "connected", "channel open", "audible after", "met")
_MOST_RUNGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A median, with the least and the most of its runs."""

    rtt: float
    ms: float
    least_rtt: float
    most_rtt: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What starts have cost."""

    answered: Cost
    connected: Cost
    channel: Cost
    audible: Cost | None
    """After `connected`: the first sound of the peer's in the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One client: what it costs, what it may cost, what it costs towards its own kind."""

    client: str
    title: str
    version: str
    rtt_ms: float
    runs: int
    ours: Costs
    baseline: Costs
    connected_limit_rtt: float
    channel_limit_rtt: float
    audible_limit_ms: float
    as_baseline: bool
    """The limits are the baseline's medians, plus `JITTER_RTT`."""

    @property
    def met(self) -> bool:
        """Whether every median is within its limit."""
        ours = self.ours
        return (
            ours.connected.rtt <= self.connected_limit_rtt
            and ours.channel.rtt <= self.channel_limit_rtt
            and ours.audible is not None
            and ours.audible.ms <= self.audible_limit_ms
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row for machines."""
        ours = self.ours
        return {
            "client": self.client,
            "title": self.title,
            "version": self.version,
            "rtt_ms": self.rtt_ms,
            "runs": self.runs,
            "connected_rtt": ours.connected.rtt,
            "channel_rtt": ours.channel.rtt,
            "audible_after_connected_ms": None if ours.audible is None else ours.audible.ms,
            "target": {
                "connected_rtt": self.connected_limit_rtt,
                "channel_rtt": self.channel_limit_rtt,
                "audible_after_connected_ms": self.audible_limit_ms,
                "jitter_rtt_included": JITTER_RTT if self.as_baseline else 0.0,
            },
            "met": self.met,
            "baseline": {
                "connected_rtt": self.baseline.connected.rtt,
                "channel_rtt": self.baseline.channel.rtt,
            },
            "spread": {"ours": asdict(ours), "baseline": asdict(self.baseline)},
        }


def judge(series: Series) -> Row:
    """Compare the medians with what they may be."""
    rtt_ms = 1000 * series.config.rtt_s
    ours, baseline = costs(series.ours, rtt_ms), costs(series.baseline, rtt_ms)
    target = series.client.target

    def limit(fixed: float | None, theirs: Cost) -> float:
        return fixed if fixed is not None else round(theirs.rtt + JITTER_RTT, _DIGITS)

    return Row(
        client=series.client.name,
        title=series.client.title,
        version=series.version,
        rtt_ms=rtt_ms,
        runs=len(series.ours),
        ours=ours,
        baseline=baseline,
        connected_limit_rtt=limit(target.connected_rtt, baseline.connected),
        channel_limit_rtt=limit(target.channel_rtt, baseline.channel),
        audible_limit_ms=AUDIBLE_RTT * rtt_ms + AUDIBLE_MS,
        as_baseline=target.connected_rtt is None,
    )


def costs(starts: Sequence[Figures], rtt_ms: float) -> Costs:
    """Return the medians of starts."""

    def cost(of: Callable[[Figures], float]) -> Cost:
        values = [of(start) for start in starts]
        median = statistics.median(values)
        return Cost(
            rtt=round(median / rtt_ms, _DIGITS),
            ms=round(median, 1),
            least_rtt=round(min(values) / rtt_ms, _DIGITS),
            most_rtt=round(max(values) / rtt_ms, _DIGITS),
        )

    listened = all(start.audible_ms is not None for start in starts)
    return Costs(
        answered=cost(lambda start: start.answered_ms),
        connected=cost(lambda start: start.connected_ms),
        channel=cost(lambda start: start.channel_ms),
        audible=cost(lambda start: (start.audible_ms or 0.0) - start.connected_ms)
        if listened
        else None,
    )


# -- for people -----------------------------------------------------------------------------------


def render(rows: Sequence[Row]) -> str:
    """Return the table: three lines a client."""
    lines = [_HEAD]
    for row in rows:
        ours, baseline = row.ours, row.baseline
        most = (
            _limit(row, row.connected_limit_rtt),
            _limit(row, row.channel_limit_rtt),
            f"<= {row.audible_limit_ms:.0f} ms",
        )
        audible = "" if ours.audible is None else f"{ours.audible.ms:.0f} ms"
        verdict = "yes" if row.met else "NO"
        lines += [
            (row.title, "to us", _cost(ours.connected), _cost(ours.channel), audible, verdict),
            (row.version, "target", *most, ""),
            ("", "to its own", _cost(baseline.connected), _cost(baseline.channel), "", ""),
        ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    if rows:
        text += ["", _legend(rows[0])]
    return "\n".join(text)


def _limit(row: Row, limit_rtt: float) -> str:
    if row.as_baseline:
        return f"<= {limit_rtt - JITTER_RTT:.2f} + {JITTER_RTT:g}"
    return f"<= {limit_rtt:.2f}"


def _cost(cost: Cost) -> str:
    return f"{cost.rtt:.2f}  {cost.ms:.0f} ms  ({cost.least_rtt:.2f} to {cost.most_rtt:.2f})"


def _legend(row: Row) -> str:
    return (
        f"Round trips of {row.rtt_ms:g} ms since the page sent its offer, at the client: median of "
        f"{row.runs} (least to most).\n"
        "One of them is signalling's. Starts to us and to another tab of the same browser take\n"
        f"turns; two medians of the same start differ by up to {JITTER_RTT:g}."
    )


def ladder(figures: Figures, rtt_ms: float) -> str:
    """Return the datagrams of one start, in round trips since the offer."""
    lines = []
    for at_ms, from_client, data in figures.ladder[:_MOST_RUNGS]:
        who = "client ──▶       " if from_client else "      ◀── server"
        lines.append(f"{at_ms / rtt_ms:7.3f}  {who:17}  {len(data):5}  {describe(data).text}")
    return "\n".join(lines)
