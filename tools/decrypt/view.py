"""A report for people: a few lines a connection, what stayed shut and why, and what was written.

Called by the command `warp pcap decrypt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warp_tools.decrypt.report import Outcome, Verdict, both_sides
from warp_tools.decrypt.run import DecryptConfig, Report

SHOWN: Final = 20
_WORST_FIRST: Final = (Verdict.SHUT, Verdict.PARTLY, Verdict.OPENED, Verdict.CLEAR)


def lines(report: Report, config: DecryptConfig) -> Iterator[str]:
    """Yield the report, line by line."""
    outcomes = report.outcomes
    if len(outcomes) > SHOWN:
        outcomes = sorted(outcomes, key=lambda outcome: _WORST_FIRST.index(outcome.verdict))
    for outcome in outcomes[:SHOWN]:
        yield from _connection(outcome)
    if len(outcomes) > SHOWN:
        yield f"… and {len(outcomes) - SHOWN} connections more (--json has them all)"
    yield from (f"note: {note}" for note in report.notes)
    if config.plain is not None:
        yield f"{config.plain}: {sum(report.packets.values())} packets"
    if config.messages is not None:
        yield f"{config.messages}: {report.messages} messages"
    for one in report.audio:
        gaps = f", {one.concealed_s:.2f} s of it lost and concealed" if one.concealed_s else ""
        gaps += f", {one.paused_s:.2f} s of it pauses (nothing sent)" if one.paused_s else ""
        yield f"{one.path}: {one.seconds:.2f} s of Opus from {one.begins_s:.3f} s on{gaps}"
    if config.audio is not None and not report.audio:
        yield "no Opus was found"


def _connection(outcome: Outcome) -> Iterator[str]:
    facts = outcome.to_json()
    version = (
        f"DTLS {facts['dtls_version']}" if facts["dtls_version"] else "DTLS of unknown version"
    )
    suite = f" {facts['suite']}" if facts["suite"] else ""
    name = f"connection {facts['connection']}: {both_sides(outcome)}"
    yield f"{name}, {version}{suite}: {outcome.verdict.value}"
    records, media = facts["records"], facts["media"]
    parts = [f"{records['client'] + records['server']} records"]
    if media["opened"] or media["shut"]:
        profile = f" ({facts['srtp_profile']})" if facts["srtp_profile"] else ""
        parts.append(f"{media['opened']} packets of media{profile}")
    if facts["messages"]:
        parts.append(f"{facts['messages']} messages")
    yield f"  opened {', '.join(parts)}"
    yield from (f"  {reason}" for reason in facts["reasons"])
