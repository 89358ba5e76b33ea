"""Counts for dashboards: what is under way, by tier and path, and why datagrams came to nothing.

    Host ─ metrics_of ─▶ {"sessions": {"PROVEN": 3}, "dropped": {...}} ─ prometheus ─▶ text

Labels are the names of enum members: they do not change when a sentence is reworded. Nothing of it
names a client. Called by `io.server` and `io.asgi`; pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from instant_connect.host import Host
from instant_connect.tiers import Tier

Metrics = dict[str, dict[str, int]]
"""Counts by label value by metric; a metric without labels has the one value "" ."""
_OF_HISTOGRAMS: Final = ("_bucket", "_sum", "_count")
_HELP: Final[Mapping[str, tuple[str, str, str]]] = {
    "sessions": ("gauge", "tier", "Sessions by how much is proven of their client"),
    "waiting": ("gauge", "", "Clients whose checks are answered and who have not said hello"),
    "held_offers": ("gauge", "", "Offers that are answered and not taken up yet"),
    "tickets_used": ("gauge", "", "Tickets remembered as used"),
    "calls": ("gauge", "", "Calls that HTTP can name"),
    "proven": ("counter", "path", "Sessions whose client was proven, by the way they came"),
    "stale": ("counter", "why", "Attempts that an offer could not join"),
    "dropped": ("counter", "why", "Datagrams that named no session and made none"),
}


def metrics_of(host: Host) -> Metrics:
    """Return the counts of one server."""
    tiers = dict.fromkeys((tier.name for tier in Tier), 0)
    for session in host.sessions.all():
        tiers[session.tier.name] += 1
    return {
        "sessions": tiers,
        "waiting": {"": host.entrance.waiting},
        "held_offers": {"": len(host.sessions.held)},
        "tickets_used": {"": len(host.entrance.replay)},
        "proven": _named(host.sessions.proven),
        "stale": _named(host.answers.stale),
        "dropped": _named(host.entrance.discards),
    }


def _named(counts: Mapping[Any, int]) -> dict[str, int]:
    return {member.name: count for member, count in counts.items()}


def prometheus(metrics: Metrics) -> str:
    """Return the text that Prometheus scrapes (exposition format 0.0.4)."""
    lines = []
    for name, values in metrics.items():
        kind, label, text = _HELP[name]
        full = f"instant_connect_{name}{'_total' if kind == 'counter' else ''}"
        lines += [f"# HELP {full} {text}.", f"# TYPE {full} {kind}"]
        for value, count in sorted(values.items()):
            labels = f'{{{label}="{value.lower()}"}}' if label else ""
            lines.append(f"{full}{labels} {count}")
    return "\n".join(lines) + "\n"


def add_prometheus(texts: Sequence[str]) -> str:
    """Return the sum of what several servers tell; the words are those of the first."""
    heads: dict[str, list[str]] = {}
    totals: dict[str, dict[str, float]] = {}
    for text in texts:
        for line in text.splitlines():
            if line.startswith("#"):
                metric = line.split(" ", 3)[2]
                if line not in heads.setdefault(metric, []):
                    heads[metric].append(line)
            else:
                name, _, value = line.rpartition(" ")
                values = totals.setdefault(_metric_of(name.partition("{")[0], heads), {})
                values[name] = values.get(name, 0) + (float(value) if "." in value else int(value))
    lines = []
    for metric, head in heads.items():
        values = totals.get(metric, {})
        lines += [*head, *[f"{name} {_shown(value)}" for name, value in values.items()]]
    return "\n".join(lines) + "\n"


def _metric_of(name: str, heads: Mapping[str, object]) -> str:
    """Return the metric that a sample belongs to: those of a histogram have names of their own."""
    for suffix in _OF_HISTOGRAMS:
        if name not in heads and name.removesuffix(suffix) in heads:
            return name.removesuffix(suffix)
    return name


def _shown(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
