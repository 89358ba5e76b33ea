"""What is kept of clients at T0: their last check on each address, and records that came too soon.

    check ─▶ answered ─▶ WaitingRoom ─ hello ─▶ fed to the connection that it makes
    record of a stranger ─▶ EarlyRecords ─ a check within 200 ms ─▶ the same

A plain check says nothing of when its client will begin DTLS, if ever. So it is answered from the
ticket alone, and what it told (where from, how urgent, nominated or not) is kept as it came, for
the connection that may follow. Bounded in number, size and time. Called by `entrance`.
"""

from __future__ import annotations

from typing import Final

from warp.contract import Flow

MAX_REMEMBERED: Final = 4_096
MAX_FLOWS: Final = 4
"""Addresses of one client: its networks, in both families."""
_EARLY_S: Final = 0.2
_MAX_SILENCE_S: Final = 5.0  # between the checks of who thinks it is connected (RFC 7675)
_MAX_EARLY: Final = 2
_MAX_EARLY_FLOWS: Final = 64
_MAX_EARLY_BYTES: Final = 1_500


class Waiting:
    """One client at T0."""

    __slots__ = ("came_at", "checks", "heard_at", "prefix", "spent_s", "ticket_id", "ufrag")

    def __init__(self, ufrag: str, ticket_id: bytes, prefix: str, now: float) -> None:
        self.ufrag = ufrag
        self.ticket_id = ticket_id
        self.prefix = prefix
        self.checks: dict[Flow, bytes] = {}
        self.came_at = now
        self.heard_at = now
        self.spent_s = 0.0
        """For how long it has been heard of; silence counts for a few seconds at most."""


class WaitingRoom:
    """The clients at T0, longest unheard of first. Whoever takes them in limits their number."""

    __slots__ = ("_by_flow", "_by_ufrag", "_hello_s", "_patience_s", "_remembered")

    def __init__(self, patience_s: float, hello_s: float = 10.0) -> None:
        self._patience_s = patience_s
        self._hello_s = hello_s
        self._remembered: dict[str, tuple[float, float]] = {}
        """What those have spent who were not heard of for a while: they may come again."""
        self._by_ufrag: dict[str, Waiting] = {}
        self._by_flow: dict[Flow, Waiting] = {}

    def __len__(self) -> int:
        return len(self._by_ufrag)

    def find(self, ufrag: str) -> Waiting | None:
        """Return who waits under a ufrag, or None."""
        return self._by_ufrag.get(ufrag)

    def on(self, flow: Flow) -> Waiting | None:
        """Return whose check came last on a flow, or None."""
        return self._by_flow.get(flow)

    def admit(self, ufrag: str, ticket_id: bytes, prefix: str, now: float) -> Waiting:
        """Let a client wait from now on; `note` its check."""
        client = self._by_ufrag[ufrag] = Waiting(ufrag, ticket_id, prefix, now)
        spent_s, heard_at = self._remembered.pop(ufrag, (0.0, now))
        client.spent_s = spent_s + min(now - heard_at, _MAX_SILENCE_S)
        return client

    def note(self, client: Waiting, check: bytes, flow: Flow, now: float) -> None:
        """Keep an authentic check that has been answered, in place of an earlier one."""
        self._by_ufrag.pop(client.ufrag, None)
        self._by_ufrag[client.ufrag] = client
        client.spent_s += min(now - client.heard_at, _MAX_SILENCE_S)
        client.heard_at = now
        before = self._by_flow.get(flow)
        if before is not None and before is not client:
            del before.checks[flow]  # a NAT has given the address to another
        if flow not in client.checks and len(client.checks) >= MAX_FLOWS:
            oldest = next(iter(client.checks))
            del client.checks[oldest], self._by_flow[oldest]
        client.checks.pop(flow, None)
        client.checks[flow] = check
        self._by_flow[flow] = client

    def is_overdue(self, client: Waiting, now: float) -> bool:
        """Whether a client that goes on sending checks has had its time for a hello."""
        return client.spent_s + min(now - client.heard_at, _MAX_SILENCE_S) > self._hello_s

    def remove(self, client: Waiting) -> None:
        """Let a client go."""
        del self._by_ufrag[client.ufrag]
        for flow in client.checks:
            del self._by_flow[flow]

    def get_timer(self) -> float | None:
        """Return when the next client has waited long enough."""
        first = next(iter(self._by_ufrag.values()), None)
        return None if first is None else first.heard_at + self._patience_s

    def expire(self, now: float) -> list[Waiting]:
        """Let those go that have not been heard of for too long, and return them."""
        gone = []
        while (due := self.get_timer()) is not None and due <= now:
            client = next(iter(self._by_ufrag.values()))
            self.remove(client)
            gone.append(client)
            if len(self._remembered) >= MAX_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[client.ufrag] = (client.spent_s, client.heard_at)
        return gone


class EarlyRecords:
    """Handshake records from addresses that no check has come from yet (they overtook it)."""

    __slots__ = ("_by_flow",)

    def __init__(self) -> None:
        self._by_flow: dict[Flow, tuple[float, list[bytes]]] = {}

    def __len__(self) -> int:
        return len(self._by_flow)

    def hold(self, record: bytes, flow: Flow, now: float) -> None:
        """Keep one datagram for a moment; of many addresses the latest."""
        if len(record) > _MAX_EARLY_BYTES:
            return
        since, held = self._by_flow.pop(flow, (now, []))
        if now - since > _EARLY_S:
            since, held = now, []
        if len(held) < _MAX_EARLY:
            held.append(record)
        if len(self._by_flow) >= _MAX_EARLY_FLOWS:
            del self._by_flow[next(iter(self._by_flow))]
        self._by_flow[flow] = (since, held)

    def take(self, flow: Flow, now: float) -> list[bytes]:
        """Return what came from an address a moment ago."""
        if not self._by_flow:
            return []
        since, held = self._by_flow.pop(flow, (now, []))
        return held if now - since <= _EARLY_S else []
