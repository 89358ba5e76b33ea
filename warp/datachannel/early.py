"""Messages for streams that have no channel yet, bounded.

They arrive when the peer's application created a negotiated channel before ours did, or when an
unordered message overtook its OPEN, or while the stream's old channel still waits for the answer to
its reset. Used by `registry`.
"""

from __future__ import annotations

from typing import Final

RESET: Final = -1  # no PPID: here the peer reset the stream


class EarlyMessages:
    """(ppid, payload) by stream id, in order of arrival."""

    __slots__ = ("_bytes", "_count", "_max_bytes", "_max_count", "_streams")

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._streams: dict[int, list[tuple[int, bytes]]] = {}
        self._count = 0
        self._bytes = 0
        self._max_count = max_count
        self._max_bytes = max_bytes

    def keep(self, stream_id: int, ppid: int, data: bytes) -> bool:
        """Keep a message; False when there is no room."""
        if self._count >= self._max_count or self._bytes + len(data) > self._max_bytes:
            return False
        self._streams.setdefault(stream_id, []).append((ppid, data))
        self._count += 1
        self._bytes += len(data)
        return True

    def keep_reset(self, stream_id: int) -> None:
        """Note that the channel whose messages are kept was closed again already."""
        kept = self._streams.get(stream_id)
        if kept is not None and kept[-1][0] != RESET:
            kept.append((RESET, b""))
            self._count += 1

    def take(self, stream_id: int) -> list[tuple[int, bytes]]:
        """Remove and return what was kept for a stream."""
        kept = self._streams.pop(stream_id, None)
        if kept is None:
            return []
        self._count -= len(kept)
        self._bytes -= sum(len(data) for _, data in kept)
        return kept
