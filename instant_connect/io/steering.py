"""Sockets of their own for calls whose datagrams the kernel gives to another process.

    a call's datagram, handed on by another process ─▶ take ─▶ the kernel gives us the rest
    every few seconds: calls that have gone ─▶ closed

Each one saves some 10 us a datagram, and costs every datagram of other flows that comes to the
port 9 ns; so their number is limited (decision 10), and what is beyond it is handed on as before.
Called by `io.cluster`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from warp.contract import Flow
from warp.errors import UsageError
from warp.io import Server
from warp.io.udp import UdpSocket

MAX_STEERED: Final = 256
_SWEEP_S: Final = 5.0


class Steering:
    """The connected sockets of one server."""

    __slots__ = ("_handle", "_limit", "_loop", "_server", "_sockets", "refused")

    def __init__(self, server: Server, limit: int = MAX_STEERED) -> None:
        self._server = server
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._sockets: dict[Flow, UdpSocket] = {}
        self._handle: asyncio.TimerHandle | None = None
        self.refused = 0
        """How often there was no socket to be had."""

    def __len__(self) -> int:
        return len(self._sockets)

    def take(self, flow: Flow) -> bool:
        """Let the kernel lead a flow here from now on; False when it has to be handed on."""
        if flow in self._sockets:
            return True
        if len(self._sockets) >= self._limit:
            self.refused += 1
            return False
        try:
            self._sockets[flow] = self._server.steer(flow)
        except UsageError:
            self.refused += 1
            return False
        if self._handle is None:
            self._handle = self._loop.call_later(_SWEEP_S, self._sweep)
        return True

    def _sweep(self) -> None:
        for flow in [flow for flow in self._sockets if not self._server.knows(flow)]:
            self._sockets.pop(flow).close()
        self._handle = self._loop.call_later(_SWEEP_S, self._sweep) if self._sockets else None

    def close(self) -> None:
        """Close every socket. Harmless when repeated."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()
