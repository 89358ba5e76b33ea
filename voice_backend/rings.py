"""A ring of records in memory that two processes share: one writes, one reads, nobody waits.

    head    tail    word 0 ... 5     data, `capacity` bytes, records laid end to end, wrapping
    u64     u64     u64 each         [u32 length | bytes][u32 length | bytes] ...

`head` and `tail` only grow; each has one writer, and moves when the bytes it speaks of are in
place. What does not fit is refused, so that a reader who hangs costs nothing but its records.
Plain loads and stores carry this on processors that keep the order of stores (x86-64, and ARM with
the barriers that the system calls between write and wake-up imply). Called by `worker`; pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from warp.errors import InternalError, InvalidConfig

WORDS: Final = 6
HEADER_BYTES: Final = 8 * (2 + WORDS)
_HEAD, _TAIL, _WORD = 0, 8, 16
_LENGTH: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


class Ring:
    """One end of a ring; both ends are made over the same memory, zeroed before the first."""

    __slots__ = ("_capacity", "_data", "_view")

    def __init__(self, view: memoryview) -> None:
        if view.nbytes <= HEADER_BYTES + _LENGTH.size:
            raise InvalidConfig(f"a ring needs more than {HEADER_BYTES} bytes, not {view.nbytes}")
        self._view = view
        self._data = view[HEADER_BYTES:]
        self._capacity = self._data.nbytes

    @property
    def capacity(self) -> int:
        """Bytes that lie in it at the most, lengths included."""
        return self._capacity

    @property
    def used(self) -> int:
        """Bytes that are written and not read."""
        return self._load(_HEAD) - self._load(_TAIL)

    def write(self, parts: Iterable[bytes | bytearray | memoryview]) -> bool:
        """Append a record, the parts joined; returns False when it does not fit."""
        views = [memoryview(part).cast("B") for part in parts]
        length = sum(view.nbytes for view in views)
        head = self._load(_HEAD)
        if length + _LENGTH.size > self._capacity - (head - self._load(_TAIL)):
            return False
        at = self._put(head, memoryview(_LENGTH.pack(length)))
        for view in views:
            at = self._put(at, view)
        self._store(_HEAD, at)
        return True

    def read(self) -> bytes | None:
        """Take the oldest record, or None; it is the caller's own copy."""
        tail, head = self._load(_TAIL), self._load(_HEAD)
        if head == tail:
            return None
        (length,) = _LENGTH.unpack(self._get(tail, _LENGTH.size))
        end = tail + _LENGTH.size + length
        if end > head:
            raise InternalError("a ring's record is longer than what was written")
        found = self._get(tail + _LENGTH.size, length)
        self._store(_TAIL, end)
        return found

    def word(self, index: int) -> int:
        """Return a number that the other end has set."""
        return self._load(_WORD + 8 * index)

    def set_word(self, index: int, value: int) -> None:
        """Set a number for the other end to see."""
        self._store(_WORD + 8 * index, value)

    def close(self) -> None:
        """Let go of the memory."""
        self._data.release()
        self._view.release()

    def _put(self, at: int, view: memoryview) -> int:
        begin = at % self._capacity
        first = min(view.nbytes, self._capacity - begin)
        self._data[begin : begin + first] = view[:first]
        if first < view.nbytes:
            self._data[: view.nbytes - first] = view[first:]
        return at + view.nbytes

    def _get(self, at: int, length: int) -> bytes:
        begin = at % self._capacity
        first = min(length, self._capacity - begin)
        if first == length:
            return bytes(self._data[begin : begin + length])
        return bytes(self._data[begin:]) + bytes(self._data[: length - first])

    def _load(self, at: int) -> int:
        return int(_U64.unpack_from(self._view, at)[0])

    def _store(self, at: int, value: int) -> None:
        _U64.pack_into(self._view, at, value)
