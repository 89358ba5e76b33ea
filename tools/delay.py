"""A path with a delay between two processes on one machine, in user space, that keeps a ladder.

    client ──▶ front ─ delay ─▶ back ──▶ server
    client ◀── front ◀─ delay ─ back ◀── server

The client takes `front` for the server's address, the server takes `back` for the client's. One
thread reads both sockets and sends from a heap of due times, so that a delay is exact to well under
a millisecond on an idle machine.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
import select
import socket
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

from warp_tools.dissect import Description, describe

_MAX_RUNGS = 20_000
_READ_AT_ONCE = 64
_LONGEST_WAIT_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class PathConfig:
    """How the path treats datagrams, each way."""

    delay_s: float = 0.05
    loss: float = 0.0
    seed: int = 0


class Rung(NamedTuple):
    """One datagram: when it entered the path (monotonic seconds), and what it was."""

    time: float
    from_client: bool
    size: int
    description: Description
    lost: bool


class DelayPath:
    """A running path; `close()` ends its thread."""

    __slots__ = (
        "_back",
        "_config",
        "_front",
        "_heap",
        "_luck",
        "_peers",
        "_stop",
        "_thread",
        "_ticket",
        "_wake",
        "ladder",
    )

    def __init__(
        self,
        server: tuple[str, int] | None = None,
        config: PathConfig | None = None,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        self._config = config or PathConfig()
        self._luck = random.Random(self._config.seed)
        self._front = _bound(host)
        self._back = _bound(host)
        self._wake, self._stop = socket.socketpair()
        self._peers: dict[socket.socket, tuple[str, int] | None] = {
            self._front: None,
            self._back: server,
        }
        self._heap: list[tuple[float, int, bytes, socket.socket]] = []
        self._ticket = itertools.count()
        self.ladder: list[Rung] = []
        self._thread = threading.Thread(target=self._run, name="delay path", daemon=True)
        self._thread.start()

    @property
    def server_side(self) -> tuple[str, int]:
        """What the client must take for the server's address."""
        host, port = self._front.getsockname()[:2]
        return host, port

    @property
    def client_side(self) -> tuple[str, int]:
        """What the server must take for the client's address."""
        host, port = self._back.getsockname()[:2]
        return host, port

    def lead_to(self, server: tuple[str, int]) -> None:
        """Set the server's address, when it became known after the path was made."""
        self._peers[self._back] = server

    def close(self) -> None:
        """Stop at once; what is under way is lost."""
        if self._thread.is_alive():
            self._stop.send(b"x")
            self._thread.join()
        for sock in (self._front, self._back, self._wake, self._stop):
            sock.close()

    def __enter__(self) -> DelayPath:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        sockets = [self._front, self._back, self._wake]
        while True:
            wait = _LONGEST_WAIT_S
            if self._heap:
                wait = max(0.0, self._heap[0][0] - time.monotonic())
            ready, _, _ = select.select(sockets, [], [], wait)
            if self._wake in ready:
                return
            for sock in ready:
                self._read(sock)
            self._send_due()

    def _read(self, sock: socket.socket) -> None:
        for _ in range(_READ_AT_ONCE):
            try:
                data, source = sock.recvfrom(65_536)
            except BlockingIOError:
                return
            except OSError:
                # an ICMP error for an earlier datagram: the other process is not there (yet)
                continue
            now = time.monotonic()
            self._peers[sock] = (source[0], source[1])
            out = self._back if sock is self._front else self._front
            # nobody there yet: lost, as behind a NAT that knows no mapping
            lost = self._luck.random() < self._config.loss or self._peers[out] is None
            if len(self.ladder) < _MAX_RUNGS:
                from_client = sock is self._front
                self.ladder.append(Rung(now, from_client, len(data), describe(data), lost))
            if not lost:
                due = now + self._config.delay_s
                heapq.heappush(self._heap, (due, next(self._ticket), data, out))

    def _send_due(self) -> None:
        while self._heap and self._heap[0][0] <= time.monotonic():
            _, _, data, out = heapq.heappop(self._heap)
            peer = self._peers[out]
            if peer is not None:
                with contextlib.suppress(OSError):
                    out.sendto(data, peer)


def _bound(host: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind((host, 0))
    sock.setblocking(False)
    return sock


def lead_through(sdp: str, address: tuple[str, int]) -> str:
    """Rewrite a description so that its only candidate is `address`, a side of a path."""
    lines, seen = [], False
    for line in sdp.splitlines():
        if line.startswith("a=candidate:"):
            fields = line.split()
            if seen or fields[2].lower() != "udp":
                continue
            seen = True
            fields[4], fields[5] = address[0], str(address[1])
            fields[7:] = ["host"]
            line = " ".join(fields)
        lines.append(line)
    return "\r\n".join(lines) + "\r\n"
