"""A relay until it is interrupted: its keys from a file, its upstreams by name.

clients ─▶ --listen ─ by the route block of their ticket ─▶ --upstream     SIGHUP: keys again
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from instant_connect.io.relay import RelayServer, open_relay, resolve_upstream
from instant_connect.keyring import RelayKeys, parse_relay_keys
from instant_connect.relay import HealthChanged, Upstream, parse_upstream
from warp.errors import UsageError
from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.interruption import listen_for_interruption

Say = Callable[[str], object]
_MAX_BYTES = 65_536
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LISTEN = re.compile(
    r"(\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>\d{1,5})", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayCommand:
    """What the relay is told."""

    listen: str
    upstreams: tuple[str, ...]
    route_keys: Path


async def relay(command: RelayCommand, say: Say) -> None:
    """Relay until interrupted. Raises ToolFailure, one line."""
    match = _LISTEN.fullmatch(command.listen)
    if match is None:
        raise CommandRefused(f"--listen is HOST:PORT, not {command.listen!r}")
    host, port = match["v6"] or match["host"], int(match["port"])
    keys = load_route_keys(command.route_keys)
    try:
        upstreams = [await _upstream(text) for text in command.upstreams]
        server = await open_relay(
            host,
            port,
            keys=keys,
            upstreams=upstreams,
            report=lambda change: say(_told(change)),
        )
    except UsageError as error:
        raise CommandRefused(str(error)) from error
    stop = listen_for_interruption()
    _listen_for_keys(server, command.route_keys, say)
    local, number = server.local
    place = f"[{local}]:{number}" if ":" in local else f"{local}:{number}"
    named = ", ".join(str(upstream) for upstream in upstreams)
    say(f"relay at UDP {place} for {named} (Ctrl-C ends it)")
    async with server:
        await stop.wait()


async def _upstream(text: str) -> Upstream:
    return await resolve_upstream(*parse_upstream(text))


def _told(change: HealthChanged) -> str:
    return f"upstream {change.upstream} {change.health.value}"


def _listen_for_keys(server: RelayServer, path: Path, say: Say) -> None:
    def reload() -> None:
        try:
            keys = load_route_keys(path)
        except ToolFailure as error:
            say(f"the route keys stay as they are: {error}")
            return
        if keys.cell != server.relay.keys.cell:
            say(f"the route keys stay as they are: those in {path} are of another cell")
            return
        server.relay.keys = keys
        say(f"route keys read again from {path}")

    # signals reach the loop on Unix only
    with contextlib.suppress(NotImplementedError, AttributeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def load_route_keys(path: Path) -> RelayKeys:
    """Read a file of route keys. Raises ToolFailure, one line, that repeats nothing of it."""
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    except OSError as error:
        raise CommandRefused(
            f"cannot read the route keys {path}: {error.strerror} (warp keys routes writes them)"
        ) from error
    if stat.S_ISREG(mode) and mode & _OTHERS:
        raise CommandRefused(f"others may read the route keys {path}: chmod 600 {path}")
    try:
        return parse_relay_keys(content.decode("ascii"))
    except (UnicodeDecodeError, UsageError) as error:
        reason = error if isinstance(error, UsageError) else "it is not text"
        raise CommandRefused(f"{path} holds no route keys: {reason}") from None
