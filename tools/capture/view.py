"""The ladder and the explanation for people: lines of styled text, drawn by rich or printed plain.

    ladder_lines(facts)     who speaks to whom, then a line a datagram
    explain_lines(facts)    what was negotiated, the ledger of round trips, findings

Lines hold no layout that depends on the terminal, so that a pipe gets what the screen shows.
"""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from warp_tools.capture.events import Event
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import Facts
from warp_tools.capture.finding import Weight
from warp_tools.capture.findings import findings
from warp_tools.capture.ladder import describe, notes
from warp_tools.capture.spent import saved, spent

WIDTH = 100
_ARROW = 16
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800
_1970 = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_STAGES = {
    "first_check": "the first check",
    "check_answered": "{} has an answer to its check",
    "nominated": "the pair is nominated",
    "client_hello": "the ClientHello is out",
    "client_hello_again": "the second ClientHello is out",
    "server_hello": "the server's flight begins",
    "dtls_client": "DTLS: the client is done",
    "dtls_server": "DTLS: the server is done",
    "media": "first media of {}",
    "sctp_first": "first SCTP packet of {}",
    "sctp": "SCTP: {} is established",
    "channel": "a channel is open at {}",
}
_PLACES = {"between": "between the two", "both ends": "at both ends"}
_STYLES = {
    Weight.GOOD: "green",
    Weight.NOTE: "",
    Weight.COST: "yellow",
    Weight.FAULT: "bold red",
}


def header(facts: Facts) -> Iterator[Text]:
    """Name the session and its two sides."""
    session = facts.session
    lasted = (session.span[1] - session.span[0]) / 1e9
    title = Text().append(f"session {session.number}", style="bold")
    title.append(f"  {_moment(session.span[0])}", style="dim")
    title.append(f"  {session.datagrams} datagrams in {lasted:.3f} s", style="dim")
    yield title
    for side in (0, 1) if facts.letters[0] == "A" else (1, 0):
        letter = facts.letter(side)
        words = [_addresses(facts, side)]
        if facts.controlling is not None:
            words.append("controlling" if side == facts.controlling else "controlled")
        if facts.start.client is not None:
            words.append("DTLS client" if facts.is_client(side) else "DTLS server")
        if facts.lite(side)[0]:
            words.append("lite")
        if session.checks.askers[side].google:
            words.append("libwebrtc")
        yield Text().append(f"  {letter}  ", style="bold").append(", ".join(words))


def _moment(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, 1_000_000_000)
    if not _YEAR_1 <= seconds < _YEAR_10000:
        return f"at {time_ns / 1e9:.3f} s"  # a clock that nobody has set
    moment = _1970 + datetime.timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d} UTC"


def _addresses(facts: Facts, side: int) -> str:
    known = facts.session.addresses[side]
    shown = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in known[:3]]
    return " ".join(shown) + (f" and {len(known) - 3} more" if len(known) > 3 else "")


# -- the ladder -------------------------------------------------------------------------------


def ladder_lines(facts: Facts, limit: int) -> Iterator[Text]:
    """Draw a session: a line a datagram, `limit` at most."""
    yield from header(facts)
    pairs = _pairs(facts)
    head = f"  {'#':>6} {'ms':>10}  A{'':{_ARROW}}B {'bytes':>6}  "
    yield Text(head + ("pair  " if pairs else ""), style="dim")
    events = facts.session.events
    for event in events[:limit]:
        yield rung(facts, event, facts.session.span[0], pairs)
    left = max(0, len(events) - limit) + facts.session.dropped
    if left:
        yield Text(f"  ... {left} more lines; --limit shows more", style="dim")


def _pairs(facts: Facts) -> dict[frozenset[object], int]:
    """Number the pairs of addresses, where a session has several."""
    found: dict[frozenset[object], int] = {}
    for event in facts.session.events:
        if event.again_ns is None:
            found.setdefault(frozenset((event.source, event.destination)), len(found) + 1)
    return found if len(found) > 1 and not _two_places(facts) else {}


def _two_places(facts: Facts) -> bool:
    return any(event.again_ns is not None for event in facts.session.events)


def rung(
    facts: Facts, event: Event, began_ns: int, pairs: dict[frozenset[object], int] | None = None
) -> Text:
    """Draw one datagram."""
    at = (event.time_ns - began_ns) / 1e6
    line = Text().append(f"  {event.number:>6} {at:>10.2f}  ", style="dim")
    from_a = facts.letters[event.side] == "A"
    bar = "─" * (_ARROW + 1)
    style = "red" if event.lost else "cyan" if from_a else "magenta"
    line.append(bar + "▶" if from_a else "◀" + bar, style=style)
    line.append(f" {event.size:>6}  ")
    if pairs:
        number = pairs.get(frozenset((event.source, event.destination)), 0)
        line.append(f"{number:>4}  ")
    line.append(describe(event))
    said = notes(event) + facts.inside(event, line.plain)
    if event.again_ns is not None:
        said.insert(0, f"arrives {(event.again_ns - began_ns) / 1e6:.2f}")
    if event.count > 1:
        said.append(f"until {(event.until_ns - began_ns) / 1e6:.0f} ms")
    if said:
        line.append(f"  [{'; '.join(said)}]", style="red" if event.lost else "yellow")
    return line


# -- the explanation --------------------------------------------------------------------------


def explain_lines(facts: Facts) -> Iterator[Text]:
    """Tell the story of a start."""
    told = explanation(facts)
    yield from header(facts)
    yield Text()
    yield from _negotiated(told)
    yield _round_trip(told)
    yield Text()
    yield from _stages(facts)
    yield from _ledger(facts)
    yield from _findings(facts)
    yield from _unknown(told["unknown"])


def _negotiated(told: dict[str, Any]) -> Iterator[Text]:
    version, group = told["dtls_version"], told["group"]
    dtls = "DTLS version unknown" if version is None else f"DTLS {version}"
    if group is not None:
        dtls += f", {group}" + (" (post-quantum)" if told["pq"] else "")
    if told["suite"] is not None:
        dtls += f", {told['suite']}"
    yield _fact("negotiated", dtls)
    sped = told["sped"]
    text = "SPED unknown" if sped["offered"] is None else "SPED not offered"
    if sped["offered"]:
        text = f"SPED offered by {' and '.join(sped['offered'])}"
        text += f" ({sped['dialect']})" if sped["dialect"] else ""
        text += {True: ", used", False: ", not used", None: ""}[sped["used"]]
    yield _fact("", text)
    snap = {None: "SNAP unknown", True: "SNAP", False: "SCTP by its handshake, no SNAP"}
    dcep = {
        None: "how channels are opened is unknown",
        "negotiated": "channels agreed on in advance",
        "dcep": "channels announced by DCEP",
        "both": "channels agreed on in advance and announced by DCEP",
    }
    opened = dcep[told["dcep"]]
    if "dcep.others" in told["unknown"]:
        opened = "first channel agreed on in advance, others unknown"
    yield _fact("", f"{snap[told['snap']]}; {opened}")


def _fact(name: str, text: str) -> Text:
    return Text().append(f"  {name:<12}", style="dim").append(text)


def _round_trip(told: dict[str, Any]) -> Text:
    rtt = told["rtt"]
    if rtt["ms"] is None:
        return _fact("round trip", "unknown")
    text = f"{'at most ' if rtt['at_most'] else ''}{rtt['ms']:.1f} ms, from {rtt['from']}"
    if rtt["vantage"] is not None:
        text += f"; captured {_PLACES.get(rtt['vantage'], rtt['vantage'])}"
    return _fact("round trip", text)


def _stages(facts: Facts) -> Iterator[Text]:
    if not facts.stages:
        return
    yield Text(f"  {'stage':<36}{'at':>3}{'ms':>10}{'RTT':>8}{'trips':>8}      #", style="dim")
    for stage in facts.stages:
        base = stage.name.removesuffix(f"_{facts.letter(stage.side)}")
        name = _STAGES.get(stage.name) or _STAGES[base].format(facts.letter(stage.side))
        rtt = "" if stage.rtt is None else f"{stage.rtt:.2f}"
        trips = "" if stage.trips is None else f"{stage.trips:g}"
        line = Text(f"  {name:<36}{facts.letter(stage.side):>3}{stage.own_ms:>10.1f}")
        yield line.append(f"{rtt:>8}{trips:>8}{stage.number:>7}")
    yield Text()


def _ledger(facts: Facts) -> Iterator[Text]:
    parts = spent(facts)
    for at, part in enumerate(parts):
        trips = "" if part.trips is None else _trips(part.trips)
        name = "spent on" if not at else ""
        yield _fact(name, f"{trips:<16}{part.ms:>8.1f} ms  {part.text}")
    for at, one in enumerate(saved(facts)):
        name = "with WARP" if not at else ""
        if one.trips:
            rtt = facts.vantage.rtt_ns
            ms = ""
            if facts.vantage.countable and rtt is not None:
                most = "at most " if facts.vantage.at_most else ""
                ms = f" ({most}{one.trips * rtt / 1e6:.0f} ms)"
            now, less = f"{one.now:g}", f"{one.trips:g} less"
            if one.at_least:
                now, less = f"{now} or later", f"at least {less}"
            text = f"{one.what} after {_trips(one.warp)}, not {now}: {less}"
            yield _fact(name, text + ms)
        else:
            yield _fact(name, f"{one.what} after {_trips(one.warp)}, as it was")
    if parts:
        yield Text()


def _trips(count: float) -> str:
    return f"{count:g} round trip{'' if count == 1 else 's'}"


def _findings(facts: Facts) -> Iterator[Text]:
    for finding in findings(facts):
        text = finding.text
        if finding.datagrams:
            text += f" [#{', #'.join(map(str, finding.datagrams))}]"
        lines = textwrap.wrap(text, WIDTH - 26, break_on_hyphens=False)
        style = _STYLES[finding.weight]
        yield Text().append(f"  {finding.id:<22}", style=style or "bold").append(lines[0])
        for rest in lines[1:]:
            yield Text(f"  {'':<22}{rest}")


def _unknown(unknown: dict[str, str]) -> Iterator[Text]:
    reasons: dict[str, list[str]] = {}
    for name, reason in unknown.items():
        reasons.setdefault(reason, []).append(name)
    for at, (reason, names) in enumerate(reasons.items()):
        label = "not known" if not at else ""
        yield _fact(label, f"{', '.join(names)}: {reason}")
