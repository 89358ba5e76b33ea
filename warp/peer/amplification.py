"""How much an address may be sent before it has shown that it is there.

An ICE request proves that its sender knows the password, not that it can receive at its source
address. Until something arrives that only a receiver of our datagrams can know (a response to
our check, a flight that answers ours), an address gets at most three times what it has sent
(the rule of RFC 9000 section 8.1, applied to RFC 9147 section 5.1 under ICE).
"""

from __future__ import annotations

from warp.contract import Address, Flow

FACTOR = 3
MAX_ADDRESSES = 16
UNLIMITED = 1 << 30
_BINDING_REQUEST = b"\x00\x01"


class AmplificationBudget:
    """Counts bytes per unvalidated remote address; validated addresses are free."""

    __slots__ = ("_credit", "_validated", "blocked")

    def __init__(self) -> None:
        self._credit: dict[Address, int] = {}
        self._validated: tuple[Address, ...] = ()
        self.blocked = 0

    def receive(self, remote: Address, size: int) -> None:
        """Credit an address with the bytes that it sent in an authenticated datagram."""
        if remote in self._validated:
            return
        credit = self._credit
        if remote not in credit and len(credit) >= MAX_ADDRESSES:
            del credit[next(iter(credit))]
        credit[remote] = credit.get(remote, 0) + FACTOR * size

    def validate(self, remote: Address) -> None:
        """Lift the limit: the address has answered something we sent to it."""
        if remote in self._validated:
            return
        self._credit.pop(remote, None)
        self._validated = (*self._validated[1 - MAX_ADDRESSES :], remote)

    def is_validated(self, remote: Address) -> bool:
        """Tell whether the limit of this address is lifted."""
        return remote in self._validated

    def left(self, remote: Address) -> int:
        """Return how many bytes the address may still be sent."""
        return UNLIMITED if remote in self._validated else self._credit.get(remote, 0)

    def spend(self, remote: Address, size: int) -> bool:
        """Take `size` bytes from the address's credit; False when they may not be sent."""
        if remote in self._validated:
            return True
        left = self._credit.get(remote, 0) - size
        if left < 0:
            self.blocked += 1
            return False
        self._credit[remote] = left
        return True

    def may_leave(self, data: bytes, flow: Flow) -> bool:
        """Tell, and count, whether a datagram may leave: checks are paced by ICE itself."""
        return data[:2] == _BINDING_REQUEST or self.spend(flow.remote, len(data))
