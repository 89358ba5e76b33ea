"""`warp relay`: one UDP address in front of many servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

_LISTEN = typer.Option(help="HOST:PORT that clients come to.")
_UPSTREAM = typer.Option(help="Server behind it, ID=HOST:PORT or FIRST-LAST=HOST:PORT; repeat.")
_KEY = typer.Option(help="Route keys of the cell (warp keys routes); SIGHUP reads them again.")


def relay(
    listen: Annotated[str, _LISTEN],
    upstream: Annotated[list[str], _UPSTREAM],
    route_key: Annotated[Path, _KEY],
) -> None:
    """Lead clients to the server that their ticket names; holds no session and opens nothing."""
    from warp_tools.relay import RelayCommand
    from warp_tools.relay import relay as run

    command = RelayCommand(listen=listen, upstreams=tuple(upstream), route_keys=route_key)
    asyncio.run(run(command, typer.echo))
