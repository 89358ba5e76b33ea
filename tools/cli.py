"""The commands: `warp demo`, `serve`, `relay`, `call`, `keys`, `models`, `bench`, `pcap`, `trace`,
`probe`.

Everything heavy is imported inside the commands, so that `warp --help` is quick.
"""

from __future__ import annotations

import asyncio
import json
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from warp_tools.backends import EMBEDDED, prepare_backend
from warp_tools.call_command import call
from warp_tools.demo_command import demo
from warp_tools.keys_cli import app as keys_app
from warp_tools.models_cli import app as models_app
from warp_tools.outputs import check_output
from warp_tools.pcap_cli import app as pcap_app
from warp_tools.pcap_cli import trace
from warp_tools.probe_command import probe
from warp_tools.relay_command import relay
from warp_tools.serve_command import serve

if TYPE_CHECKING:
    from warp_tools.bench import Report

app = typer.Typer(
    help="Live voice over WebRTC that starts with one UDP packet.\n\n"
    "Exit status of every command: 0 done, 1 it was tried and failed, found nothing or missed a "
    "target, 2 what the command line asks for cannot be (an option's value, or a file, place, port "
    "or address that it names), 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
bench_app = typer.Typer(
    help="What a start, a media packet and a channel cost, aiortc measured beside.",
    no_args_is_help=True,
)
app.add_typer(bench_app, name="bench")
app.add_typer(keys_app, name="keys")
app.add_typer(models_app, name="models")
app.add_typer(pcap_app, name="pcap")
# in the order in which a newcomer needs them
for command in (demo, serve, call, relay, probe, trace):
    app.command()(command)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer repetitions; figures are rough.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"warp-rtc {metadata.version('warp-rtc')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Live voice over WebRTC that starts with one UDP packet."""


@bench_app.command("setup")
def bench_setup(as_json: Json = False, quick: Quick = False) -> None:
    """CPU time of a whole start, and memory of an idle session."""
    from warp_tools.bench.setup import run

    _report(asyncio.run(run(quick=quick)), as_json)


@bench_app.command("media")
def bench_media(
    as_json: Json = False,
    quick: Quick = False,
    codec: Annotated[bool, typer.Option("--codec", help="Decode and encode: an echo.")] = False,
) -> None:
    """Sessions a core can carry, and CPU time of a media packet."""
    if codec:
        from warp_tools.bench.codec import run
    else:
        from warp_tools.bench.media import run

    _report(asyncio.run(run(quick=quick)), as_json)


@bench_app.command("channel")
def bench_channel(as_json: Json = False, quick: Quick = False) -> None:
    """Throughput of a data channel with messages of 16 KiB."""
    from warp_tools.bench.channel import run

    _report(asyncio.run(run(quick=quick)), as_json)


@bench_app.command("voice")
def bench_voice(
    as_json: Json = False,
    quick: Quick = False,
    sessions: Annotated[
        int | None, typer.Option(min=1, max=32, help="Measure this number alone.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Write the picture here (PNG).")] = Path("voice.png"),
) -> None:
    """Conversations that the embedded voice carries with every frame on time, and its delay."""
    check_output(out)
    prepare_backend(EMBEDDED)
    from warp_tools.bench.voice import plot, run

    report = asyncio.run(run(quick=quick, sessions=sessions))
    plot(report, out)
    out.with_suffix(".json").write_text(json.dumps(report.to_json(), indent=2) + "\n")
    if as_json:
        _print_json(report.to_json())
    else:
        report.show(Console())
        typer.echo(f"{out}, {out.with_suffix('.json')}")
    raise typer.Exit(0 if report.targets_met else 1)


@bench_app.command("instant")
def bench_instant(as_json: Json = False, quick: Quick = False) -> None:
    """Tickets opened and refused, sessions out of first datagrams, a flood of bad ones."""
    from warp_tools.bench.instant import run

    _report(asyncio.run(run(quick=quick)), as_json)


def _report(report: Report, as_json: bool) -> None:
    if as_json:
        _print_json(report.to_json())
    else:
        report.show(Console())
    raise typer.Exit(0 if report.targets_met else 1)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))
