"""Who is let in: limits of what is unproven, an application's say, and a gate for floods.

    datagram ─▶ FloodGate (before any cryptography) ─▶ ticket, integrity ─▶ Admission ─▶ a session

Limits are on what has not reached T3 (`tiers`): all in all, of one ticket, and from one address
prefix. A surge beyond them is turned away at T0, where it costs one answer at most, so that its
clients come by signalling, which can queue or redirect. Called by `entrance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from instant_connect.reasons import InstantDiscard
from instant_connect.ticket import Ticket
from warp.contract import Address
from warp.errors import InvalidConfig
from warp.names import Name


class Verdict(Name):
    """What an application says of a client that has shown its ticket."""

    ADMIT = "let it in"
    DROP = "say nothing: its checks go on until signalling has answered"
    REFUSE = "answer with an authenticated error: its checks end at once"


Key = TypeVar("Key", str, bytes)
Admit = Callable[[Ticket, Address | None], Verdict]
"""Asked once for each attempt that is authentic, with the address that its first datagram came
from, or None when its offer came before. It must return at once."""
MAX_DECLINED: Final = 4_096
"""Attempts that are remembered as declined, so that their repetitions are no questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """How much a server takes on. Raises `InvalidConfig` for limits below 1."""

    max_sessions: int = 10_000  # proven or not
    max_half_open: int = 1_024  # connections below T3: a handshake under way
    max_waiting: int = 4_096  # clients at T0: about 1 KiB each
    max_unproven_per_prefix: int = 128  # below T3, from one IPv4 /24 or IPv6 /48
    max_unproven_per_ticket: int = 2  # below T3, on one ticket
    half_open_s: float = 5.0  # then an unfinished handshake has failed
    waiting_s: float = 5.0  # without a check
    hello_s: float = 10.0  # with checks and without a hello
    confirm_after_s: float = 30.0  # after T3: signalling will not come any more
    keeps_unattached: bool = True  # or end a session whose offer has not come by then
    max_held_offers: int = 4_096  # answered, and nobody has come yet: about 4 KiB each
    hold_s: float = 60.0  # for how long an answer can be taken up
    flood_per_s: int = 2_000  # unknown datagrams; beyond them prefixes are held to their rate
    ceiling_per_s: int = 10_000  # unknown datagrams that are looked at, in all
    prefix_rate_per_s: float = 20.0
    prefix_burst: int = 50
    max_prefixes: int = 4_096  # whose rate is known during a flood

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name != "keeps_unattached" and not getattr(self, name) > 0:
                raise InvalidConfig(f"{name} must be above 0, not {getattr(self, name)}")


def prefix_of(host: str) -> str:
    """Return the IPv4 /24 or the IPv6 /48 of a numeric address, as a key."""
    if ":" not in host:
        return host.rpartition(".")[0]
    groups = host.partition("::")[0].split(":", 3)[:3]
    while groups and groups[-1] in ("", "0"):  # "::" leaves out groups that are zero
        groups.pop()
    return ":".join(groups)


class Admission:
    """Counts what is unproven, by ticket and by prefix."""

    __slots__ = (
        "_admit",
        "_by_prefix",
        "_by_ticket",
        "_config",
        "_declined",
        "half_open",
        "max_sessions",
        "room",
        "sessions",
    )

    def __init__(self, config: AdmissionConfig, admit: Admit | None = None) -> None:
        self._config = config
        self._admit = admit
        self._by_prefix: dict[str, int] = {}
        self._by_ticket: dict[bytes, int] = {}
        self._declined: dict[bytes, Verdict] = {}
        self.half_open = 0
        self.sessions = 0
        self.max_sessions = config.max_sessions
        """Proven or not; whoever answers the calls may take fewer than the configuration says."""
        self.room: Callable[[], str | None] | None = None
        """Says why whoever answers the calls cannot take one more; None when it can."""

    def why_not(self, ticket_id: bytes, prefix: str, waiting: int) -> InstantDiscard | None:
        """Return why a client that nothing is known of cannot be taken on, or None."""
        config = self._config
        if waiting >= config.max_waiting or not self.has_room:
            return InstantDiscard.OVERLOADED
        if self._by_ticket.get(ticket_id, 0) >= config.max_unproven_per_ticket:
            return InstantDiscard.TICKET_BUSY
        if self._by_prefix.get(prefix, 0) >= config.max_unproven_per_prefix:
            return InstantDiscard.PREFIX_BUSY
        return None

    @property
    def has_room(self) -> bool:
        """Whether another handshake may begin."""
        return self.why_full() is None

    def why_full(self) -> str | None:
        """Return why no other handshake may begin, in words for signalling; None when it may."""
        if self.half_open >= self._config.max_half_open or self.sessions >= self.max_sessions:
            return f"the server already serves {self.sessions} sessions"
        return None if self.room is None else self.room()

    def ask(self, attempt: bytes, ticket: Ticket, address: Address | None) -> Verdict:
        """Return what the application says, or has said of this attempt (`replay.attempt_key`)."""
        if self._admit is None:
            return Verdict.ADMIT
        known = self._declined.get(attempt)
        if known is not None:
            return known
        verdict = self._admit(ticket, address)
        if verdict is not Verdict.ADMIT:
            if len(self._declined) >= MAX_DECLINED:
                del self._declined[next(iter(self._declined))]
            self._declined[attempt] = verdict
        return verdict

    def add(self, ticket_id: bytes, prefix: str) -> None:
        """Count a client that is unproven."""
        self._by_ticket[ticket_id] = self._by_ticket.get(ticket_id, 0) + 1
        self._by_prefix[prefix] = self._by_prefix.get(prefix, 0) + 1

    def remove(self, ticket_id: bytes, prefix: str) -> None:
        """Count a client no more: it is proven, or gone."""
        _decrease(self._by_ticket, ticket_id)
        _decrease(self._by_prefix, prefix)


def _decrease(counts: dict[Key, int], key: Key) -> None:
    left = counts.get(key, 0) - 1
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


class FloodGate:
    """Lets unknown datagrams through: all while they are few, few of each prefix in a flood.

    What one prefix sends beyond its rate takes nothing from the others. Costs a comparison while
    there is no flood. Bounded: of many prefixes those heard longest ago are forgotten.
    """

    __slots__ = ("_buckets", "_config", "_count", "_is_flooded", "_passed", "_until", "_window_s")

    def __init__(self, config: AdmissionConfig) -> None:
        self._config = config
        self._window_s: Final = 0.5
        self._until = float("-inf")
        self._count = 0
        self._passed = 0
        self._is_flooded = False
        self._buckets: dict[str, tuple[float, float]] = {}

    @property
    def is_flooded(self) -> bool:
        """Whether prefixes are held to their rate."""
        return self._is_flooded

    def passes(self, host: str, now: float) -> bool:
        """Tell whether a datagram from `host` is worth a look."""
        if now >= self._until:
            self._open_window(now)
        self._count += 1
        config, window = self._config, self._window_s
        if self._count > config.flood_per_s * window or self._is_flooded:
            self._is_flooded = True
            if self._passed >= config.ceiling_per_s * window or not self._take(
                prefix_of(host), now
            ):
                return False
        self._passed += 1
        return True

    def _open_window(self, now: float) -> None:
        few = self._count <= self._config.flood_per_s * self._window_s
        if few or now >= self._until + self._window_s:
            self._is_flooded = False
            self._buckets.clear()
        self._count = self._passed = 0
        self._until = now + self._window_s

    def _take(self, prefix: str, now: float) -> bool:
        config = self._config
        tokens, since = self._buckets.pop(prefix, (float(config.prefix_burst), now))
        tokens = min(config.prefix_burst, tokens + (now - since) * config.prefix_rate_per_s)
        passes = tokens >= 1
        if len(self._buckets) >= config.max_prefixes:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[prefix] = (tokens - 1 if passes else tokens, now)
        return passes
