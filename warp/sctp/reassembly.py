"""Fragments become messages again (RFC 9260 section 6.9, RFC 8260 section 2).

Owned by `inbound`. Work per fragment does not depend on how many others wait: fragments of DATA
are joined to the neighbouring TSNs, those of I-DATA to their message.

    DATA    TSN 7 B ┐
            TSN 8   ├ one run, keyed by its first and its last TSN ──E──▶ message
            TSN 9 E ┘
    I-DATA  (stream, unordered, MID) ──▶ FSN 0, 1, 2 ... E ──▶ message
"""

from __future__ import annotations

from typing import Final, TypeAlias

from warp.errors import PeerMisbehaved
from warp.sctp.chunks import BEGIN, END, UNORDERED
from warp.sctp.reasons import SctpRule

FRAGMENT_COST: Final = 48
"""Bookkeeping bytes charged for each fragment kept, so that tiny ones cannot exhaust memory."""
ASSEMBLY_COST: Final = 320
"""Bookkeeping bytes charged for each incomplete message."""

Assembled: TypeAlias = tuple[int, bytes]
"""PPID and payload of a message that is complete."""


def _conflict(detail: str) -> PeerMisbehaved:
    return PeerMisbehaved(SctpRule.FRAGMENTS_OUT_OF_ORDER, "RFC 9260 section 6.9", detail)


class _Run:
    """Neighbouring fragments of one message. `front` holds what was prepended, reversed."""

    __slots__ = ("begins", "charge", "ends", "first", "front", "key", "last", "parts", "ppid")

    def __init__(self, tsn: int, key: int, ppid: int, payload: bytes, flags: int) -> None:
        self.first = self.last = tsn
        self.key = key
        self.ppid = ppid
        self.begins = bool(flags & BEGIN)
        self.ends = bool(flags & END)
        self.parts = [payload]
        self.front: list[bytes] = []
        self.charge = 0

    def joined(self) -> bytes:
        if self.front:
            self.front.reverse()
            return b"".join((*self.front, *self.parts))
        return b"".join(self.parts)

    def merge(self, later: _Run) -> None:
        """Take over the run that follows; the shorter list is moved, so total work is n log n."""
        if len(later.parts) + len(later.front) <= len(self.parts) + len(self.front):
            self.parts += reversed(later.front)
            self.parts += later.parts
        else:
            later.front += reversed(self.parts)
            later.front += self.front
            self.parts, self.front = later.parts, later.front
        self.last, self.ends = later.last, later.ends
        self.charge += later.charge


class TsnAssembler:
    """Incomplete messages of DATA chunks: a message is a row of consecutive TSNs from B to E."""

    __slots__ = ("_by_first", "_by_last", "charge")

    def __init__(self) -> None:
        self._by_first: dict[int, _Run] = {}
        self._by_last: dict[int, _Run] = {}
        self.charge = 0

    def add(
        self, tsn: int, flags: int, stream_id: int, sequence: int, ppid: int, payload: bytes
    ) -> Assembled | None:
        """Take a fragment in; return the message when this was the last one missing."""
        # an unordered message has no SSN worth comparing (RFC 9260 section 6.6)
        key = -1 - stream_id if flags & UNORDERED else stream_id << 16 | sequence
        before = self._by_last.get(tsn - 1)
        cost = len(payload) + FRAGMENT_COST
        if before is not None and not before.ends:
            if flags & BEGIN or before.key != key:
                raise _conflict(f"TSN {tsn} does not continue its predecessor")
            run = before
            del self._by_last[tsn - 1]
            run.parts.append(payload)
            run.last = tsn
            run.ends = bool(flags & END)
        else:
            if before is not None and not flags & BEGIN:
                raise _conflict(f"TSN {tsn} follows an end but does not begin")
            run = _Run(tsn, key, ppid, payload, flags)
            self._by_first[tsn] = run
            cost += ASSEMBLY_COST
        run.charge += cost
        self.charge += cost
        self._by_last[tsn] = run
        after = self._by_first.get(tsn + 1)
        if after is not None and (after.begins != run.ends or not (run.ends or after.key == key)):
            raise _conflict(f"TSN {tsn} does not lead to its successor")
        if after is not None and not run.ends:
            del self._by_first[tsn + 1], self._by_last[tsn]
            run.merge(after)
            self._by_last[run.last] = run
        if run.begins and run.ends:
            self._forget(run)
            return run.ppid, run.joined()
        return None

    def purge(self, cumulative: int) -> None:
        """Drop what begins at or before the forwarded point, and what can never begin after it."""
        for run in list(self._by_first.values()):
            if run.first <= cumulative or (run.first == cumulative + 1 and not run.begins):
                self._forget(run)

    def _forget(self, run: _Run) -> None:
        del self._by_first[run.first], self._by_last[run.last]
        self.charge -= run.charge


class _Assembly:
    """The fragments of one I-DATA message: `parts` in order, `early` those beyond a hole."""

    __slots__ = ("charge", "early", "last", "parts", "ppid")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.early: dict[int, bytes] = {}
        self.last: int | None = None
        self.ppid = 0
        self.charge = ASSEMBLY_COST


class MidAssembler:
    """Incomplete messages of I-DATA chunks."""

    __slots__ = ("_assemblies", "charge")

    def __init__(self) -> None:
        self._assemblies: dict[tuple[int, bool, int], _Assembly] = {}
        self.charge = 0

    def add(
        self, flags: int, stream_id: int, message_id: int, word: int, payload: bytes
    ) -> Assembled | None:
        """Take a fragment in; return the message when this was the last one missing."""
        key = (stream_id, bool(flags & UNORDERED), message_id)
        assembly = self._assemblies.get(key)
        if assembly is None:
            assembly = self._assemblies[key] = _Assembly()
            self.charge += ASSEMBLY_COST
        # the word is the PPID in the first fragment, whose FSN is 0 (RFC 8260 section 2.1)
        number = 0 if flags & BEGIN else word
        if flags & BEGIN:
            assembly.ppid = word
        elif not number:
            raise _conflict("fragment 0 without the B bit")
        self._check(assembly, number, bool(flags & END))
        cost = len(payload) + FRAGMENT_COST
        assembly.charge += cost
        self.charge += cost
        parts = assembly.parts
        if number == len(parts):
            parts.append(payload)
            while assembly.early and len(parts) in assembly.early:
                parts.append(assembly.early.pop(len(parts)))
        else:
            assembly.early[number] = payload
        if assembly.last is None or len(parts) <= assembly.last:
            return None
        self._forget(key)
        return assembly.ppid, b"".join(parts)

    def purge(self, stream_id: int, unordered: bool, message_id: int) -> None:
        """Drop the stream's incomplete messages up to and including this MID."""
        for key in list(self._assemblies):
            behind = (message_id - key[2]) & 0xFFFFFFFF
            if key[0] == stream_id and key[1] == unordered and behind < 0x80000000:
                self._forget(key)

    def purge_streams(self, stream_ids: frozenset[int]) -> None:
        """Drop every incomplete message of these streams, or of all when none is named."""
        for key in list(self._assemblies):
            if not stream_ids or key[0] in stream_ids:
                self._forget(key)

    @staticmethod
    def _check(assembly: _Assembly, number: int, ends: bool) -> None:
        if number < len(assembly.parts) or number in assembly.early:
            raise _conflict(f"fragment {number} came twice under different TSNs")
        last = assembly.last
        if last is not None and (ends or number > last):
            raise _conflict(f"fragment {number} beyond the last one, {last}")
        if ends:
            if assembly.early and max(assembly.early) > number:
                raise _conflict(f"last fragment {number} before others")
            assembly.last = number

    def _forget(self, key: tuple[int, bool, int]) -> None:
        self.charge -= self._assemblies.pop(key).charge
