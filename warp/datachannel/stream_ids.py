"""Which stream ids a registry may use (RFC 8832 section 6, RFC 8831 section 6.2).

Channels that we open with DCEP take even ids as the DTLS client and odd ids as the server, and pass
over what the peer has taken; negotiated ones take what both applications said. An id is free again
only after both directions were reset; where that never happened it is never used again.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from warp.datachannel.config import MAX_STREAM_ID

_NONE: Final[frozenset[int]] = frozenset()
"""Shared: almost no session loses an id for good."""


class StreamIds:
    """The allocator. `limit` ids exist: the smaller of the agreed stream counts."""

    __slots__ = ("_burned", "is_dtls_client", "limit")

    def __init__(self, is_dtls_client: bool | None) -> None:
        self.is_dtls_client = is_dtls_client
        self.limit = MAX_STREAM_ID + 1
        self._burned = _NONE

    def allocate(self, used: Container[int]) -> int | None:
        """Return the lowest free id of our parity, or None."""
        first = 0 if self.is_dtls_client else 1
        for stream_id in range(first, self.limit, 2):
            if stream_id not in used and stream_id not in self._burned:
                return stream_id
        return None

    def is_usable(self, stream_id: int) -> bool:
        """Whether the id exists and was not burned."""
        return stream_id < self.limit and stream_id not in self._burned

    def burn(self, stream_id: int) -> None:
        """Never use this id again: one direction may still carry the old channel."""
        self._burned |= {stream_id}
