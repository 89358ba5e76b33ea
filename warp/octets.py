"""Bounds-checked reading of network-order fields, for the wire modules off the hot path."""

from __future__ import annotations

from typing import Final


class OctetsError(ValueError):
    """The input is shorter, or longer, than its own fields say. Wire modules map it."""


class Reader:
    """A cursor over bytes. Every read is checked; nothing is copied before it is known to fit."""

    __slots__ = ("_data", "_end", "_pos")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data: Final = data
        self._pos = start
        self._end = len(data) if end is None else end

    @property
    def position(self) -> int:
        """Offset of the next byte from the start of the buffer."""
        return self._pos

    def remaining(self) -> int:
        """Return how many bytes are left."""
        return self._end - self._pos

    def _uint(self, size: int) -> int:
        pos = self._pos
        if pos + size > self._end:
            raise self._short(size)
        self._pos = pos + size
        return int.from_bytes(self._data[pos : pos + size], "big")

    def _short(self, wanted: int) -> OctetsError:
        return OctetsError(f"{wanted} bytes wanted, {self._end - self._pos} left")

    def _vector(self, length_size: int) -> bytes:
        start = self._pos + length_size
        if start > self._end:
            raise self._short(length_size)
        end = start + int.from_bytes(self._data[self._pos : start], "big")
        if end > self._end:
            self._pos = start
            raise self._short(end - start)
        self._pos = end
        return self._data[start:end]

    def u8(self) -> int:
        """Read one byte."""
        pos = self._pos
        if pos >= self._end:
            raise self._short(1)
        self._pos = pos + 1
        return self._data[pos]

    def u16(self) -> int:
        """Read two bytes."""
        pos = self._pos
        if pos + 2 > self._end:
            raise self._short(2)
        self._pos = pos + 2
        return self._data[pos] << 8 | self._data[pos + 1]

    def u24(self) -> int:
        """Read three bytes."""
        return self._uint(3)

    def u32(self) -> int:
        """Read four bytes."""
        return self._uint(4)

    def u48(self) -> int:
        """Read six bytes."""
        return self._uint(6)

    def u64(self) -> int:
        """Read eight bytes."""
        return self._uint(8)

    def take(self, length: int) -> bytes:
        """Read `length` bytes."""
        pos = self._pos
        if length < 0 or pos + length > self._end:
            raise self._short(length)
        self._pos = pos + length
        return self._data[pos : pos + length]

    def rest(self) -> bytes:
        """Read what is left."""
        return self.take(self._end - self._pos)

    def vector8(self) -> bytes:
        """Read a vector with a one-byte length (RFC 8446 section 3.4)."""
        return self._vector(1)

    def vector16(self) -> bytes:
        """Read a vector with a two-byte length."""
        return self._vector(2)

    def vector24(self) -> bytes:
        """Read a vector with a three-byte length."""
        return self._vector(3)

    def expect_end(self) -> None:
        """Raise unless everything has been read."""
        if self._pos != self._end:
            raise OctetsError(f"{self._end - self._pos} bytes too many")


def vector8(body: bytes) -> bytes:
    """Return `body` behind a one-byte length."""
    return len(body).to_bytes(1, "big") + body


def vector16(body: bytes) -> bytes:
    """Return `body` behind a two-byte length."""
    return len(body).to_bytes(2, "big") + body


def vector24(body: bytes) -> bytes:
    """Return `body` behind a three-byte length."""
    return len(body).to_bytes(3, "big") + body
