"""`warp keys`: the key file that the servers of a cell share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="The key file that the servers of a cell share.",
    no_args_is_help=True,
)
File = Annotated[Path, typer.Argument(help="The key file.")]


@app.command("new")
def new(
    file: File,
    cell: Annotated[int, typer.Option(help="Number of the cell, 0-65535.")] = 1,
) -> None:
    """Make a key file that only its owner can read."""
    from warp_tools.keys import new_keyring

    new_keyring(file, cell)
    typer.echo(f"{file}: keys of cell {cell}; every server of the cell needs this file")


@app.command("stage")
def stage(file: File) -> None:
    """Add the keys that come next: hand out the file, reload servers and relays, then rotate."""
    from warp_tools import keys

    keys.change_keyring(file, keys.stage)
    typer.echo(
        f"{file}: the next keys are accepted; rotate once every server has this file, and every "
        "relay what warp keys routes makes of it"
    )


@app.command("rotate")
def rotate(file: File) -> None:
    """Seal tickets with the staged keys, else with fresh ones; those of before still open."""
    from warp_tools import keys

    before = keys.change_keyring(file, keys.rotate)
    typer.echo(f"{file}: rotated; send SIGHUP to every server of the cell")
    if before.upcoming is None:
        typer.echo(
            "no keys were staged: a server or relay that has not read this file yet refuses the "
            "new tickets; warp keys stage, before the next time, avoids that"
        )


@app.command("routes")
def routes(
    file: File, out: Annotated[Path, typer.Argument(help="Where a relay's keys go.")]
) -> None:
    """Write the keys of a relay: enough to lead datagrams, and to open no ticket."""
    from warp_tools.keys import write_route_keys

    write_route_keys(file, out)
    typer.echo(
        f"{out}: for warp relay --route-key; write it again after every stage, before rotate"
    )
