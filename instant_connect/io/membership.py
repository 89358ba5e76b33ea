"""A worker's side of its parent: the task that it begins with, and what it is told later.

    membership = await Membership.join(descriptor)          keyring, port, number, inbox, peers
    server = await listen_instant(..., keyring=membership.keyring, reuse_port=True)
    cluster = membership.cluster(server)
    membership.ready() ─▶ roster ─▶ the others know us ─▶ serving.wait()
    await membership.follow(server, cluster)                until the parent says stop, or is gone

Called by the programme that a worker runs (`warp serve --workers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from typing import Any, Final

from instant_connect.io.cluster import Cluster
from instant_connect.io.control import Control, Line
from instant_connect.io.server import InstantServer
from instant_connect.io.steering import MAX_STEERED
from instant_connect.keyring import parse_keyring
from instant_connect.router import Roster
from warp.errors import InvalidConfig

_EMPTY_AFTER_S: Final = 0.5


class Membership:
    """What one worker has of its parent."""

    __slots__ = (
        "_control",
        "_inbox",
        "_peers",
        "_watch",
        "keyring",
        "number",
        "serving",
        "settings",
        "sockets",
        "stop",
    )

    def __init__(self, control: Control, task: Line) -> None:
        self._control = control
        self._inbox = _inherited(task["inbox"])
        self._peers = {int(number): _inherited(fd) for number, fd in task["peers"].items()}
        self._watch: asyncio.Task[None] | None = None
        self.keyring: Final = parse_keyring(task["keyring"])
        self.number: Final[int] = task["number"]
        """Of this server within its cell: tickets name it."""
        self.settings: Final[dict[str, Any]] = task["settings"]
        """What the programme is told by its parent."""
        self.sockets: Final = {name: _inherited(fd) for name, fd in task["sockets"].items()}
        """Sockets that all workers share, by name."""
        self.serving: Final = asyncio.Event()
        """Set once the others know us."""
        self.stop: Final = asyncio.Event()
        """Set when it is time to end."""

    @classmethod
    async def join(cls, descriptor: int) -> Membership:
        """Take up the task that waits on an inherited socket.

        Raises `InvalidConfig` when there is none: the programme was not started by a parent.
        """
        try:
            control = await Control.open(_inherited(descriptor))
        except OSError as error:
            raise InvalidConfig(
                f"descriptor {descriptor} is no socket of a parent: {error.strerror}"
            ) from error
        task = await control.read()
        if task is None or "keyring" not in task:
            control.close()
            raise InvalidConfig(f"no parent has put a task on descriptor {descriptor}")
        return cls(control, task)

    def cluster(self, server: InstantServer, *, max_steered: int = MAX_STEERED) -> Cluster:
        """Return what connects a server with the other workers."""
        return Cluster(server, self._inbox, self._peers, max_steered=max_steered)

    def ready(self) -> None:
        """Say that the port is open."""
        self._control.send(ready=True)

    def say(self, text: str) -> None:
        """Have the parent say something."""
        self._control.send(say=text)

    def fail(self, text: str) -> None:
        """Say in one line why there is no serving."""
        self._control.send(failure=text)

    def drain(self) -> None:
        """Ask to be given no new sessions."""
        self._control.send(drain=True)

    async def follow(self, server: InstantServer, cluster: Cluster) -> None:
        """Do what the parent says, until it says stop or has gone."""
        async for line in self._control:
            if "roster" in line:
                self._receive_roster(line["roster"], server, cluster)
            elif "keyring" in line:
                server.rotate(parse_keyring(line["keyring"]))
                self._control.send(noted_keyring=line["serial"])
            elif "stop" in line:
                break
        self.stop.set()
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch

    def _receive_roster(self, told: Line, server: InstantServer, cluster: Cluster) -> None:
        roster = Roster.of(*told["alive"], draining=told["draining"])
        cluster.set_roster(roster, frozenset(told["joining"]))
        self._control.send(noted=told["serial"])
        if self.number in roster.alive:
            self.serving.set()
        if self.number in roster.draining and self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._empty(server))

    async def _empty(self, server: InstantServer) -> None:
        """Tell the parent when the last session of a worker that drains has ended."""
        while not is_empty(server.stats()) or server.server.sessions:
            await asyncio.sleep(_EMPTY_AFTER_S)
        self._control.send(empty=True)

    def close(self) -> None:
        """Let the parent see that we are gone. Harmless when repeated."""
        self._control.close()


def is_empty(stats: Mapping[str, Any]) -> bool:
    """Whether a server has nobody, nor expects anybody."""
    return not (stats["sessions"] or stats["waiting"] or stats["held_offers"])


def _inherited(descriptor: int) -> socket.socket:
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    return sock
