"""`warp demo`: the ledger of a start, and a conversation, from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from warp_tools.backends import EMBEDDED, check_backend, prepare_backend
from warp_tools.failure import CommandRefused

_RTT = typer.Option(help="Round-trip time of the path, in ms.")
_SPEECH = typer.Option(help="WAV to speak; else a packaged one.")
_OUT = typer.Option(help="Write what came back here.")
_QUESTION = typer.Option(help="WAV to ask the voice; else a packaged one.")
_CONVERSATION = typer.Option(help="Write both sides of the conversation here (stereo).")
_BACKEND = typer.Option(envvar="WARP_BACKEND", help="duplex-cpu; echo: without the conversation.")
_LADDERS = typer.Option(help="Draw the datagrams of each start.")


def demo(
    rtt: Annotated[float, _RTT] = 100.0,
    speech: Annotated[Path | None, _SPEECH] = None,
    out: Annotated[Path | None, _OUT] = None,
    question: Annotated[Path | None, _QUESTION] = None,
    conversation: Annotated[Path | None, _CONVERSATION] = None,
    backend: Annotated[str, _BACKEND] = EMBEDDED,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    ladders: Annotated[bool, _LADDERS] = True,
) -> None:
    """Call from one process to another over a delayed path, count the round trips, and talk.

    Exit status: 0 when every target is met and the speech came back; 1 when not; 2 when what was
    asked for cannot be.
    """
    from warp_tools.demo import DemoConfig
    from warp_tools.demo import demo as run
    from warp_tools.ledger_view import show

    if not 1 <= rtt <= 2000:
        raise CommandRefused(f"--rtt must be between 1 and 2000 ms, not {rtt:g}")
    talks = check_backend(backend) == EMBEDDED
    if not talks and (question is not None or conversation is not None):
        raise CommandRefused(f"--question and --conversation need --backend {EMBEDDED}")
    if not as_json:
        out = out or Path("reply.wav")
        conversation = conversation or Path("conversation.wav")
    config = DemoConfig(
        rtt_ms=rtt,
        speech=speech,
        out=out,
        question=question,
        conversation=conversation if talks else None,
        talk=talks,
    )
    # what is wrong is said before anything is fetched
    config.check()
    prepare_backend(backend)
    with Console(stderr=True).status("starting") as status:
        ledger = asyncio.run(run(config, status.update))
    if as_json:
        typer.echo(json.dumps(ledger.to_json(), indent=2))
    else:
        show(ledger, Console(), ladders=ladders)
        typer.echo(f"what came back: {out}")
        if talks:
            typer.echo(f"the conversation, you left and the voice right: {conversation}")
            typer.echo("to talk yourself: warp serve, and open the page that it names")
    raise typer.Exit(1 if ledger.misses() else 0)
