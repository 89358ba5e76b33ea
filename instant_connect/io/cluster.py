"""One process among those that share a port: what it hands on, and what it is handed.

    InstantServer ─ hand_on, seek, begun, ended ─▶ Cluster ─ one datagram each ─▶ inbox of another
    InstantServer ◀─ take_over, learn, ... ◀────── Cluster ◀──────────────────── our own inbox

Inboxes are pairs of Unix datagram sockets that the parent makes and every process inherits: nobody
else can write to them, there is no name to guess and no file to be left behind, and the kernel says
in whole datagrams what was said. A full inbox drops, as a network does; all is counted. Whoever is
handed a call's datagrams time and again has the kernel lead them here (`io.steering`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from instant_connect.guests import Lodging
from instant_connect.handover import (
    MAX_ENTRIES,
    Asked,
    Begun,
    Ended,
    Handed,
    Message,
    Owned,
    Sought,
    decode_handover,
    encode_handover,
)
from instant_connect.host import lodging_of
from instant_connect.io.server import InstantServer
from instant_connect.io.steering import MAX_STEERED, Steering
from instant_connect.router import Journey, Roster
from instant_connect.sessions import InstantSession
from warp.contract import Flow
from warp.errors import Discard

READ_BATCH: Final = 256
_MAX_BYTES: Final = 65_536
_MAX_DESCRIPTORS: Final = 1
_SEEKS_PER_S: Final = 500.0
_SEEK_BURST: Final = 200.0
_OWNED_AGAIN_S: Final = 5.0
_MAX_OWNED: Final = 4_096

Answer = Callable[[socket.socket], object]
"""Answers a request that another process has sent, on the stream that came with it."""


def make_inbox() -> tuple[socket.socket, socket.socket]:
    """Return what one process reads and all write. Every process of the port inherits them."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for sock in (reader, writer):
        sock.setblocking(False)
    # what is not read yet counts against who writes, and that is one socket for all
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return reader, writer


class Cluster:
    """The neighbours of one server (`io.neighbours.Neighbours`)."""

    __slots__ = (
        "_answer",
        "_budget",
        "_inbox",
        "_loop",
        "_own",
        "_owned",
        "_peers",
        "_server",
        "counts",
        "steering",
    )

    def __init__(
        self,
        server: InstantServer,
        inbox: socket.socket,
        peers: Mapping[int, socket.socket],
        *,
        answer: Answer | None = None,
        max_steered: int = MAX_STEERED,
    ) -> None:
        """`peers` are what the inboxes of the other processes are written to, by number."""
        self._server = server
        self._own = server.host.answers.own
        self._inbox = inbox
        self._peers = {number: sock for number, sock in peers.items() if number != self._own}
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._budget = (_SEEK_BURST, self._loop.time())
        self._owned: dict[Flow, float] = {}
        self.steering = Steering(server.server, max_steered)
        self.counts = {"handed_on": 0, "taken_over": 0, "sought": 0, "dropped": 0, "unreadable": 0}
        inbox.setblocking(False)
        self._loop.add_reader(inbox.fileno(), self.receive)
        server.set_neighbours(self)

    @property
    def numbers(self) -> frozenset[int]:
        """The other processes that are alive."""
        return self._server.host.entrance.roster.alive & self._peers.keys()

    @property
    def taking(self) -> frozenset[int]:
        """All processes that take new sessions, we among them or not."""
        return self._server.host.entrance.roster.taking

    def set_answer(self, answer: Answer) -> None:
        """Tell who answers requests of other processes."""
        self._answer = answer

    # -- to others ----------------------------------------------------------------------------

    def hand_on(self, server: int, data: bytes, flow: Flow, journey: Journey) -> None:
        """Carry a datagram to another process, which takes it over."""
        self.counts["handed_on"] += 1
        self._send(server, Handed(data, flow, journey, self._server.way_to(flow.remote)))

    def seek(self, data: bytes, flow: Flow) -> None:
        """Let whoever knows the address take over a datagram; not too many of them."""
        tokens, since = self._budget
        now = self._loop.time()
        tokens = min(_SEEK_BURST, tokens + (now - since) * _SEEKS_PER_S)
        self._budget = (max(0.0, tokens - 1), now)
        if tokens < 1:
            self.counts["dropped"] += 1
            return
        self.counts["sought"] += 1
        message = Sought(self._own, data, flow, self._server.way_to(flow.remote))
        for number in self.numbers:
            self._send(number, message)

    def begun(self, session: InstantSession) -> None:
        """Tell whoever is asked about a session's ticket that it lives here."""
        owner = self._server.host.entrance.owner_of(session.ticket)
        if owner in self._peers:
            self._send(owner, Begun(self._own, (lodging_of(session),)))

    def ended(self, session: InstantSession) -> None:
        """Tell the same that it has ended."""
        owner = self._server.host.entrance.owner_of(session.ticket)
        if owner in self._peers:
            self._send(owner, Ended(self._own, (lodging_of(session).key,)))

    def set_roster(self, roster: Roster, joining: frozenset[int] = frozenset()) -> None:
        """Hear who is alive; tell those who are, or join, what they will be asked about."""
        self.receive()  # what we were told before we are asked
        self._server.set_roster(roster)
        following = roster._replace(alive=roster.alive | joining)
        for owner, lodgings in self._server.host.lodgings(following).items():
            self._tell(owner, lodgings)

    def _tell(self, owner: int, lodgings: list[Lodging]) -> None:
        if owner in self._peers:
            for at in range(0, len(lodgings), MAX_ENTRIES):
                self._send(owner, Begun(self._own, tuple(lodgings[at : at + MAX_ENTRIES])))

    def ask(self, server: int) -> socket.socket:
        """Return a stream to another process, which answers what is asked on it.

        Raises `ConnectionError` when it cannot be asked.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if server not in self.numbers:
                raise ConnectionError(f"worker {server} is not there")
            raw = encode_handover(Asked(self._own))
            socket.send_fds(self._peers[server], [raw], [theirs.fileno()])
        except OSError as error:
            ours.close()
            if isinstance(error, ConnectionError):
                raise
            raise ConnectionError(f"worker {server} cannot be asked: {error.strerror}") from error
        finally:
            theirs.close()
        return ours

    def _send(self, server: int, message: Message) -> None:
        sock = self._peers.get(server)
        if sock is None:
            self.counts["dropped"] += 1
            return
        try:
            sock.send(encode_handover(message))
        except OSError:
            # its inbox is full, or it is gone: as in a network, it is lost
            self.counts["dropped"] += 1

    # -- from others --------------------------------------------------------------------------

    def receive(self) -> None:
        """Read what has come."""
        for _ in range(READ_BATCH):
            try:
                raw, files, _, _ = socket.recv_fds(self._inbox, _MAX_BYTES, _MAX_DESCRIPTORS)
            except OSError:
                return
            streams = [socket.socket(fileno=number) for number in files]
            try:
                self._receive(decode_handover(raw), streams)
            except Discard:
                self.counts["unreadable"] += 1
            for stream in streams:
                stream.close()

    def _receive(self, message: Message, streams: list[socket.socket]) -> None:
        server, entrance = self._server, self._server.host.entrance
        if isinstance(message, Handed):
            self.counts["taken_over"] += 1
            server.take_over(message.data, message.flow, message.journey, message.way)
            self._keep(message.flow, message.journey.entry, is_relayed=message.way is not None)
        elif isinstance(message, Sought):
            if server.server.knows(message.flow):
                self.counts["taken_over"] += 1
                journey = Journey(1, message.server)
                server.take_over(message.data, message.flow, journey, message.way)
                self._keep(message.flow, message.server, is_relayed=message.way is not None)
        elif isinstance(message, Owned):
            entrance.note_owner(message.flow, message.server, self._loop.time())
        elif isinstance(message, Begun):
            entrance.learn(message.server, message.lodgings, self._loop.time())
        elif isinstance(message, Ended):
            entrance.guests.forget(message.keys, message.server)
        elif isinstance(message, Asked) and streams and self._answer is not None:
            self._answer(streams.pop())

    def _keep(self, flow: Flow, entry: int | None, *, is_relayed: bool) -> None:
        """Have what comes of a call led here; or at least straight from where it arrives.

        What has come to us from the network, and back by its owner's leave, is led here already.
        """
        if entry == self._own or not self._server.server.knows(flow):
            return
        if not is_relayed and self.steering.take(flow):
            return
        now = self._loop.time()
        if entry is None or now - self._owned.get(flow, float("-inf")) < _OWNED_AGAIN_S:
            return
        self._owned.pop(flow, None)
        if len(self._owned) >= _MAX_OWNED:
            del self._owned[next(iter(self._owned))]
        self._owned[flow] = now
        self._send(entry, Owned(self._own, flow))

    def stats(self) -> dict[str, Any]:
        """Return counts of what went from process to process."""
        return {**self.counts, "steered": len(self.steering), "unsteered": self.steering.refused}

    def close(self) -> None:
        """Stop reading, and let go of the sockets. Harmless when repeated."""
        self.steering.close()
        if self._inbox.fileno() >= 0:
            self._loop.remove_reader(self._inbox.fileno())
            self._inbox.close()
        for sock in self._peers.values():
            sock.close()
