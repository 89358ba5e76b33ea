"""The messages of one connection's data channels, out of the packets of both ends (RFC 9260, 8831).

    SCTP packet ─▶ chunks ─▶ INIT: where TSNs begin · DATA, I-DATA: each TSN once ─▶ fragments
                                                                                       │
    DCEP OPEN names a stream ◀── PPID 50 ◀── a message is whole ◀──────────────────────┘

Chunks, reassembly, PPIDs and DCEP are those of `warp.sctp` and `warp.datachannel`. A message counts
when its last fragment is seen: an onlooker does not hold it back for an earlier one of its stream.
Called by `connection`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp.datachannel import DcepOpen, Ppid, parse_dcep
from warp.datachannel.payloads import decode_payload
from warp.dtls import DtlsRole
from warp.errors import Discard, PeerMisbehaved
from warp.sctp.chunks import (
    BEGIN,
    END,
    UNORDERED,
    ChunkType,
    ForwardTsn,
    parse_data,
    parse_forward_tsn,
    parse_i_data,
    parse_i_forward_tsn,
    split_chunks,
)
from warp.sctp.init_chunk import parse_init_body
from warp.sctp.packet import parse_header
from warp.sctp.reassembly import Assembled, MidAssembler, TsnAssembler
from warp.sctp.sack import ReceiveTracker

MAX_HELD: Final = 8 << 20
"""Bytes of unfinished messages of one side; beyond they are given up."""
MAX_LABELS: Final = 1024
_MAX_LABEL: Final = 256
_BEHIND: Final = 4096
_AHEAD: Final = 32_768
_WHOLE: Final = BEGIN | END


class Message(NamedTuple):
    """A message of a data channel, or one of the protocol that opens them."""

    role: DtlsRole
    stream_id: int
    ppid: int
    ordered: bool
    label: str | None
    """The channel's, where a DCEP OPEN was seen for its stream."""
    content: str | bytes | DcepOpen | None
    """Text, bytes, an OPEN; None for an ACK of DCEP."""


class _Direction:
    """What one end sends."""

    def __init__(self) -> None:
        self.tracker: ReceiveTracker | None = None
        self.by_tsn = TsnAssembler()
        self.by_mid = MidAssembler()

    def begin(self, tsn: int) -> None:
        """Start at a TSN that an INIT has named."""
        self.tracker = ReceiveTracker(tsn, 0)
        self.by_tsn, self.by_mid = TsnAssembler(), MidAssembler()

    def admit(self, wire: int) -> int | None:
        """Return the TSN, or None when it was seen before."""
        tracker = self.tracker
        if tracker is None:
            # with SNAP no INIT is on the wire, and what comes first may have been overtaken
            tracker = self.tracker = ReceiveTracker(wire - _BEHIND, 0)
        tsn = tracker.note(wire)
        if tsn is not None and tsn - tracker.cumulative > _AHEAD:
            # something is missing for good: captures lose packets, and nobody resends to us
            tracker.forward(tsn - _BEHIND)
        return tsn

    def forward(self, wire: int) -> None:
        """Give up what the sender has given up."""
        tracker = self.tracker
        if tracker is not None:
            ahead = (wire - tracker.cumulative + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000
            if ahead > 0:
                tracker.forward(tracker.cumulative + ahead)
                self.by_tsn.purge(tracker.cumulative)

    def limit(self) -> bool:
        """Drop what is unfinished once it is too much; tell whether that was so."""
        if self.by_tsn.charge + self.by_mid.charge <= MAX_HELD:
            return False
        self.by_tsn, self.by_mid = TsnAssembler(), MidAssembler()
        return True


class DataReader:
    """Both ends of one association. `packets` were SCTP, `broken` ones made no sense."""

    __slots__ = ("_directions", "_labels", "broken", "given_up", "packets")

    def __init__(self) -> None:
        self._directions = {role: _Direction() for role in DtlsRole}
        self._labels: dict[int, str] = {}
        self.packets = 0
        self.broken = 0
        self.given_up = 0

    def receive(self, packet: bytes, role: DtlsRole) -> list[Message]:
        """Take in one packet; return the messages that it completes. Never raises."""
        messages: list[Message] = []
        direction = self._directions[role]
        try:
            parse_header(packet)
            self.packets += 1
            for kind, flags, body in split_chunks(packet):
                whole = self._receive_chunk(direction, kind, flags, body)
                if whole is not None:
                    messages += self._name(role, not flags & UNORDERED, *whole)
        except Discard:
            self.broken += 1
        except PeerMisbehaved:
            self.broken += 1
            direction.by_tsn, direction.by_mid = TsnAssembler(), MidAssembler()
        if direction.limit():
            self.given_up += 1
        return messages

    @staticmethod
    def _receive_chunk(
        direction: _Direction, kind: int, flags: int, body: bytes
    ) -> tuple[int, int, bytes] | None:
        """Return (stream id, PPID, payload) of a message that the chunk completes."""
        message: Assembled | None = None
        if kind == ChunkType.DATA:
            data = parse_data(flags, body)
            tsn = direction.admit(data.tsn)
            if tsn is None:
                return None
            message = (
                (data.ppid, data.payload)
                if flags & _WHOLE == _WHOLE
                else direction.by_tsn.add(tsn, flags, *data[2:])
            )
            return (data.stream_id, *message) if message is not None else None
        if kind == ChunkType.I_DATA:
            part = parse_i_data(flags, body)
            if direction.admit(part.tsn) is None:
                return None
            message = (
                (part.word, part.payload)
                if flags & _WHOLE == _WHOLE
                else direction.by_mid.add(flags, *part[2:])
            )
            return (part.stream_id, *message) if message is not None else None
        if kind in (ChunkType.INIT, ChunkType.INIT_ACK):
            direction.begin(parse_init_body(body).initial_tsn)
        elif kind in (ChunkType.FORWARD_TSN, ChunkType.I_FORWARD_TSN):
            interleaved = kind == ChunkType.I_FORWARD_TSN
            chunk: ForwardTsn = (parse_i_forward_tsn if interleaved else parse_forward_tsn)(body)
            direction.forward(chunk.cumulative_tsn)
            for skip in chunk.skips if interleaved else ():
                direction.by_mid.purge(*skip)
        return None

    def _name(
        self, role: DtlsRole, ordered: bool, stream_id: int, ppid: int, payload: bytes
    ) -> list[Message]:
        """Return the message under its channel's label; nothing for a PPID without a meaning."""
        content: str | bytes | DcepOpen | None
        try:
            if ppid == Ppid.DCEP:
                content = parse_dcep(payload)
                if content is not None and len(self._labels) < MAX_LABELS:
                    self._labels[stream_id] = content.label[:_MAX_LABEL]
            else:
                content = decode_payload(ppid, payload)
                if content is None:
                    self.broken += 1
                    return []
        except UnicodeDecodeError:
            content = payload
        label = self._labels.get(stream_id)
        return [Message(role, stream_id, ppid, ordered, label, content)]
