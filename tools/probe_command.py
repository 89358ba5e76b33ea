"""The command `warp probe`: its options; what it does is imported when it is called."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer
from rich.console import Console

from warp_tools.failure import CommandRefused

MAX_DELAY_MS, MAX_PATIENCE_S = 1000, 60


def _delay(value: float) -> float:
    if not 0 <= value <= MAX_DELAY_MS:
        raise typer.BadParameter(f"it is 0 to {MAX_DELAY_MS} ms")
    return value


def _patience(value: float) -> float:
    if not 0 < value <= MAX_PATIENCE_S:
        raise typer.BadParameter(f"it is a time above 0, up to {MAX_PATIENCE_S} s")
    return value


Delay = Annotated[
    float,
    typer.Option(
        help="Keep each datagram so many ms, each way, to count round trips.", callback=_delay
    ),
]
Patience = Annotated[
    float, typer.Option(help="Seconds that a call may take to connect.", callback=_patience)
]


def probe(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="A WHIP, /v1/realtime/calls or /v1/instant endpoint."),
    ],
    token: Annotated[
        str, typer.Option(envvar="WARP_TOKEN", help="Bearer token, if the server wants one.")
    ] = "",
    delay: Delay = 50.0,
    patience: Patience = 5.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out consent and lost datagrams.")
    ] = False,
    host: Annotated[str, typer.Option(help="Call from this local address only.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Call a WebRTC server a few times and report what it supports, with a grade.

    Never more than seven short calls, one after another, each ended again: what a few clients
    would send. Where tickets are given out, one of them begins with its first datagram.

    Exit status: 0 for every grade but F, 1 for F or where no server is to be probed at this URL, 2
    no address of a server or a wrong command line.
    """
    from warp.errors import InvalidConfig
    from warp_tools.probe import ProbeConfig
    from warp_tools.probe import probe as run
    from warp_tools.probe.view import lines

    try:
        config = ProbeConfig(
            url=url,
            token=token,
            host=host,
            delay_s=delay / 1000,
            patience_s=patience,
            consent_s=0.0 if quick else 6.5,
            loss=not quick,
        )
    except InvalidConfig as error:
        raise CommandRefused(str(error)) from error
    with Console(stderr=True).status("probing") as status:
        report = asyncio.run(run(config, status.update))
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        for line in lines(report):
            typer.echo(line)
    raise typer.Exit(1 if report.grade.letter == "F" else 0)
