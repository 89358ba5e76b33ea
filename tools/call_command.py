"""`warp call`: a call from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from warp_tools.failure import INTERRUPTED, CommandRefused, ToolFailure

URL = "http://127.0.0.1:8080"
_OUT = typer.Option(help="Write what came back here.")
_URL = typer.Option(help="The server, or its WHIP endpoint.", show_default=f"{URL}", metavar="URL")
_TOKEN = typer.Option(envvar="WARP_TOKEN", help="Bearer token, if the server wants one.")
_INSTANT = typer.Option(metavar="URL", help="Call this server by a ticket; instead of --url.")
_WALLET = typer.Option(help="File that keeps tickets for later calls; with --instant.")
_TRACE = typer.Option(help="Write what the stack did here (warp trace draws it); with --url.")


def call(
    speech: Annotated[
        Path | None, typer.Argument(help="WAV to speak; else a packaged one.")
    ] = None,
    out: Annotated[Path, _OUT] = Path("reply.wav"),
    url: Annotated[str | None, _URL] = None,
    token: Annotated[str, _TOKEN] = "",
    instant: Annotated[str | None, _INSTANT] = None,
    wallet: Annotated[Path | None, _WALLET] = None,
    trace: Annotated[Path | None, _TRACE] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Call a server, speak a recording, write down the reply.

    Exit status: 0 when the speech was spoken to its end; 1 when the call failed, broke off, or the
    server ended it before that; 2 when what was asked for cannot be, and nobody was called;
    130 when it was interrupted (Ctrl-C ends the call, and keeps what was heard).
    """
    from warp_tools.call import call as run
    from warp_tools.call_plan import CallPlan

    if url is not None and instant is not None:
        raise CommandRefused(
            "--url and --instant both say whom to call: leave out --url to call by a ticket, "
            "or --instant to call by signalling alone"
        )
    if wallet is not None and instant is None:
        raise CommandRefused("--wallet is of no use without --instant")
    if trace is not None and instant is not None:
        raise CommandRefused("--trace is of calls by signalling: leave out --instant")
    plan = CallPlan(
        url=instant if instant is not None else URL if url is None else url,
        token=token,
        instant=instant is not None,
        wallet=wallet,
        trace=trace,
    )
    result = asyncio.run(run(speech, plan, out))
    told = f"{out}: {result}\n{result.way}"
    typer.echo(json.dumps(result.to_json(), indent=2) if as_json else told)
    if result.ended is not None and result.ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if result.ended is not None and result.ended.is_failure:
        raise ToolFailure(str(result.ended))
