"""A report for people: a few lines a connection, what stayed shut and why, and what was written.

Called by the command `warp pcap decrypt`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from warp_tools.capture.finding import several
from warp_tools.decrypt.report import Outcome, Verdict, both_sides
from warp_tools.decrypt.run import DecryptConfig, Report

SHOWN: Final = 20
_KEPT_FOR_SHUT: Final = 5
_RANKS: Final = (Verdict.PARTLY, Verdict.OPENED, Verdict.SHUT, Verdict.CLEAR)


def lines(report: Report, config: DecryptConfig) -> Iterator[str]:
    """Yield the report, line by line."""
    shown, rest = _choose(report.outcomes)
    for outcome in shown:
        yield from _connection(outcome)
    if rest:
        counts = Counter(outcome.verdict for outcome in rest)
        kinds = ", ".join(
            f"{counts[verdict]} {verdict.value}" for verdict in _RANKS if counts[verdict]
        )
        yield f"… and {len(rest)} connections more: {kinds} (--json has them all)"
    yield from (f"note: {note}" for note in report.notes)
    if config.plain is not None:
        yield f"{config.plain}: {several(sum(report.packets.values()), 'packet')}"
    if config.messages is not None:
        yield f"{config.messages}: {several(report.messages, 'message')}"
    for one in report.audio:
        gaps = f", {one.concealed_s:.2f} s of it lost and concealed" if one.concealed_s else ""
        gaps += f", {one.paused_s:.2f} s of it pauses (nothing sent)" if one.paused_s else ""
        yield f"{one.path}: {one.seconds:.2f} s of Opus from {one.begins_s:.3f} s on{gaps}"
    if config.audio is not None and not report.audio:
        yield "no Opus was found"


def _choose(outcomes: list[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Return what is shown and what is only counted: what was opened first, some of the shut."""
    if len(outcomes) <= SHOWN:
        return outcomes, []
    ranked = sorted(outcomes, key=lambda outcome: _RANKS.index(outcome.verdict))
    opened = [one for one in ranked if one.verdict in (Verdict.PARTLY, Verdict.OPENED)]
    others = ranked[len(opened) :]
    room = SHOWN - min(_KEPT_FOR_SHUT, len(others))
    shown = opened[:room]
    shown += others[: SHOWN - len(shown)]
    chosen = {id(one) for one in shown}
    return shown, [one for one in ranked if id(one) not in chosen]


def _connection(outcome: Outcome) -> Iterator[str]:
    facts = outcome.to_json()
    version = (
        f"DTLS {facts['dtls_version']}" if facts["dtls_version"] else "DTLS of unknown version"
    )
    suite = f" {facts['suite']}" if facts["suite"] else ""
    name = f"connection {facts['connection']}: {both_sides(outcome)}"
    yield f"{name}, {version}{suite}: {outcome.verdict.value}"
    records, media = facts["records"], facts["media"]
    parts = [several(records["client"] + records["server"], "record")]
    if media["opened"] or media["shut"]:
        profile = f" ({facts['srtp_profile']})" if facts["srtp_profile"] else ""
        parts.append(f"{several(media['opened'], 'packet')} of media{profile}")
    if facts["messages"]:
        parts.append(several(facts["messages"], "message"))
    yield f"  opened {', '.join(parts)}"
    yield from (f"  {reason}" for reason in facts["reasons"])
