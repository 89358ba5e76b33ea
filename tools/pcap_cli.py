"""The commands `warp pcap show`, `explain`, `live`, `redact` and `decrypt`: see the wire.

Exit statuses as of every command (`warp_tools.failure`): 0 done; 1 nothing found (no session in
it); 2 the command line is wrong, or a capture, key log, place or interface that it names cannot be
used; 3 of `decrypt`: a part stayed shut. Each command's help, which is in Markdown, says its own.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from warp_tools.decrypt_command import decrypt

if TYPE_CHECKING:
    from rich.text import Text

    from warp_tools.capture.run import Result

NOTHING, BAD_INPUT = 1, 2

app = typer.Typer(
    help="See the wire: captures of WebRTC, their sessions, where a start's time went.\n\n"
    "They read pcap and pcapng, gzipped too, of any implementation.\n\n"
    "Exit status: 0 done, 1 nothing found, 2 not a capture or a wrong command line (or a key log, "
    "a place to write to or an interface that cannot be used); decrypt says 3 when a part stayed "
    "shut.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.command()(decrypt)

File = Annotated[str, typer.Argument(metavar="FILE", help="pcap or pcapng; - is standard input.")]
Sessions = Annotated[
    list[int] | None, typer.Option("--session", help="Only this session; may be repeated.")
]
Keylog = Annotated[
    Path | None,
    typer.Option(
        help="SSLKEYLOGFILE of either end, beside what a pcapng carries: SCTP is read too."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command()
def show(
    file: File,
    session: Sessions = None,
    keylog: Keylog = None,
    limit: Annotated[int, typer.Option(min=1, help="Lines a session, at most.")] = 200,
    every: Annotated[
        bool, typer.Option("--all", help="A line for each media packet as well.")
    ] = False,
) -> None:
    """Find the sessions in a capture and draw their ladders, a line a datagram.

    Each line says when, which way, how many bytes and what is inside; in brackets, what is special
    about it: what it answers or acknowledges, what was sent again, lost or cut. Media that goes on
    is one line with a number of packets.

    Exit status: 0 done, 1 no such session, 2 not a capture, no such key log or a wrong command
    line.
    """
    from warp_tools.capture.view import ladder_lines

    result = _read(file, keylog, limit=limit, fold=not every)
    wanted = set(session) if session else None
    for facts in result.facts(wanted):
        _print(ladder_lines(facts, limit))
        typer.echo()
    _end(file, result, wanted)


def _picture(path: Path | None) -> Path | None:
    if path is not None:
        from warp_tools.capture.plot import refused

        if (refusal := refused(path)) is not None:
            raise typer.BadParameter(refusal)
    return path


@app.command()
def explain(
    file: File,
    session: Sessions = None,
    keylog: Keylog = None,
    as_json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the ladders: .png, .svg or .pdf (matplotlib).", callback=_picture),
    ] = None,
) -> None:
    """Tell what each start negotiated, where its round trips went, what WARP would have saved.

    A is the controlling side. Stages count from the first check, each at its own end: in ms, in
    round trips by the clock (RTT) and by messages (trips). Findings have stable ids; what the
    capture does not show is said with the reason. --json prints an object with `sessions` and
    `notes`; a session holds `dtls_version`, `group`, `pq`, `sped`, `snap`, `dcep`, `roles`, `lite`,
    `stages`, `findings` and more, null where it is in `unknown`.

    Exit status: 0 done, 1 no such session, 2 not a capture, no such key log, no place for the
    picture or a wrong command line.
    """
    from warp_tools.capture.explain import explanation
    from warp_tools.capture.view import explain_lines

    result = _read(file, keylog)
    wanted = set(session) if session else None
    if as_json:
        _print_json(map(explanation, result.facts(wanted)), result.notes)
    else:
        for facts in result.facts(wanted):
            _print(explain_lines(facts))
            typer.echo()
    if plot is not None:
        _plot(result, wanted, plot)
    _end(file, result, wanted, quiet=as_json)


def _plot(result: Result, wanted: set[int] | None, plot: Path) -> None:
    from warp_tools.capture.plot import draw

    numbers = {one.number for one in result.finder.sessions}
    chosen = numbers if wanted is None else numbers & wanted
    drawn = draw(result.facts(wanted), plot, several=len(chosen) > 1)
    for path in drawn:
        typer.echo(f"drawn: {path}", err=True)
    if len(drawn) < len(chosen):
        typer.echo(
            f"note: {len(drawn)} of {len(chosen)} sessions were drawn, no more at once: "
            "--session chooses others",
            err=True,
        )


def _print_json(sessions: Iterable[dict[str, Any]], notes: list[str]) -> None:
    """Print a session at a time: a capture may hold thousands."""
    typer.echo('{\n  "sessions": [')
    separator = ""
    for one in sessions:
        typer.echo(separator + textwrap.indent(json.dumps(one, indent=2), "    "), nl=False)
        separator = ",\n"
    typer.echo(f'\n  ],\n  "notes": {json.dumps(notes)}\n}}')


def _read(file: str, keylog: Path | None, **options: Any) -> Result:
    from warp_tools.capture.reader import CaptureError
    from warp_tools.capture.run import read

    if keylog is not None:
        from warp_tools.capture.opened import opened_with

        options["opened"] = opened_with(keylog)
    try:
        return read(file, **options)
    except CaptureError as error:
        typer.echo(f"warp: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error


def _print(lines: Iterable[Text]) -> None:
    """Draw on a terminal; print plain text into a pipe."""
    console = Console()
    for line in lines:
        if console.is_terminal:
            console.print(line, soft_wrap=True)
        else:
            typer.echo(line.plain.rstrip())


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _end(file: str, result: Result, wanted: set[int] | None, *, quiet: bool = False) -> None:
    """Say what else there is to say, and with which status to end."""
    if not quiet:
        _print_notes(result.notes)
    known = {session.number for session in result.finder.sessions}
    if wanted is not None and not wanted & known:
        asked = ", ".join(map(str, sorted(wanted)))
        typer.echo(f"warp: no session {asked}: there are {len(known)}", err=True)
        raise typer.Exit(NOTHING)
    if not known:
        counts = result.reader.counts
        where = "standard input" if file == "-" else file
        why = f"{counts['datagrams']} datagrams in {counts['packets']} packets, none of WebRTC"
        typer.echo(f"warp: no session in {where}: {why}", err=True)
        raise typer.Exit(NOTHING)


@app.command()
def redact(
    file: Annotated[Path, typer.Argument(metavar="IN", help="pcap or pcapng.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="pcapng to write.")],
) -> None:
    """Write a capture that may be shared: no payloads, addresses, ufrags, certificates.

    Kinds, sizes, numbers and times stay, so show and explain say the same of it. Of hellos stays
    what is negotiated: versions, groups and public random values. Ports and SSRCs stay.

    Exit status: 0 done, 1 no session in it (nothing is written), 2 not a capture, OUT cannot be
    written or a wrong command line.
    """
    from warp_tools.capture.finding import several
    from warp_tools.capture.reader import CaptureError
    from warp_tools.capture.redact import redact as run

    try:
        outcome = run(file, out)
    except CaptureError as error:
        typer.echo(f"warp: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    _print_notes(outcome.notes)
    if not outcome.sessions:
        typer.echo(f"warp: no session in {file}: nothing was written", err=True)
        raise typer.Exit(NOTHING)
    typer.echo(
        f"{out}: {several(outcome.kept, 'datagram')} of {several(outcome.sessions, 'session')}; "
        f"{several(outcome.packets, 'packet')} read"
    )


def _positive(value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter("it is a time above 0")
    return value


@app.command()
def live(
    iface: Annotated[str, typer.Option(help="Interface to listen on; any: all of them.")] = "any",
    seconds: Annotated[
        float | None, typer.Option(help="Stop after so many seconds.", callback=_positive)
    ] = None,
    packets: Annotated[int | None, typer.Option(min=1, help="Stop after so many packets.")] = None,
    write: Annotated[Path | None, typer.Option(help="Also write the packets: pcapng.")] = None,
    explained: Annotated[
        bool, typer.Option("--explain/--no-explain", help="Explain the sessions at the end.")
    ] = True,
) -> None:
    """Show sessions while they happen; Ctrl-C ends it. Needs the right to capture.

    At the end it explains what it has seen, as explain does.

    Exit status: 0 done, 1 no session seen, 2 no such interface, no right to capture or a wrong
    command line.
    """
    import contextlib

    from warp_tools.capture.finder import Finder
    from warp_tools.capture.live import LiveFrames
    from warp_tools.capture.live_view import live_lines
    from warp_tools.capture.reader import Reader
    from warp_tools.capture.run import Result
    from warp_tools.capture.view import explain_lines
    from warp_tools.capture.writer import writing

    finder = Finder()
    with contextlib.ExitStack() as stack:
        writer = None if write is None else stack.enter_context(writing(write))
        frames = LiveFrames(iface, seconds=seconds, packets=packets, writer=writer)
        stack.callback(frames.close)
        reader = Reader(frames)
        typer.echo(f"listening on {iface}", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            for line in live_lines(reader, finder):
                typer.echo(line)
    finder.finish()
    result = Result(finder, reader, reader.notes())
    if explained:
        for facts in result.facts():
            typer.echo()
            _print(explain_lines(facts))
    _end(iface, result, None)


def trace(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON-SEQ; - is standard input.")],
    layer: Annotated[
        list[str] | None, typer.Option(help="Only this layer (ice, dtls, sctp ...); repeatable.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Lines, at most.")] = None,
) -> None:
    """Draw the ladder of a trace that this stack has written (warp.trace, JSON-SEQ).

    A line a record: time, layer, what happened; datagrams as in `warp pcap show`.

    Exit status: 0 done, 1 no such layer in it, 2 not a trace or a wrong command line.
    """
    import contextlib

    from warp_tools.capture.finding import several
    from warp_tools.capture.reader import CaptureError
    from warp_tools.capture.traces import Trace, trace_lines

    with contextlib.ExitStack() as stack:
        try:
            stream = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
            found = Trace(stream)
        except OSError as error:
            typer.echo(f"warp: {file}: {error.strerror or error}", err=True)
            raise typer.Exit(BAD_INPUT) from error
        except CaptureError as error:
            typer.echo(f"warp: {file}: {error}", err=True)
            raise typer.Exit(BAD_INPUT) from error
        _print(trace_lines(found, set(layer) if layer else None, limit))
        if found.broken:
            typer.echo(f"note: {several(found.broken, 'record')} could not be read", err=True)
        missing = sorted(set(layer or ()) - found.layers)
        if missing:
            has = f"it has {', '.join(sorted(found.layers))}" if found.layers else "it has no event"
            typer.echo(f"warp: no layer {', '.join(missing)} in this trace: {has}", err=True)
        if missing and len(missing) == len(set(layer or ())):
            raise typer.Exit(NOTHING)
