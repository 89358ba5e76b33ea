"""Decrypted application data on its way up: held until the peer is known (RFC 8827 section 6.5).

Called by the connection. Order is the order of arrival: records are never sorted.
"""

from __future__ import annotations

from typing import Final

MAX_HELD: Final = 64 * 1024


class Inbox:
    """What the application will drain, and what it must not see yet."""

    __slots__ = ("_held", "_held_bytes", "ready")

    def __init__(self) -> None:
        self.ready: list[bytes] = []
        self._held: list[bytes] = []
        self._held_bytes = 0

    def hold(self, data: bytes) -> bool:
        """Keep data until the peer is verified; tell whether there was room."""
        if self._held_bytes + len(data) > MAX_HELD:
            return False
        self._held.append(data)
        self._held_bytes += len(data)
        return True

    def release(self) -> None:
        """Let the application have what was held."""
        self.ready.extend(self._held)
        self.drop()

    def drop(self) -> None:
        """Forget what was held: the peer is not who it should be."""
        self._held.clear()
        self._held_bytes = 0

    def drain(self) -> list[bytes]:
        """Return what has come in, in order."""
        out, self.ready = self.ready, []
        return out
