"""From DATA chunks to messages: admission, reassembly, order (RFC 9260 6.2, 6.5-6.7, RFC 8260).

Called by the association for every DATA, I-DATA and FORWARD-TSN, and by `reconfig` when the peer
resets its streams.

    chunk ──admit──▶ tracker ──▶ (held by a deferred reset) ──▶ reassembly ──▶ order ──▶ messages
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn, TypeAlias

from warp.errors import Discard, PeerMisbehaved
from warp.sctp.chunks import (
    BEGIN,
    DATA_HEADER,
    END,
    I_DATA_HEADER,
    IMMEDIATE,
    UNORDERED,
    ChunkType,
    ForwardTsn,
    encode_chunk,
)
from warp.sctp.packet import Outbox
from warp.sctp.parameters import Cause, encode_causes
from warp.sctp.reasons import SctpDiscard, SctpRule
from warp.sctp.reassembly import FRAGMENT_COST, Assembled, MidAssembler, TsnAssembler
from warp.sctp.sack import MASK32, ReceiveTracker
from warp.serial import extend32

ReceivedMessage: TypeAlias = tuple[int, int, bytes]
"""Stream id, PPID, payload."""
_Held: TypeAlias = tuple[int, int, int, int, int, bytes]

_WHOLE: Final = BEGIN | END
_DATA_FIELDS: Final = struct.Struct("!IHHI")
_I_DATA_FIELDS: Final = struct.Struct("!IHHII")
_MESSAGE_COST: Final = 128
"""Bookkeeping bytes charged for each message that waits for its turn or its reader."""


class _Order:
    """What is deliverable, and what waits for an earlier message of its stream."""

    __slots__ = ("_mask", "_next", "_ready_charge", "_skipped", "_waiting", "charge", "ready")

    def __init__(self, mask: int) -> None:
        self._mask = mask
        self._next: dict[int, int] = {}
        self._waiting: dict[int, dict[int, Assembled]] = {}
        self._skipped: dict[int, int] = {}
        """Newest unordered message id of a stream that the peer has given up."""
        self.ready: list[ReceivedMessage] = []
        self._ready_charge = 0
        self.charge = 0

    def deliver(self, stream_id: int, ppid: int, payload: bytes) -> None:
        cost = len(payload) + _MESSAGE_COST
        self.charge += cost
        self._ready_charge += cost
        self.ready.append((stream_id, ppid, payload))

    def receive(self, stream_id: int, sequence: int, ppid: int, payload: bytes) -> None:
        """Deliver in the stream's order."""
        expected = self._next.get(stream_id, 0)
        if sequence == expected:
            self.deliver(stream_id, ppid, payload)
            self._next[stream_id] = (expected + 1) & self._mask
            if stream_id in self._waiting:
                self._release(stream_id)
            return
        waiting = self._waiting.setdefault(stream_id, {})
        if ((sequence - expected) & self._mask) > self._mask >> 1 or sequence in waiting:
            raise Discard(SctpDiscard.OLD_SEQUENCE, f"stream {stream_id} sequence {sequence}")
        waiting[sequence] = (ppid, payload)
        self.charge += len(payload) + _MESSAGE_COST

    def is_past(self, stream_id: int, unordered: bool, sequence: int) -> bool:
        """Tell whether a message was delivered or given up, so that no part of it is of use."""
        mask = self._mask
        if unordered:
            skipped = self._skipped.get(stream_id)
            return skipped is not None and ((skipped - sequence) & mask) <= mask >> 1
        return ((sequence - self._next.get(stream_id, 0)) & mask) > mask >> 1

    def skip_unordered(self, stream_id: int, sequence: int) -> None:
        """Expect nothing more of the unordered messages up to `sequence`."""
        if not self.is_past(stream_id, True, sequence):
            self._skipped[stream_id] = sequence

    def skip(self, stream_id: int, sequence: int) -> None:
        """Stop waiting for anything up to `sequence` (RFC 3758 section 3.6)."""
        mask = self._mask
        expected = self._next.get(stream_id, 0)
        if ((sequence - expected) & mask) > mask >> 1:
            return
        waiting = self._waiting.get(stream_id, {})
        passed = [s for s in waiting if ((s - expected) & mask) <= ((sequence - expected) & mask)]
        for each in sorted(passed, key=lambda s: (s - expected) & mask):
            self._promote(stream_id, waiting.pop(each))
        self._next[stream_id] = (sequence + 1) & mask
        self._release(stream_id)

    def reset(self, stream_ids: frozenset[int]) -> None:
        """Start the streams, or all when none is named, at 0 again."""
        for stream_id in stream_ids or {*self._next, *self._waiting, *self._skipped}:
            self._next.pop(stream_id, None)
            self._skipped.pop(stream_id, None)
            for ppid, payload in self._waiting.pop(stream_id, {}).values():
                del ppid
                self.charge -= len(payload) + _MESSAGE_COST

    def take(self) -> list[ReceivedMessage]:
        ready = self.ready
        if ready:
            self.ready = []
            self.charge -= self._ready_charge
            self._ready_charge = 0
        return ready

    def _release(self, stream_id: int) -> None:
        waiting = self._waiting.get(stream_id)
        expected = self._next[stream_id]
        while waiting and expected in waiting:
            self._promote(stream_id, waiting.pop(expected))
            expected = (expected + 1) & self._mask
        self._next[stream_id] = expected
        if not waiting:
            self._waiting.pop(stream_id, None)

    def _promote(self, stream_id: int, message: Assembled) -> None:
        self.charge -= len(message[1]) + _MESSAGE_COST
        self.deliver(stream_id, *message)


class _Deferral:
    """A stream reset that has to wait for DATA which is still on its way (RFC 6525 5.2.2)."""

    __slots__ = ("charge", "forwards", "held", "last_tsn", "stream_ids")

    def __init__(self, stream_ids: frozenset[int], last_tsn: int) -> None:
        self.stream_ids = stream_ids
        self.last_tsn = last_tsn
        self.held: list[_Held] = []
        self.forwards: list[ForwardTsn] = []
        self.charge = 0

    def concerns(self, stream_id: int, tsn: int) -> bool:
        return tsn > self.last_tsn and (not self.stream_ids or stream_id in self.stream_ids)


class Inbound:
    """The receiving half of an association."""

    __slots__ = (
        "_by_mid",
        "_by_tsn",
        "_deferral",
        "_discarded",
        "_full",
        "_limit",
        "_mtu",
        "_order",
        "_outbox",
        "_streams",
        "interleaving",
        "tracker",
    )

    def __init__(
        self, *, peer_tsn: int, streams: int, a_rwnd: int, interleaving: bool, outbox: Outbox
    ) -> None:
        self.tracker = ReceiveTracker(peer_tsn, a_rwnd)
        self.interleaving = interleaving
        self._by_tsn = TsnAssembler()
        self._by_mid = MidAssembler() if interleaving else None
        self._order = _Order(MASK32 if interleaving else 0xFFFF)
        self._deferral: _Deferral | None = None
        self._full = False
        self._limit = a_rwnd
        self._mtu = outbox.limit
        self._streams = streams
        self._outbox = outbox
        self._discarded: list[Discard] = []

    def receive_data(self, packet: bytes, position: int, end: int, flags: int) -> None:
        """Take in the DATA chunk at `position`. Raises Discard, PeerMisbehaved."""
        if self.interleaving:
            raise _wrong_family("DATA")
        if end - position <= DATA_HEADER:
            self._refuse_empty(packet, position, end)
        wire, stream_id, sequence, ppid = _DATA_FIELDS.unpack_from(packet, position + 4)
        tracker = self.tracker
        tsn = tracker.cumulative + 1
        if wire == tsn & MASK32 and not tracker.starts and not self._full:
            tracker.cumulative = tsn
        else:
            noted = self._admit(wire)
            if noted is None:
                return
            tsn = noted
        if flags & IMMEDIATE:
            tracker.immediate = True
        payload = packet[position + DATA_HEADER : end]
        if stream_id >= self._streams or self._deferral is not None:
            self._receive_odd(tsn, flags, stream_id, sequence, ppid, payload)
            return
        if flags & _WHOLE != _WHOLE:
            message = self._by_tsn.add(tsn, flags, stream_id, sequence, ppid, payload)
            if message is None:
                return
            ppid, payload = message
        if flags & UNORDERED:
            self._order.deliver(stream_id, ppid, payload)
        else:
            self._order.receive(stream_id, sequence, ppid, payload)

    def receive_i_data(self, packet: bytes, position: int, end: int, flags: int) -> None:
        """Take in the I-DATA chunk at `position`. Raises Discard, PeerMisbehaved."""
        if not self.interleaving:
            raise _wrong_family("I-DATA")
        if end - position <= I_DATA_HEADER:
            self._refuse_empty(packet, position, end)
        wire, stream_id, _, mid, word = _I_DATA_FIELDS.unpack_from(packet, position + 4)
        tsn = self._admit(wire)
        if tsn is None:
            return
        if flags & IMMEDIATE:
            self.tracker.immediate = True
        payload = packet[position + I_DATA_HEADER : end]
        if stream_id >= self._streams or self._deferral is not None:
            self._receive_odd(tsn, flags, stream_id, mid, word, payload)
            return
        self._store(tsn, flags, stream_id, mid, word, payload)

    def end_packet(self, now: float) -> None:
        """Account for one packet that carried DATA or FORWARD-TSN."""
        tracker = self.tracker
        if not tracker.end_packet(now):
            return
        window = self.window
        self._full = not window
        tracker.fix_sack(window)

    def receive_forward_tsn(self, chunk: ForwardTsn) -> None:
        """Give up on what the peer has abandoned (RFC 3758 section 3.6)."""
        tracker = self.tracker
        new = extend32(chunk.cumulative_tsn, tracker.cumulative)
        if new <= tracker.cumulative:
            tracker.immediate = True
            return
        deferral = self._deferral
        if deferral is not None and new > deferral.last_tsn:
            # skips beyond the reset are about the streams' next life: apply them after it
            if len(deferral.forwards) < 64:
                deferral.forwards.append(chunk)
            new = deferral.last_tsn
            if new <= tracker.cumulative:
                tracker.immediate = True
                return
            chunk = ForwardTsn(new & MASK32, ())
        self._forward(new, chunk)

    @property
    def has_messages(self) -> bool:
        """Whether there are complete messages to drain."""
        return bool(self._order.ready)

    def take_messages(self) -> list[ReceivedMessage]:
        """Drain the complete messages; reopen the window if it was nearly shut."""
        ready = self._order.take()
        if ready:
            self._full = False
            tracker = self.tracker
            limit = self._limit
            if tracker.advertised < limit >> 1 and self.window - tracker.advertised > limit >> 2:
                tracker.due = True
        return ready

    @property
    def window(self) -> int:
        """Bytes the peer may still send: what we announce as a_rwnd (section 6.2)."""
        free = self._limit - self.charge
        # a window below one packet is called shut, or the peer would send crumbs (RFC 1122 4.2.3.3)
        return free if free >= self._mtu else 0

    @property
    def charge(self) -> int:
        """Bytes held: unread and unfinished messages, with their bookkeeping."""
        held = self._deferral.charge if self._deferral is not None else 0
        if self._by_mid is not None:
            held += self._by_mid.charge
        return self._by_tsn.charge + self._order.charge + held

    def give_back(self, messages: list[ReceivedMessage]) -> None:
        """Hand over what an earlier life of the association had not delivered yet."""
        for message in messages:
            self._order.deliver(*message)

    def take_discarded(self) -> list[Discard]:
        """Drain what a deferred reset released but was of no use."""
        discarded = self._discarded
        if discarded:
            self._discarded = []
        return discarded

    def reset_streams(self, stream_ids: frozenset[int], last_tsn_wire: int) -> bool:
        """Reset the peer's outgoing streams; False while DATA up to its last TSN is missing."""
        last_tsn = extend32(last_tsn_wire, self.tracker.cumulative)
        if last_tsn > self.tracker.cumulative:
            if self._deferral is None:
                self._deferral = _Deferral(stream_ids, last_tsn)
            return False
        self._reset_now(stream_ids)
        return True

    def finish_deferred_reset(self) -> frozenset[int] | None:
        """Perform the deferred reset once its DATA is complete; return the streams if it was."""
        deferral = self._deferral
        if deferral is None or deferral.last_tsn > self.tracker.cumulative:
            return None
        self._deferral = None
        self._reset_now(deferral.stream_ids)
        for held in deferral.held:
            self._try_store(held)
        for forward in deferral.forwards:
            # its skips count even if the point has come so far by itself meanwhile
            point = self.tracker.cumulative
            self._forward(max(extend32(forward.cumulative_tsn, point), point), forward)
        return deferral.stream_ids

    @property
    def deferred_streams(self) -> frozenset[int] | None:
        """The streams whose reset is waiting for DATA, if one is."""
        return self._deferral.stream_ids if self._deferral is not None else None

    def _admit(self, wire: int) -> int | None:
        if self._full:
            self._check_room(wire)
        return self.tracker.note(wire)

    def _check_room(self, wire: int) -> None:
        """Turn new data down when full, but never what alone can free memory.

        While messages wait for their reader, reading frees it. Otherwise only what moves the
        cumulative point can complete something. The sender is told at once, taken or not: silence
        about the last chunk of a flight would wedge both ends.
        """
        charge = self.charge
        tracker = self.tracker
        if charge < self._limit:
            return
        tracker.immediate = True
        if self._order.ready:
            raise Discard(SctpDiscard.NO_ROOM)
        if charge >= 2 * self._limit:
            raise PeerMisbehaved(
                SctpRule.RECEIVE_WINDOW_IGNORED, "RFC 9260 section 6.1", f"{charge} bytes"
            )
        if wire != (tracker.cumulative + 1) & MASK32:
            raise Discard(SctpDiscard.NO_ROOM)

    def _receive_odd(
        self, tsn: int, flags: int, stream_id: int, sequence: int, word: int, payload: bytes
    ) -> None:
        if stream_id >= self._streams:
            cause = encode_causes([(Cause.INVALID_STREAM, struct.pack("!HH", stream_id, 0))])
            self._outbox.add_control(encode_chunk(ChunkType.ERROR, 0, cause))
            raise Discard(SctpDiscard.BAD_STREAM, f"stream {stream_id}")
        deferral = self._deferral
        if deferral is not None and deferral.concerns(stream_id, tsn):
            deferral.held.append((tsn, flags, stream_id, sequence, word, payload))
            deferral.charge += len(payload) + FRAGMENT_COST
        else:
            self._store(tsn, flags, stream_id, sequence, word, payload)

    def _try_store(self, held: _Held) -> None:
        try:
            self._store(*held)
        except Discard as discard:
            self._discarded.append(discard)

    def _store(
        self, tsn: int, flags: int, stream_id: int, sequence: int, word: int, payload: bytes
    ) -> None:
        message: Assembled | None
        if flags & _WHOLE == _WHOLE:
            message = (word, payload)
        elif self._by_mid is not None:
            if self._order.is_past(stream_id, bool(flags & UNORDERED), sequence):
                raise Discard(SctpDiscard.OLD_SEQUENCE, f"stream {stream_id} MID {sequence}")
            message = self._by_mid.add(flags, stream_id, sequence, word, payload)
        else:
            message = self._by_tsn.add(tsn, flags, stream_id, sequence, word, payload)
        if message is None:
            return
        if flags & UNORDERED:
            self._order.deliver(stream_id, *message)
        else:
            self._order.receive(stream_id, sequence, *message)

    def _forward(self, new: int, chunk: ForwardTsn) -> None:
        self.tracker.forward(new)
        self._by_tsn.purge(new)
        for stream_id, unordered, sequence in chunk.skips:
            if self._by_mid is not None:
                self._by_mid.purge(stream_id, unordered, sequence)
            if stream_id >= self._streams:
                continue
            if unordered:
                self._order.skip_unordered(stream_id, sequence)
            else:
                self._order.skip(stream_id, sequence)

    def _reset_now(self, stream_ids: frozenset[int]) -> None:
        self._order.reset(stream_ids)
        if self._by_mid is not None:
            self._by_mid.purge_streams(stream_ids)

    def _refuse_empty(self, packet: bytes, position: int, end: int) -> NoReturn:
        if end - position >= 8:
            cause = encode_causes([(Cause.NO_USER_DATA, packet[position + 4 : position + 8])])
            self._outbox.add_control(encode_chunk(ChunkType.ERROR, 0, cause))
        raise Discard(SctpDiscard.NO_USER_DATA)


def _wrong_family(name: str) -> PeerMisbehaved:
    return PeerMisbehaved(SctpRule.WRONG_CHUNK_FAMILY, "RFC 8260 section 2.2.1", name)
