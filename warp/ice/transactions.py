"""Our checks that wait for an answer, and how many bytes of them are under way.

Every check is a transaction of its own: none is retransmitted under its old id, so any answer
gives a true round-trip time (RFC 8445 section 14.3 leaves the pacing to the agent).
"""

from __future__ import annotations

from warp.ice.config import IceRole
from warp.ice.pair import CandidatePair

_MAX_OPEN = 256
_LIFETIME_S = 30.0


class Transaction:
    """One check that was sent."""

    __slots__ = ("nominates", "pair", "role", "sent_at", "size")

    def __init__(
        self, pair: CandidatePair, role: IceRole, nominates: bool, sent_at: float, size: int
    ) -> None:
        self.pair = pair
        self.role = role
        self.nominates = nominates
        self.sent_at = sent_at
        self.size = size


class Transactions:
    """The open ones by id, oldest first; bounded in number and age."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[bytes, Transaction] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, transaction_id: bytes, transaction: Transaction) -> None:
        """Remember a check; forgets those too old to be answered."""
        opened = self._open
        horizon = transaction.sent_at - _LIFETIME_S
        while opened:
            oldest = next(iter(opened))
            if len(opened) < _MAX_OPEN and opened[oldest].sent_at > horizon:
                break
            del opened[oldest]
        opened[transaction_id] = transaction

    def find(self, transaction_id: bytes) -> Transaction | None:
        """Return an open check without closing it: its answer may yet prove forged."""
        return self._open.get(transaction_id)

    def close(self, transaction_id: bytes) -> None:
        """Forget a check that was answered."""
        self._open.pop(transaction_id, None)

    def bytes_under_way(self, since: float) -> int:
        """Sum of the sizes of unanswered checks sent after `since`."""
        total = 0
        for transaction in reversed(self._open.values()):
            if transaction.sent_at <= since:
                break
            total += transaction.size
        return total

    def clear(self) -> None:
        """Forget all."""
        self._open.clear()
