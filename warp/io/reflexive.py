"""Server-reflexive candidates: what a STUN server sees of the session's own socket.

RFC 8489 section 2 and RFC 8445 section 5.1.1.2. The request must leave by the socket that carries
the session, or the answer would name another mapping; so the probe is a machine, the socket's
owner sends for it and takes its answer out of the stream (`ProbeTable`). Called by `gathering`.

    discover ─▶ ServerReflexiveProbe ─▶ port.send ─▶ STUN server
                       ▲                                  │
                       └── ProbeTable.receive ◀── port ◀──┘
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from warp.contract import Address, Datagram, Event, Flow
from warp.entropy import Entropy
from warp.errors import Discard
from warp.ice import Candidate, CandidateType, make_candidate
from warp.io.relay import resolve_server
from warp.redact import redact_address
from warp.stun import (
    BINDING,
    Attribute,
    ClientTransaction,
    MessageClass,
    TransactionConfig,
    TransactionState,
    build_message,
    decode_xor_address,
    is_stun,
    parse_message,
)
from warp.trace import Trace


@dataclass(frozen=True, slots=True)
class AddressDiscovered(Event):
    """A STUN server told which address it sees behind `flow.local`."""

    flow: Flow
    mapped: Address
    rtt_s: float | None


@dataclass(frozen=True, slots=True)
class DiscoveryFailed(Event):
    """A STUN server refused, answered without an address, or stayed silent."""

    flow: Flow
    state: TransactionState


class ServerReflexiveProbe:
    """One Binding request to a STUN server, as a machine with the five verbs."""

    __slots__ = ("_events", "_told", "_transaction", "discarded", "flow")

    def __init__(self, flow: Flow, entropy: Entropy, config: TransactionConfig) -> None:
        self.flow = flow
        self.discarded = 0
        request = build_message(
            BINDING, MessageClass.REQUEST, entropy.random_bytes(12), [], integrity_key=None
        )
        self._transaction = ClientTransaction(request, BINDING, config)
        self._events: list[AddressDiscovered | DiscoveryFailed] = []
        self._told = False

    @property
    def transaction_id(self) -> bytes:
        """What a response must carry."""
        return self._transaction.transaction_id

    def start(self, now: float) -> None:
        """Ask."""
        self._transaction.start(now)

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        """Take a response of the server; anything else is counted and forgotten."""
        try:
            message = parse_message(data)
            mapped = None
            if message.message_class is MessageClass.SUCCESS:
                value = message.get(Attribute.XOR_MAPPED_ADDRESS)
                mapped = decode_xor_address(value or b"", message.transaction_id)
        except Discard:
            self.discarded += 1
            return
        if flow != self.flow or not self._transaction.receive_message(message, now):
            self.discarded += 1
            return
        if mapped is not None:
            self._told = True
            self._events.append(AddressDiscovered(self.flow, mapped, self._transaction.rtt_s))
        self._tell_failure()

    def _tell_failure(self) -> None:
        ended = (TransactionState.FAILED, TransactionState.TIMED_OUT)
        if self._transaction.state in ended and not self._told:
            self._told = True
            self._events.append(DiscoveryFailed(self.flow, self._transaction.state))

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        """Drain the request when it is due."""
        return [(data, self.flow) for data in self._transaction.datagrams_to_send(now)]

    def get_timer(self) -> float | None:
        """Return when to ask again or to give up."""
        return self._transaction.get_timer()

    def handle_timer(self, now: float) -> None:
        """Ask again, or give up."""
        self._transaction.handle_timer(now)
        self._tell_failure()

    def events(self) -> list[AddressDiscovered | DiscoveryFailed]:
        """Drain what was learnt."""
        events, self._events = self._events, []
        return events


class ProbeTable:
    """Whose answers a socket's owner takes out of its stream before ICE sees them.

    The owner asks only while the table is not empty, and only for STUN:
    `if probes and data[0] < 4 and probes.receive(data, address): return`.
    """

    __slots__ = ("_receivers",)

    def __init__(self) -> None:
        self._receivers: dict[bytes, Callable[[bytes, Address], None]] = {}

    def __bool__(self) -> bool:
        return bool(self._receivers)

    def add(self, transaction_id: bytes, receive: Callable[[bytes, Address], None]) -> None:
        """Lead answers with this transaction id to `receive`."""
        self._receivers[transaction_id] = receive

    def remove(self, transaction_id: bytes) -> None:
        """Forget a transaction; harmless when it is unknown."""
        self._receivers.pop(transaction_id, None)

    def receive(self, data: bytes, remote: Address) -> bool:
        """Offer a datagram; returns whether it was the answer to a probe."""
        receive = self._receivers.get(data[8:20]) if is_stun(data) else None
        if receive is None:
            return False
        receive(data, remote)
        return True


class GatherPort(Protocol):
    """The socket that carries the session, as `gather` needs it."""

    @property
    def local(self) -> Address:
        """The bound address."""

    @property
    def probes(self) -> ProbeTable:
        """Where answers are intercepted."""

    def send(self, data: bytes, remote: Address) -> None:
        """Send one datagram."""


async def discover(
    port: GatherPort,
    base: Address,
    server: Address,
    config: TransactionConfig,
    entropy: Entropy,
    trace: Trace | None,
) -> Candidate | None:
    """Ask one STUN server through the session's socket; None when it tells no address.

    `base` is the address that the socket's flows show; `server` may be a host name.
    """
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in base[0] else socket.AF_INET
    remote = await resolve_server(server, family, socket.SOCK_DGRAM)
    if remote is None:
        trace_failure(trace, loop.time(), server, "no address of this family")
        return None
    probe = ServerReflexiveProbe(Flow(base, remote), entropy, config)
    wake = asyncio.Event()

    def receive(data: bytes, source: Address) -> None:
        probe.receive_datagram(data, Flow(base, source), loop.time())
        wake.set()

    port.probes.add(probe.transaction_id, receive)
    try:
        probe.start(loop.time())
        while True:
            for data, flow in probe.datagrams_to_send(loop.time()):
                port.send(data, flow.remote)
            for event in probe.events():
                if isinstance(event, AddressDiscovered):
                    return make_candidate(
                        CandidateType.SERVER_REFLEXIVE, event.mapped, base=base, server=remote[0]
                    )
                trace_failure(trace, loop.time(), server, event.state.value)
                return None
            await _wait(wake, probe.get_timer(), loop)
            probe.handle_timer(loop.time())
    finally:
        port.probes.remove(probe.transaction_id)


async def _wait(
    wake: asyncio.Event, deadline: float | None, loop: asyncio.AbstractEventLoop
) -> None:
    handle = None if deadline is None else loop.call_at(deadline, wake.set)
    try:
        await wake.wait()
        wake.clear()
    finally:
        if handle is not None:
            handle.cancel()


def trace_failure(trace: Trace | None, now: float, server: Address, why: str) -> None:
    """Say in the trace that a server was of no use."""
    if trace is not None:
        data = {"server": redact_address(server[0]), "port": server[1], "why": why}
        trace.emit(now, "io:server_failed", data)
