"""Leads datagrams of many hosts' clients: the table of a relay, which can open nothing.

    client ─ check ─ route block ─▶ its hint, if that takes sessions; else rendezvous ─▶ upstream
           ─ anything else ───────▶ wherever its address was led last    (30 s idle: forgotten)
    upstream ─ envelope ─▶ client that is known ─▶ its datagram          nobody else is sent any
             ─ no envelope for 3 s, or the network refuses ─▶ down

All state can be lost: every check says again where it belongs. A session whose server drains stays
there, also when its client moves, as long as its last address is remembered. Bounded: addresses
that no server has answered make way first. A relay answers nobody itself. Called by `io.relay`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from instant_connect.envelope import DRAINING, TAKING, Envelope, decode_envelope, seal_envelope
from instant_connect.keyring import RelayKeys
from instant_connect.reasons import InstantDiscard
from instant_connect.router import Roster, relay_choice
from instant_connect.ticket import Route
from instant_connect.ufrag import peek_ufrag_route
from warp.contract import Address
from warp.errors import Discard, InvalidConfig
from warp.names import Counts, Name
from warp.peer import Kind, classify
from warp.stun import peek_username

_REQUEST: Final = b"\x00\x01"  # RFC 8489 section 5: a Binding request
_NOBODY: Final = "0.0.0.0"
"""Whose address is on a question."""
_NO_NUMBER: Final = -1
_UPSTREAM: Final = re.compile(
    r"(?P<first>\d{1,5})(-(?P<last>\d{1,5}))?="
    r"(\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]=]+)):(?P<port>\d{1,5})",
    re.ASCII,
)


class Health(Name):
    """What a relay knows of an upstream."""

    TAKING = "takes new sessions"
    DRAINING = "goes on with those it has"
    DOWN = "does not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    """How much a relay remembers, and for how long."""

    idle_s: float = 30.0  # then an address is forgotten
    max_flows: int = 65_536  # addresses that a server has answered: about 500 bytes each
    max_unanswered: int = 8_192  # addresses that none has answered yet
    probe_s: float = 1.0  # between questions to an upstream
    down_after_s: float = 3.0  # without an answer

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise InvalidConfig(f"{name} must be above 0, not {getattr(self, name)}")


class Upstream(NamedTuple):
    """A server behind the relay, with the numbers that tickets call it, first and last."""

    first: int
    last: int
    address: Address

    def __str__(self) -> str:
        host, port = self.address
        name = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{name} ({f'[{host}]' if ':' in host else host}:{port})"


class Passed(NamedTuple):
    """A datagram for an upstream, by its index."""

    upstream: int
    data: bytes


class HealthChanged(NamedTuple):
    """Something has become of an upstream."""

    upstream: Upstream
    health: Health


class _Flow:
    """One client's address."""

    __slots__ = ("block", "client", "heard_at", "is_answered", "upstream")

    def __init__(self, client: Address, upstream: int, block: bytes, now: float) -> None:
        self.client = client
        self.upstream = upstream
        self.block = block
        self.heard_at = now
        self.is_answered = False


class _Peer:
    """What is known of one upstream."""

    __slots__ = ("asked", "health", "heard_at", "probe_at")

    def __init__(self, now: float) -> None:
        self.asked = 0
        self.health = Health.TAKING  # until it has had the time to answer
        self.heard_at = now
        self.probe_at = now


class Relay:
    """Decides for one relay; whoever owns the sockets sends. `keys` may be replaced at any time."""

    __slots__ = (
        "_answered",
        "_by_block",
        "_changes",
        "_config",
        "_index_of",
        "_peers",
        "_roster",
        "_unanswered",
        "discards",
        "keys",
        "passed_back",
        "passed_on",
        "upstreams",
    )

    def __init__(
        self,
        keys: RelayKeys,
        upstreams: Sequence[Upstream],
        config: RelayConfig | None = None,
        *,
        now: float,
    ) -> None:
        """Raises `InvalidConfig` when there is no upstream, or two have a number in common."""
        self.keys = keys
        self.upstreams: Final = tuple(upstreams)
        self.discards: Counts[InstantDiscard] = Counts()
        self.passed_on = 0
        self.passed_back = 0
        self._config = config or RelayConfig()
        self._index_of = _numbered(self.upstreams)
        self._peers = [_Peer(now) for _ in self.upstreams]
        self._changes: list[HealthChanged] = []
        self._answered: OrderedDict[Address, _Flow] = OrderedDict()
        self._unanswered: OrderedDict[Address, _Flow] = OrderedDict()
        self._by_block: dict[bytes, _Flow] = {}
        self._roster = Roster(frozenset())
        self._count_roster()

    def __len__(self) -> int:
        return len(self._answered) + len(self._unanswered)

    def health(self, index: int) -> Health:
        """Return what is known of an upstream."""
        return self._peers[index].health

    # -- from clients -------------------------------------------------------------------------

    def receive_client(self, data: bytes, client: Address, now: float) -> Passed | None:
        """Return where a client's datagram goes, in its envelope; None: nowhere, and counted."""
        flow = self._find(client, now)
        try:
            ufrag = _ufrag_of(data)
            if ufrag is not None:
                flow = self._lead(ufrag, client, flow, now)
            if flow is None:
                raise Discard(InstantDiscard.NOT_FOR_US)
            if self._peers[flow.upstream].health is Health.DOWN:
                raise Discard(InstantDiscard.NOBODY)
            flow.heard_at = now
            (self._answered if flow.is_answered else self._unanswered).move_to_end(client)
            sealed = seal_envelope(Envelope(client, data, self.keys.current), self.keys)
        except Discard as discard:
            self._drop(discard)
            return None
        self.passed_on += 1
        return Passed(flow.upstream, sealed)

    def _find(self, client: Address, now: float) -> _Flow | None:
        flow = self._answered.get(client) or self._unanswered.get(client)
        if flow is not None and now - flow.heard_at > self._config.idle_s:
            self._forget(flow)
            return None
        return flow

    def _lead(self, ufrag: str, client: Address, flow: _Flow | None, now: float) -> _Flow | None:
        """Return the way of a check; one whose ufrag does not read goes the way of its address."""
        try:
            route, block = peek_ufrag_route(ufrag, self.keys)
        except Discard:
            if flow is None:
                raise
            return flow
        known = flow if flow is not None and flow.block == block else self._by_block.get(block)
        if known is not None and now - known.heard_at > self._config.idle_s:
            known = None
        if known is not None and self._peers[known.upstream].health is not Health.DOWN:
            upstream = known.upstream
        else:
            upstream = self._choose(route, block)
        if flow is None or flow.block != block:
            return self._add(client, upstream, block, now)
        flow.upstream = upstream
        return flow

    def _choose(self, route: Route, block: bytes) -> int:
        """Return the upstream of a check that says all that is known of it."""
        index = self._index_of.get(route.hint)
        hint = _NO_NUMBER if index is None else self.upstreams[index].first
        number = relay_choice(route._replace(hint=hint), block, self._roster)
        if number is None:
            raise Discard(InstantDiscard.NOBODY)
        return self._index_of[number]

    # -- what is remembered -------------------------------------------------------------------

    def _add(self, client: Address, upstream: int, block: bytes, now: float) -> _Flow:
        before = self._answered.get(client) or self._unanswered.get(client)
        if before is not None:
            self._forget(before)  # a NAT has given the address to another client
        if len(self._unanswered) >= self._config.max_unanswered:
            self._forget(next(iter(self._unanswered.values())))
        flow = self._unanswered[client] = _Flow(client, upstream, block, now)
        self._by_block[block] = flow
        return flow

    def _prove(self, flow: _Flow) -> None:
        """Keep an address that a server has answered: only authentic checks are answered."""
        if len(self._answered) >= self._config.max_flows:
            self._forget(next(iter(self._answered.values())))
        del self._unanswered[flow.client]
        self._answered[flow.client] = flow
        flow.is_answered = True

    def _forget(self, flow: _Flow) -> None:
        del (self._answered if flow.is_answered else self._unanswered)[flow.client]
        if self._by_block.get(flow.block) is flow:
            del self._by_block[flow.block]

    def _expire(self, now: float) -> None:
        for flows in (self._answered, self._unanswered):
            while flows:
                flow = next(iter(flows.values()))
                if now - flow.heard_at <= self._config.idle_s:
                    break
                self._forget(flow)

    # -- from upstreams -----------------------------------------------------------------------

    def receive_upstream(self, raw: bytes, index: int, now: float) -> tuple[bytes, Address] | None:
        """Return what an upstream sends to a client, and to which; None: to nobody."""
        try:
            envelope = decode_envelope(raw, self.keys)
            if not envelope.is_back:
                raise Discard(InstantDiscard.BAD_ENVELOPE)
            peer = self._peers[index]
            peer.heard_at = now
            if envelope.client[0] == _NOBODY:
                self._receive_answer(index, envelope)
                return None
            flow = self._find(envelope.client, now)
            if flow is None:
                raise Discard(InstantDiscard.NOT_FOR_US)
        except Discard as discard:
            self._drop(discard)
            return None
        if not flow.is_answered:
            self._prove(flow)
        self.passed_back += 1
        return envelope.data, flow.client

    def _receive_answer(self, index: int, envelope: Envelope) -> None:
        if envelope.client[1] != self._peers[index].asked:
            raise Discard(InstantDiscard.BAD_ENVELOPE)
        if envelope.data == TAKING:
            self._become(index, Health.TAKING)
        elif envelope.data == DRAINING:
            self._become(index, Health.DRAINING)

    def refuse(self, index: int) -> None:
        """Hear from the network that nobody is at an upstream (ICMP)."""
        self._become(index, Health.DOWN)

    def _become(self, index: int, health: Health) -> None:
        if self._peers[index].health is not health:
            self._peers[index].health = health
            self._changes.append(HealthChanged(self.upstreams[index], health))
            self._count_roster()

    def _count_roster(self) -> None:
        by_health: dict[Health, set[int]] = {health: set() for health in Health}
        for upstream, peer in zip(self.upstreams, self._peers, strict=True):
            by_health[peer.health].add(upstream.first)
        draining = frozenset(by_health[Health.DRAINING])
        self._roster = Roster(draining | by_health[Health.TAKING], draining)

    def _drop(self, discard: Discard) -> None:
        reason = discard.reason
        if not isinstance(reason, InstantDiscard):
            reason = InstantDiscard.BAD_MESSAGE
        self.discards[reason] += 1

    # -- time ---------------------------------------------------------------------------------

    def get_timer(self) -> float | None:
        """Return when the next upstream is to be asked."""
        return min(peer.probe_at for peer in self._peers)

    def handle_timer(self, now: float) -> list[Passed]:
        """Let time pass; return the questions to upstreams whose turn it is."""
        self._expire(now)
        out = []
        for index, peer in enumerate(self._peers):
            if peer.probe_at > now:
                continue
            if now - peer.heard_at > self._config.down_after_s:
                self._become(index, Health.DOWN)
            peer.probe_at = now + self._config.probe_s
            peer.asked = peer.asked % 0xFFFF + 1
            question = Envelope((_NOBODY, peer.asked), b"", self.keys.current)
            out.append(Passed(index, seal_envelope(question, self.keys)))
        return out

    def events(self) -> list[HealthChanged]:
        """Drain what has become of upstreams."""
        changes, self._changes = self._changes, []
        return changes

    def stats(self) -> dict[str, Any]:
        """Return counts, and the health of every upstream."""
        return {
            "flows": len(self._answered),
            "unanswered": len(self._unanswered),
            "passed_on": self.passed_on,
            "passed_back": self.passed_back,
            "dropped": {why.name: count for why, count in self.discards.items()},
            "upstreams": {
                str(upstream): peer.health.name
                for upstream, peer in zip(self.upstreams, self._peers, strict=True)
            },
        }


def _numbered(upstreams: Sequence[Upstream]) -> dict[int, int]:
    """Return the index of the upstream of every number."""
    if not upstreams:
        raise InvalidConfig("a relay needs at least one upstream")
    index_of: dict[int, int] = {}
    for index, upstream in enumerate(upstreams):
        for number in range(upstream.first, upstream.last + 1):
            if index_of.setdefault(number, index) != index:
                other = upstreams[index_of[number]]
                raise InvalidConfig(f"server {number} is both {other} and {upstream}")
    return index_of


def _ufrag_of(data: bytes) -> str | None:
    """Return whom a Binding request calls; None for anything else."""
    if data[:2] != _REQUEST or classify(data) is not Kind.STUN:
        return None
    names = peek_username(data)
    return None if names is None else names[0]


def parse_upstream(text: str) -> tuple[int, int, str, int]:
    """Read `ID=HOST:PORT` or `FIRST-LAST=HOST:PORT`: two numbers, a host and a port.

    Raises `InvalidConfig`, which says how it is written.
    """
    match = _UPSTREAM.fullmatch(text)
    if match is not None:
        first, port = int(match["first"]), int(match["port"])
        last = int(match["last"] or first)
        if first <= last < 0x10000 and 0 < port < 0x10000:
            return first, last, match["v6"] or match["host"], port
    raise InvalidConfig(
        f"an upstream is ID=HOST:PORT or FIRST-LAST=HOST:PORT, numbers up to 65535, not {text!r}"
    )
