"""A path between two processes on one machine that keeps every datagram it is given.

    ours ──▶ alias of theirs ═ delay ═ alias of ours ──▶ theirs

Each address that takes part is known to the other side by an alias of its own, so that an agent
with several sockets keeps its several addresses: what a NAT with one mapping for each address
does. One thread reads all aliases and sends from a heap of due times.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from warp.errors import Discard
from warp.stun import Attribute, Message, is_stun, parse_message

HOST = "127.0.0.1"
_READ_AT_ONCE = 32
_LONGEST_WAIT_S = 0.25

Address = tuple[str, int]


class Rung(NamedTuple):
    """One datagram: when it entered the path (monotonic seconds), from whom, and its bytes."""

    time: float
    ours: bool
    data: bytes

    @property
    def message(self) -> Message | None:
        """The STUN message that it is, or None."""
        if not is_stun(self.data):
            return None
        try:
            return parse_message(self.data)
        except Discard:
            return None

    @property
    def rider(self) -> bytes:
        """The DTLS datagram inside a STUN message, or nothing."""
        message = self.message
        return (message.get(Attribute.META_DTLS_IN_STUN) if message is not None else None) or b""

    @property
    def is_check(self) -> bool:
        """Whether it is a Binding request."""
        return self.data[:2] == b"\x00\x01"

    @property
    def is_dtls(self) -> bool:
        """Whether it is a bare DTLS datagram (RFC 7983 section 7)."""
        return 20 <= self.data[0] <= 63

    @property
    def is_media(self) -> bool:
        """Whether it is an SRTP or SRTCP packet."""
        return 128 <= self.data[0] <= 191


Rule = Callable[[Rung], float | None]
"""Says by how many seconds a datagram is later than the others; None: it is lost."""


class Wire:
    """A running path; `close()` ends its thread."""

    def __init__(self, *, delay_s: float = 0.0, loss: float = 0.0, seed: int = 0) -> None:
        self._delay_s = delay_s
        self._loss = loss
        self._luck = random.Random(seed)
        self._heap: list[tuple[float, int, bytes, socket.socket, Address]] = []
        self._order = itertools.count()
        self._aliases: dict[Address, socket.socket] = {}
        self._owners: dict[socket.socket, tuple[Address, bool]] = {}
        self._dead: list[socket.socket] = []
        self._lock = threading.Lock()
        self._wake, self._stop = os.pipe()
        self._closed = False
        self.rungs: list[Rung] = []
        self.rule: Rule | None = None
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    def alias(self, address: Address, *, ours: bool) -> Address:
        """Return what the other side must take for `address`."""
        host, port = self._alias(address, ours).getsockname()
        return host, port

    def lose(self, share: float) -> None:
        """From now on lose this share of all datagrams, each way."""
        self._loss = share

    def rebind(self, *, ours: bool) -> None:
        """Give every address of one side a new alias, as a NAT does that has restarted."""
        with self._lock:
            moved = [(s, a) for s, (a, o) in self._owners.items() if o is ours]
            for sock, address in moved:
                del self._owners[sock], self._aliases[address]
                self._dead.append(sock)

    def _alias(self, address: Address, ours: bool) -> socket.socket:
        with self._lock:
            sock = self._aliases.get(address)
            if sock is None:
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                sock.bind((HOST, 0))
                sock.setblocking(False)
                self._aliases[address] = sock
                self._owners[sock] = (address, ours)
                os.write(self._stop, b"n")
            return sock

    def through(self, sdp: str, *, ours: bool) -> str:
        """Rewrite a description: UDP candidates on loopback lead here, there are no others."""
        lines = []
        for line in sdp.splitlines():
            if line.startswith("a=candidate:"):
                fields = line.split()
                if fields[2].lower() != "udp" or fields[4] != HOST:
                    continue
                host, port = self.alias((fields[4], int(fields[5])), ours=ours)
                fields[4:6] = host, str(port)
                line = " ".join(fields)
            lines.append(line)
        return "\r\n".join(lines) + "\r\n"

    def since(self, begin: float) -> list[tuple[float, Rung]]:
        """Return the datagrams with their times relative to `begin`."""
        return [(rung.time - begin, rung) for rung in list(self.rungs)]

    def first_check(self, *, ours: bool) -> float:
        """Return when one side's first check entered the path."""
        return next(r.time for r in list(self.rungs) if r.ours is ours and r.is_check)

    def riders(self, *, ours: bool) -> list[bytes]:
        """Return the DTLS datagrams that one side sent inside STUN."""
        return [rung.rider for rung in list(self.rungs) if rung.ours is ours and rung.rider]

    def _run(self) -> None:
        while True:
            with self._lock:
                sockets = list(self._owners)
            wait = _LONGEST_WAIT_S
            if self._heap:
                wait = max(0.0, self._heap[0][0] - time.monotonic())
            waiting: list[socket.socket | int] = [*sockets, self._wake]
            ready, _, _ = select.select(waiting, [], [], wait)
            if self._wake in ready and b"x" in os.read(self._wake, 64):
                return
            for sock in ready:
                if isinstance(sock, socket.socket):
                    self._read(sock)
            self._send_due()

    def _read(self, sock: socket.socket) -> None:
        owner = self._owners.get(sock)
        if owner is None:
            return
        target, targets_ours = owner
        for _ in range(_READ_AT_ONCE):
            try:
                data, source = sock.recvfrom(65_536)
            except BlockingIOError:
                return
            except OSError:
                # an ICMP error for an earlier datagram: the other process has gone
                continue
            now = time.monotonic()
            rung = Rung(now, not targets_ours, data)
            self.rungs.append(rung)
            out = self._alias(source, not targets_ours)
            late = self.rule(rung) if self.rule is not None else 0.0
            if late is None or self._luck.random() < self._loss:
                continue
            due = now + self._delay_s + late
            heapq.heappush(self._heap, (due, next(self._order), data, out, target))

    def _send_due(self) -> None:
        while self._heap and self._heap[0][0] <= time.monotonic():
            _, _, data, out, target = heapq.heappop(self._heap)
            with contextlib.suppress(OSError):
                out.sendto(data, target)

    def close(self) -> None:
        """Stop at once; what is under way is lost."""
        if self._closed:
            return
        self._closed = True
        os.write(self._stop, b"x")
        self._thread.join()
        for sock in (*self._owners, *self._dead):
            sock.close()
        os.close(self._wake)
        os.close(self._stop)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
