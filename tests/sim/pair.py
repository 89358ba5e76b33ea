"""Moves endpoints through virtual time: deliver, drain, let timers fire, collect events.

`Simulation` drives any number of endpoints by the five verbs; `Pair` is the common case of a
client and a server. Both kinds of endpoint fit: those that know flows (`Endpoint`) and those
that do not (`LayerEndpoint`).

    pair = Pair(client, server)                     # 50 ms each way, nothing lost
    pair.network.link("client", "server").rules.append(drop(0))
    pair.run(until=lambda: client.connected, timeout_s=5)
    pair.ladder                                     # what went over the wire, in order
"""

from __future__ import annotations

import heapq
import inspect
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.sim.clock import VirtualClock
from tests.sim.network import Fate, Link, LinkConfig, Network, Transit
from warp.contract import Address, Flow

CLIENT: Address = ("192.0.2.1", 50000)
SERVER: Address = ("203.0.113.1", 443)
MAX_STEPS = 200_000
MAX_DATAGRAMS_AT_ONCE = 10_000


def kind_of(data: bytes) -> str:
    """Name the protocol of a datagram by its first byte (RFC 7983 section 7)."""
    if not data:
        return "empty"
    first = data[0]
    if first <= 3:
        return "stun"
    if 20 <= first <= 63:
        return "dtls"
    if 128 <= first <= 191:
        return "rtcp" if len(data) > 1 and 192 <= data[1] <= 223 else "rtp"
    return "other"


class Step(NamedTuple):
    """One rung of the ladder: a datagram as it was sent, and what became of it."""

    time: float
    sender: str
    receiver: str
    size: int
    first_byte: int
    kind: str
    fate: Fate
    arrivals: tuple[float, ...]
    data: bytes


class Node:
    """An endpoint with a name and an address."""

    __slots__ = ("address", "endpoint", "events", "knows_flows", "name")

    def __init__(self, name: str, endpoint: Any, address: Address) -> None:
        self.name = name
        self.endpoint = endpoint
        self.address = address
        self.knows_flows = len(inspect.signature(endpoint.receive_datagram).parameters) == 3
        self.events: list[tuple[float, Any]] = []

    def named(self, kind: type) -> list[tuple[float, Any]]:
        """The events of one class, with their times."""
        return [(at, event) for at, event in self.events if isinstance(event, kind)]


class Simulation:
    """Endpoints, a network between them, and a clock."""

    def __init__(self, network: Network | None = None, *, clock: VirtualClock | None = None):
        self.network = network or Network()
        self.clock = clock or VirtualClock()
        self.nodes: dict[str, Node] = {}
        self.ladder: list[Step] = []
        self.after_step: list[Callable[[Node, float], None]] = []
        """Called after every delivery and timer, e.g. to move an application along."""
        self._peers: dict[str, Address] = {}
        self._heap: list[tuple[float, int, Transit]] = []
        self._ticket = itertools.count()
        self._plans: list[tuple[float, int, Callable[[float], None]]] = []

    @property
    def now(self) -> float:
        """The present virtual moment."""
        return self.clock.now

    def add(
        self, name: str, endpoint: Any, address: Address, *, peer: Address | None = None
    ) -> Node:
        """Attach an endpoint. One that knows no flows sends to `peer`."""
        node = Node(name, endpoint, address)
        self.nodes[name] = node
        self.network.attach(name, address)
        if peer is not None:
            self._peers[name] = peer
        return node

    def at(self, moment: float, act: Callable[[float], None]) -> None:
        """Do something in the middle of the run; `act` gets the moment."""
        heapq.heappush(self._plans, (moment, next(self._ticket), act))

    def inject(self, data: bytes, source: Address, destination: Address) -> None:
        """Send a datagram that no endpoint of ours made (an attacker, a stray)."""
        self._transmit(data, source, destination, "stranger")

    def run(self, *, until: Callable[[], bool] | None = None, timeout_s: float = 60.0) -> bool:
        """Run until `until()` is true, all is idle, or the time is over.

        Returns what `until` says at the end; without `until`, whether all went idle.
        """
        end = self.now + timeout_s
        for _ in range(MAX_STEPS):
            self._drain_all()
            if until is not None and until():
                return True
            moment = self._next_moment()
            if moment is None or moment > end:
                self.clock.advance_to(end if moment is not None else self.now)
                return until is None and moment is None
            self.clock.advance_to(max(moment, self.now))
            self._act()
        raise AssertionError(f"no end after {MAX_STEPS} steps at {self.now}")

    def run_for(self, seconds: float) -> None:
        """Run exactly so long, idle or not."""
        end = self.now + seconds
        self.run(timeout_s=seconds)
        self.clock.advance_to(max(end, self.now))

    def sent(self, sender: str, kind: str | None = None) -> list[Step]:
        """The rungs of one sender, of one kind if given."""
        return [s for s in self.ladder if s.sender == sender and (kind is None or s.kind == kind)]

    def _next_moment(self) -> float | None:
        moments = [node.endpoint.get_timer() for node in self.nodes.values()]
        moments += [queue[0][0] for queue in (self._heap, self._plans) if queue]
        return min((m for m in moments if m is not None), default=None)

    def _act(self) -> None:
        """One thing at the present moment: a delivery first, then a plan, then the timers."""
        now = self.now
        if self._heap and self._heap[0][0] <= now:
            self._deliver(heapq.heappop(self._heap)[2])
        elif self._plans and self._plans[0][0] <= now:
            heapq.heappop(self._plans)[2](now)
        else:
            self._fire(now)

    def _fire(self, now: float) -> None:
        for node in self.nodes.values():
            deadline = node.endpoint.get_timer()
            if deadline is not None and deadline <= now:
                node.endpoint.handle_timer(now)
                left = node.endpoint.get_timer()
                assert left is None or left > now, f"{node.name}: timer {left} stuck at {now}"
                self._drain(node)

    def _deliver(self, transit: Transit) -> None:
        name = self.network.owner(transit.destination)
        if name is None or name not in self.nodes:
            return
        node = self.nodes[name]
        if node.knows_flows:
            local = self.network.inner(transit.destination) or transit.destination
            node.endpoint.receive_datagram(transit.data, Flow(local, transit.source), self.now)
        else:
            node.endpoint.receive_datagram(transit.data, self.now)
        self._drain(node)

    def _drain_all(self) -> None:
        for node in self.nodes.values():
            self._drain(node)

    def _drain(self, node: Node) -> None:
        now = self.now
        for act in self.after_step:
            act(node, now)
        node.events += [(now, event) for event in node.endpoint.events()]
        outgoing = node.endpoint.datagrams_to_send(now)
        assert len(outgoing) <= MAX_DATAGRAMS_AT_ONCE, f"{node.name} floods the network"
        for item in outgoing:
            if node.knows_flows:
                data, flow = item
                self._transmit(data, flow.local, flow.remote, node.name)
            else:
                self._transmit(item, node.address, self._peers[node.name], node.name)
        node.events += [(now, event) for event in node.endpoint.events()]

    def _transmit(self, data: bytes, source: Address, destination: Address, sender: str) -> None:
        now = self.now
        copies, fate, receiver = self.network.transmit(data, source, destination, now)
        arrivals = tuple(copy.arrives_at for copy in copies)
        first = data[0] if data else -1
        self.ladder.append(
            Step(now, sender, receiver, len(data), first, kind_of(data), fate, arrivals, data)
        )
        for copy in copies:
            self._push(copy)
        self._settle_moved()

    def _push(self, transit: Transit) -> None:
        heapq.heappush(self._heap, (transit.arrives_at, next(self._ticket), transit))

    def _settle_moved(self) -> None:
        """Put a swapped datagram in its new place, right behind the one that overtook it."""
        moved = [entry for entry in self._heap if entry[2].moved]
        if moved:
            self._heap = [entry for entry in self._heap if not entry[2].moved]
            heapq.heapify(self._heap)
            for _, _, transit in moved:
                transit.moved = False
                self._push(transit)


class Pair(Simulation):
    """A client at `CLIENT` and a server at `SERVER`."""

    def __init__(
        self,
        client: Any,
        server: Any,
        *,
        config: LinkConfig | None = None,
        seed: int = 0,
        clock: VirtualClock | None = None,
    ) -> None:
        super().__init__(Network(config, seed=seed), clock=clock)
        self.client = self.add("client", client, CLIENT, peer=SERVER)
        self.server = self.add("server", server, SERVER, peer=CLIENT)

    @property
    def up(self) -> Link:
        """The direction from the client to the server."""
        return self.network.link("client", "server")

    @property
    def down(self) -> Link:
        """The direction from the server to the client."""
        return self.network.link("server", "client")

    @property
    def rtt_s(self) -> float:
        """The round-trip time without jitter and queues."""
        return float(self.up.config.delay_s + self.down.config.delay_s)
