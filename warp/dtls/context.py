"""What all organs of one connection share: configuration, timers, what leaves, what is reported.

Made by the connection, handed to every organ. No protocol in here.
"""

from __future__ import annotations

from typing import Any

from warp.contract import Event
from warp.dtls.config import MIN_MTU, DtlsConfig, DtlsRole
from warp.dtls.records import DtlsDiscard
from warp.names import Counts, Name
from warp.timers import TimerTable
from warp.trace import Trace

MIN_RTO_S = 0.05  # what libwebrtc clamps to; RFC 9147 section 5.8.2 lets the RTT decide
MAX_FIRST_RTO_S = 3.0


class DtlsTimer(Name):
    """Why a connection wants to be woken."""

    RETRANSMIT = "the flight was not answered"
    BURST = "the rest of a flight may leave"
    ACK = "a partial flight is to be acknowledged"
    DEADLINE = "the handshake takes too long"
    FORGET = "old keys are no longer needed"


class Outbox:
    """Sealed datagrams that wait to be drained.

    Handshake flights are apart from the rest, because they may ride in connectivity checks.
    """

    __slots__ = ("flight", "new_flight", "other")

    def __init__(self) -> None:
        self.flight: list[bytes] = []
        self.new_flight = False
        self.other: list[bytes] = []

    def drain(self) -> list[bytes]:
        """Return everything, flights first: data may depend on them, never the reverse."""
        if not self.flight:
            out, self.other = self.other, []
            return out
        out = self.flight + self.other
        self.flight.clear()
        self.other.clear()
        self.new_flight = False
        return out

    def take_flight(self) -> tuple[list[bytes], bool]:
        """Return the flight's datagrams, and whether they begin a new instance of a flight."""
        out, self.flight = self.flight, []
        new, self.new_flight = self.new_flight, False
        return out, new


class Context:
    """Shared by the organs of one connection."""

    __slots__ = (
        "config",
        "discards",
        "events",
        "mtu",
        "outbox",
        "role",
        "rto_s",
        "suspended",
        "timers",
        "trace",
    )

    def __init__(self, role: DtlsRole, config: DtlsConfig, trace: Trace | None) -> None:
        self.role = role
        self.config = config
        self.trace = trace
        self.timers: TimerTable[DtlsTimer] = TimerTable()
        self.events: list[Event] = []
        self.outbox = Outbox()
        self.discards: Counts[DtlsDiscard] = Counts()
        self.rto_s = config.initial_rto_s
        self.mtu = config.mtu
        self.suspended = False  # no retransmission timer: something else repeats for us

    def emit(self, now: float, name: str, data: dict[str, Any]) -> None:
        """Trace one event of this layer."""
        if self.trace is not None:
            self.trace.emit(now, "dtls:" + name, {"role": self.role.value, **data})

    def discard(self, reason: DtlsDiscard, now: float) -> None:
        """Count and trace something that was worth nothing."""
        self.discards[reason] += 1
        self.emit(now, "discarded", {"reason": reason.name.lower()})

    def set_rtt(self, rtt_s: float) -> None:
        """Derive the first retransmission timeout from a measured round trip time."""
        self.rto_s = min(max(2 * rtt_s, MIN_RTO_S), MAX_FIRST_RTO_S)

    def set_mtu(self, mtu: int) -> None:
        """Limit the UDP payloads that are built from now on."""
        self.mtu = max(mtu, MIN_MTU)
