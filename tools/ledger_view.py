"""The ledger for people: a table of round trips, and the ladder of datagrams of each start."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from warp_tools.ledger import TARGETS, Ledger, Row, tolerance

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
_ARROW = 18
_SAID = 44
_LADDER_TAIL = 3


def show(ledger: Ledger, console: Console, *, ladders: bool = True) -> None:
    """Print the ledger."""
    if ladders:
        for row in ledger.rows:
            console.print(ladder(row))
            console.print()
    console.print(table(ledger))
    for line in verdict(ledger):
        console.print(line)


def table(ledger: Ledger) -> RenderableType:
    """Round trips (and ms) after the client's first check, a row a configuration."""
    view = Table(
        title="Round trips from the first check, client / server "
        f"(ms below; RTT {ledger.rtt_ms:g} ms);\n"
        "of instant from the intent: its signalling is counted, and not waited for",
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


def ladder(row: Row) -> Text:
    """Every datagram of a start until the last milestone, with the milestones between them."""
    text = Text(f"{row.name}: {WHAT.get(row.name, '')}\n", style="bold")
    text.append(f"{'RTT':>6}  client{'':{_ARROW - 4}}server\n", style="dim")
    for line in _rungs(row):
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


def _rungs(row: Row) -> Iterator[Text]:
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
        arrow = "─" * (_ARROW - 2)
        drawn = f"{arrow}▶ " if rung.from_client else f" ◀{arrow}"
        line = Text(f"{at * 1000 / row.rtt_ms:6.2f}  ", style="dim")
        style = "red" if rung.lost else "cyan" if rung.from_client else "magenta"
        line.append(drawn, style=style)
        # what a narrow terminal cannot hold goes on under itself, not through the drawing
        said = textwrap.wrap(rung.description.text, _SAID) or [""]
        line.append(f"  {rung.size:5d}  {said[0]}")
        for rest in said[1:]:
            line.append(f"\n{'':{_ARROW + 17}}{rest}")
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
    return lines


def verdict(ledger: Ledger) -> list[Text]:
    """Say whether the speech came back and whether the targets are met."""
    lines = []
    if ledger.correlation is not None:
        lines.append(Text(f"speech came back with correlation {ledger.correlation:.3f}"))
    lines += conversation(ledger)
    misses = ledger.misses()
    if not misses:
        lines.append(Text("all targets met", style="bold green"))
    wanted = TARGETS["warp"]
    lines.append(
        Text(
            "targets of warp and instant, in round trips: first media "
            f"{wanted['client_media']:g} / {wanted['server_media']:g}, channel open "
            f"{wanted['channel_client']:g} / {wanted['channel_server']:g}; "
            f"{tolerance(1):g} are granted to processes and timers",
            style="dim",
        )
    )
    lines += [Text(f"missed: {miss}", style="bold red") for miss in misses]
    return lines
