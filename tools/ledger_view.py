"""The ledger for people: a table of round trips, and the ladder of datagrams of each start."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from warp_tools.conversation import Conversation
from warp_tools.ledger import TARGETS, Ledger, Row, carried_in_one, tolerance, too_late

_NAMES = {
    "dtls_client": "DTLS, client",
    "dtls_server": "DTLS, server",
    "server_media": "media, server",
    "client_media": "media, client",
    "channel_client": "channel, client",
    "channel_server": "channel, server",
}
_COLUMNS = {
    "DTLS done": ("dtls_client", "dtls_server"),
    "first media": ("client_media", "server_media"),
    "channel open": ("channel_client", "channel_server"),
}
WHAT = {
    "plain": "DTLS 1.2, DCEP",
    "dtls13": "+ DTLS 1.3",
    "sped": "+ DTLS in STUN (SPED)",
    "snap": "+ SCTP in SDP (SNAP)",
    "warp": "+ negotiated channel",
    "warp-pq": "WARP, X25519MLKEM768",
    "instant": "WARP by a ticket",
}
WIDE = 76
"""Columns from which the table and the ladders have room; with fewer they are drawn smaller."""
_ARROW, _SHORT_ARROW = 18, 8
_SAID, _LEAST_SAID = 44, 12
_BESIDE = 18
"""Columns of a rung beside its arrow and what is said of it."""
_SHORT_PATH_MS = 50.0
_PLAIN = str.maketrans("─▶◀·×", "-><*x")


def show(ledger: Ledger, console: Console, *, ladders: bool = True) -> None:
    """Print the ledger."""

    def put(text: Text) -> None:
        if not console.encoding.lower().startswith("utf"):
            text.plain = text.plain.translate(_PLAIN)
        console.print(text)

    if ladders:
        for row in ledger.rows:
            put(ladder(row, console.width))
            console.print()
    if console.width >= WIDE:
        console.print(table(ledger))
    else:
        put(narrow_table(ledger))
    for line in verdict(ledger):
        put(line)


def table(ledger: Ledger) -> RenderableType:
    """Round trips (and ms) after the client's first check, a row a configuration."""
    view = Table(
        title=_title(ledger),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    view.add_column("start", no_wrap=True)
    for heading in _COLUMNS:
        view.add_column(heading, justify="right", no_wrap=True)
    view.add_column("packets\nbytes", justify="right", no_wrap=True)
    for row in ledger.rows:
        start = Text(row.name, style="bold").append(f"\n{WHAT.get(row.name, '')}", style="dim")
        cells = [_cell(row, *pair) for pair in _COLUMNS.values()]
        view.add_row(start, *cells, Text(f"{row.datagrams}\n{row.bytes:,}"))
    return view


def _title(ledger: Ledger) -> str:
    return (
        "Round trips from the first check, client / server "
        f"(ms below; RTT {ledger.rtt_ms:g} ms);\n"
        "of instant from the intent: its signalling is counted, and not waited for"
    )


def narrow_table(ledger: Ledger) -> Text:
    """The same for a terminal of few columns: a paragraph a configuration."""
    text = Text(_title(ledger).replace("ms below; ", "") + "\n", style="italic")
    for row in ledger.rows:
        text.append(f"\n{row.name}", style="bold").append(
            f" {WHAT.get(row.name, '')}\n", style="dim"
        )
        for heading, pair in _COLUMNS.items():
            text.append(f"  {heading:<13}")
            text.append_text(
                Text.assemble(_value(row, pair[0]), (" / ", "dim"), _value(row, pair[1]))
            )
            text.append("\n")
        text.append(f"  {row.datagrams} packets, {row.bytes:,} bytes\n")
    return text


def _cell(row: Row, client: str, server: str) -> Text:
    text = Text.assemble(_value(row, client), (" / ", "dim"), _value(row, server))
    ms = " / ".join(f"{row.ms[name]:.0f}" if name in row.ms else "-" for name in (client, server))
    return text.append(f"\n{ms}", style="dim")


def _value(row: Row, milestone: str) -> Text:
    value = row.round_trips(milestone)
    if value is None:
        return Text("never", style="red")
    target = TARGETS.get(row.name, {}).get(milestone)
    style = ""
    if target is not None:
        style = "green" if value <= target + tolerance(target) else "bold red"
    return Text(f"{value:.2f}", style=style)


def ladder(row: Row, width: int = 80) -> Text:
    """Every datagram of a start until the last milestone, with the milestones between them."""
    arrow = _ARROW if width >= WIDE else _SHORT_ARROW
    text = Text(f"{row.name}: {WHAT.get(row.name, '')}\n", style="bold")
    text.append(f"{'RTT':>6}  client{'':{max(1, arrow - 4)}}server\n", style="dim")
    for line in _rungs(row, arrow, max(_LEAST_SAID, min(_SAID, width - arrow - _BESIDE))):
        text.append_text(line)
        text.append("\n")
    for line in _had(row):
        text.append_text(line)
        text.append("\n")
    text.rstrip()
    return text


def _had(row: Row) -> Iterator[Text]:
    """Say what the server had of the client, half a round trip after the other."""
    if not row.had:
        return
    yield Text("what the server has of the client", style="bold")
    yield Text(f"{0:6.2f}  nothing, and nothing is kept free for it")
    for ms, what in row.had:
        yield Text(f"{ms / row.rtt_ms:6.2f}  {what}")


def _rungs(row: Row, arrow: int, said_columns: int) -> Iterator[Text]:
    if not row.ladder:
        return
    began = row.began
    marks = sorted((at / 1000, name) for name, at in row.ms.items())
    end = marks[-1][0] + 0.001 if marks else 0.0
    media_seen: set[bool] = set()
    for rung in row.ladder:
        at = rung.time - began
        while marks and marks[0][0] <= at:
            yield _mark(row, *marks.pop(0))
        if at > end:
            break
        if rung.description.kind in ("rtp", "rtcp"):
            # one media packet a side shows that media flows
            if rung.from_client in media_seen:
                continue
            media_seen.add(rung.from_client)
        shaft = "─" * (arrow - 2)
        drawn = f"{shaft}▶ " if rung.from_client else f" ◀{shaft}"
        line = Text(f"{at * 1000 / row.rtt_ms:6.2f}  ", style="dim")
        style = "red" if rung.lost else "cyan" if rung.from_client else "magenta"
        line.append(drawn, style=style)
        # what a narrow terminal cannot hold goes on under itself, not through the drawing
        said = textwrap.wrap(rung.description.text, said_columns) or [""]
        line.append(f"  {rung.size:5d}  {said[0]}")
        for rest in said[1:]:
            line.append(f"\n{'':{arrow + 17}}{rest}")
        if rung.lost:
            line.append("  LOST", style="red")
        yield line
    for mark in marks:
        yield _mark(row, *mark)


def _mark(row: Row, at: float, name: str) -> Text:
    return Text(f"{at * 1000 / row.rtt_ms:6.2f}  ", style="dim").append(
        f"{'· ' + _NAMES[name]:<{_ARROW}}", style="green"
    )


def conversation(ledger: Ledger) -> list[Text]:
    """What was said at the end, and how soon it was answered."""
    found = ledger.conversation
    if found is None:
        return []
    lines = [
        Text(f"{one.start_ms / 1000:6.2f} s  ", style="dim")
        .append(f"{'you' if one.speaker == 'user' else 'voice':5}  ", style="bold")
        .append(one.text)
        for one in found.transcript
    ]
    if found.reply_ms is not None:
        lines.append(
            Text(f"first audible sample of the answer {found.reply_ms:.0f} ms after the question")
        )
    return lines + [Text(line) for line in _torn(found)]


def _torn(found: Conversation) -> Iterator[str]:
    """Tell what was not heard as it was said: on this path it is the machine that is late."""
    if not found.is_understood:
        yield f"what was asked: {found.asked}"
    late = "this machine was late with"
    if found.late:
        yield f"{late} {_frames(found.late)} of the question: the voice heard gaps"
    if found.concealed:
        yield f"{late} {_frames(found.concealed)} of the voice: you heard gaps"


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count} frames"


def verdict(ledger: Ledger) -> list[Text]:
    """Say whether the speech came back, what the targets were, and which are met."""
    lines = []
    if ledger.correlation is not None:
        lines.append(Text(f"speech came back with correlation {ledger.correlation:.3f}"))
    lines += conversation(ledger)
    lines += _targets(ledger)
    misses = ledger.misses()
    lines += [Text(f"missed: {miss}", style="bold red") for miss in misses]
    if not misses:
        lines.append(Text(f"all targets met: {_checked(ledger)}", style="bold green"))
    elif ledger.rtt_ms < _SHORT_PATH_MS:
        lines.append(
            Text(
                f"on a path of {ledger.rtt_ms:g} ms the time of processes and timers counts for "
                "more than the path: try --rtt 100"
            )
        )
    elif any(too_late(row) for row in ledger.rows) and _is_busy(ledger):
        lines.append(Text("this machine has other work, which makes starts late: try again"))
    return lines


def _is_busy(ledger: Ledger) -> bool:
    """Whether there is more to run than cores, or even the start without any of WARP was late."""
    waits = hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1)
    return waits or any(too_late(row) for row in ledger.rows if row.name == "plain")


def _checked(ledger: Ledger) -> str:
    """Name everything that had to be as it should."""
    starts = ", ".join(ledger.targets())
    return f"{starts}; the speech" + ("; the conversation" if ledger.talks else "")


def _targets(ledger: Ledger) -> list[Text]:
    """A line for each start that has targets, and one for those that have none."""
    lines = [
        Text("targets of first media | channel open, client / server, round trips:", style="bold")
    ]
    for row in ledger.rows:
        wanted = TARGETS.get(row.name)
        if wanted is None:
            continue
        media = _pair(wanted, "client_media", "server_media")
        opened = _pair(wanted, "channel_client", "channel_server")
        late = too_late(row) or carried_in_one(row)
        lines.append(
            Text(f"  {row.name:8}{media:>8} | {opened:8} ").append(
                "missed" if late else "met", style="bold red" if late else "green"
            )
        )
    others = [row.name for row in ledger.rows if row.name not in TARGETS]
    if others:
        lines.append(Text(f"  {', '.join(others)}: steps between, without targets", style="dim"))
    lines.append(
        Text(
            f"  {tolerance(1):g} of a round trip (10 % of a longer target) are granted to "
            "processes and timers",
            style="dim",
        )
    )
    return lines


def _pair(wanted: Mapping[str, float], client: str, server: str) -> str:
    return " / ".join(f"{wanted[name]:g}" if name in wanted else "-" for name in (client, server))
