"""Datagrams that arrived before their keys: kept in order, bounded, oldest dropped.

A peer may send media right behind (or ahead of) the flight that carries its keys. What is held
here is delivered only after the peer is authenticated (RFC 8446 section 2, half-RTT data).
"""

from __future__ import annotations

MAX_PACKETS = 64
MAX_BYTES = 64 * 1024


class HoldBuffer:
    """A bounded queue of raw packets."""

    __slots__ = ("_bytes", "_packets", "dropped")

    def __init__(self) -> None:
        self._packets: list[tuple[bytes, float]] = []
        self._bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._packets)

    def add(self, data: bytes, now: float) -> None:
        """Keep one packet with its time of arrival; make room by dropping the oldest."""
        self._packets.append((data, now))
        self._bytes += len(data)
        while len(self._packets) > MAX_PACKETS or self._bytes > MAX_BYTES:
            old, _ = self._packets.pop(0)
            self._bytes -= len(old)
            self.dropped += 1

    def take(self) -> list[tuple[bytes, float]]:
        """Empty the buffer and return its packets in order of arrival."""
        packets, self._packets = self._packets, []
        self._bytes = 0
        return packets
