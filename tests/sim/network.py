"""A seeded virtual network: what happens to a datagram between two machines.

Every direction between two named nodes is a `Link` with its own random stream, so that one
direction's traffic never changes the luck of another. Nothing here reads a clock: the time of
sending goes in, the times of arrival come out.

    sender ──▶ rules (the n-th datagram) ──▶ MTU ──▶ loss, bursts ──▶ rate ──▶ delay, jitter
           ──▶ reorder, duplicate ──▶ receiver
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, field

from warp.contract import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """How one direction treats datagrams. The default is a perfect link of 50 ms."""

    delay_s: float = 0.05
    jitter_s: float = 0.0
    """Uniform extra delay; the order is kept unless `reorder` says otherwise."""
    loss: float = 0.0
    burst_enter: float = 0.0
    """Chance for a datagram to begin a bad spell (Gilbert-Elliott)."""
    burst_leave: float = 0.5
    burst_loss: float = 1.0
    reorder: float = 0.0
    """Chance that a datagram is late by `reorder_s` and others overtake it."""
    reorder_s: float = 0.02
    duplicate: float = 0.0
    rate_bit_s: float | None = None
    queue_s: float = 0.2
    """With a rate: a datagram that would wait longer is dropped at the tail."""
    mtu_bytes: int = 1472
    """Largest UDP payload; a larger datagram is lost in silence."""


class RuleKind(enum.Enum):
    """What a rule does to its datagram."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    SWAP = "swap"
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class Rule:
    """A certain fate for the datagram number `index` (from 0) of one direction."""

    kind: RuleKind
    index: int
    seconds: float = 0.0


def drop(index: int) -> Rule:
    """Lose the datagram."""
    return Rule(RuleKind.DROP, index)


def duplicate(index: int, seconds: float = 0.001) -> Rule:
    """Deliver the datagram again after `seconds`."""
    return Rule(RuleKind.DUPLICATE, index, seconds)


def swap(index: int, seconds: float = 1.0) -> Rule:
    """Deliver the datagram right after the next one, or `seconds` late when none follows."""
    return Rule(RuleKind.SWAP, index, seconds)


def delay(index: int, seconds: float) -> Rule:
    """Deliver the datagram `seconds` later than its turn."""
    return Rule(RuleKind.DELAY, index, seconds)


class Transit:
    """One copy of a datagram under way. A swap may move `arrives_at` while it travels."""

    __slots__ = ("arrives_at", "data", "destination", "moved", "source")

    def __init__(
        self, data: bytes, source: Address, destination: Address, arrives_at: float
    ) -> None:
        self.data = data
        self.source = source
        self.destination = destination
        self.arrives_at = arrives_at
        self.moved = False


class Fate(enum.Enum):
    """What the network did with a datagram."""

    DELIVERED = "delivered"
    LOST = "lost"
    TOO_LARGE = "too large"
    QUEUE_FULL = "queue full"
    NO_ROUTE = "no route"


@dataclass(slots=True)
class Link:
    """One direction between two nodes."""

    config: LinkConfig
    luck: random.Random
    rules: list[Rule] = field(default_factory=list)
    count: int = 0
    down: bool = False
    """While true everything is lost (a cable pulled, Wi-Fi left)."""
    _bad_spell: bool = False
    _free_at: float = 0.0
    _last_arrival: float = 0.0
    _held: Transit | None = None

    def transmit(
        self, data: bytes, source: Address, destination: Address, now: float
    ) -> tuple[list[Transit], Fate]:
        """Send one datagram; returns its copies under way and its fate."""
        index = self.count
        self.count += 1
        rules = [rule for rule in self.rules if rule.index == index]
        fate = self._fate(data, rules, now)
        if fate is not Fate.DELIVERED:
            return [], fate
        extra = sum(rule.seconds for rule in rules if rule.kind is RuleKind.DELAY)
        first = Transit(data, source, destination, self._arrival(len(data), now) + extra)
        copies = [first]
        for rule in rules:
            if rule.kind is RuleKind.DUPLICATE:
                copies.append(Transit(data, source, destination, first.arrives_at + rule.seconds))
        if self.luck.random() < self.config.duplicate:
            copies.append(Transit(data, source, destination, first.arrives_at + 0.001))
        self._swap(first, rules)
        return copies, fate

    def _fate(self, data: bytes, rules: list[Rule], now: float) -> Fate:
        config = self.config
        if self.down or any(rule.kind is RuleKind.DROP for rule in rules):
            return Fate.LOST
        if len(data) > config.mtu_bytes:
            return Fate.TOO_LARGE
        if self.luck.random() < config.loss:
            return Fate.LOST
        turn = config.burst_leave if self._bad_spell else config.burst_enter
        if self.luck.random() < turn:
            self._bad_spell = not self._bad_spell
        if self._bad_spell and self.luck.random() < config.burst_loss:
            return Fate.LOST
        if config.rate_bit_s is not None and self._free_at - now > config.queue_s:
            return Fate.QUEUE_FULL
        return Fate.DELIVERED

    def _arrival(self, size: int, now: float) -> float:
        config = self.config
        leaves = now
        if config.rate_bit_s is not None:
            # IPv4 and UDP headers share the rate
            leaves = max(now, self._free_at) + (size + 28) * 8 / config.rate_bit_s
            self._free_at = leaves
        arrives = leaves + config.delay_s
        if config.jitter_s:
            arrives += self.luck.random() * config.jitter_s
        if self.luck.random() < config.reorder:
            return arrives + config.reorder_s
        self._last_arrival = max(arrives, self._last_arrival)
        return self._last_arrival

    def _swap(self, first: Transit, rules: list[Rule]) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.arrives_at = first.arrives_at
            held.moved = True
        for rule in rules:
            if rule.kind is RuleKind.SWAP:
                first.arrives_at += rule.seconds
                self._held = first


class Network:
    """Named nodes with addresses, a link for every direction, and NAT mappings."""

    __slots__ = ("_addresses", "_default", "_inner", "_links", "_outer", "_seed")

    def __init__(self, config: LinkConfig | None = None, *, seed: int = 0) -> None:
        self._default = config or LinkConfig()
        self._seed = seed
        self._links: dict[tuple[str, str], Link] = {}
        self._addresses: dict[Address, str] = {}
        self._outer: dict[Address, Address] = {}
        self._inner: dict[Address, Address] = {}

    def attach(self, node: str, address: Address) -> None:
        """Give a node an address; a node may have several."""
        self._addresses[address] = node

    def link(self, sender: str, receiver: str) -> Link:
        """Return the direction from one node to another, to set its config or rules."""
        key = (sender, receiver)
        if key not in self._links:
            luck = random.Random(f"{self._seed}:{sender}>{receiver}")
            self._links[key] = Link(self._default, luck)
        return self._links[key]

    def rebind(self, address: Address, outer: Address) -> None:
        """Let a NAT show `address` as `outer` from now on; an earlier mapping dies at once."""
        earlier = self._outer.get(address)
        if earlier is not None:
            del self._inner[earlier]
        self._outer[address] = outer
        self._inner[outer] = address

    def transmit(
        self, data: bytes, source: Address, destination: Address, now: float
    ) -> tuple[list[Transit], Fate, str]:
        """Send one datagram; returns copies under way, its fate and the receiving node."""
        sender = self._addresses.get(source, "nowhere")
        receiver = self.owner(destination)
        if receiver is None:
            return [], Fate.NO_ROUTE, "nowhere"
        shown = self._outer.get(source, source)
        copies, fate = self.link(sender, receiver).transmit(data, shown, destination, now)
        return copies, fate, receiver

    def owner(self, destination: Address) -> str | None:
        """Return the node that a datagram to `destination` reaches now, if any."""
        inner = self.inner(destination)
        return None if inner is None else self._addresses.get(inner)

    def inner(self, destination: Address) -> Address | None:
        """Undo the NAT: the address that the receiving node knows itself by."""
        if destination in self._inner:
            return self._inner[destination]
        # behind a NAT the private address is not reachable from outside
        return None if destination in self._outer else destination
