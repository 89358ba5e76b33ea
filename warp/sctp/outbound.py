"""Messages become chunks: queues per stream, turns, fragments (RFC 9260 section 6.9, RFC 8831 6.6).

`retransmission` asks whose turn it is and takes one fragment at a time, so that a TSN is given out
only when its chunk leaves; until then a message can still be dropped without a trace.

    send ──▶ stream queue ──turn──▶ fragment (TSN, SSN or MID) ──▶ retransmission

Streams take turns message by message; with interleaving, fragment by fragment.
"""

from __future__ import annotations

from typing import Final

from warp.sctp.chunks import (
    BEGIN,
    CHUNK_DATA,
    CHUNK_I_DATA,
    DATA_HEADER,
    DATA_LAYOUT,
    END,
    I_DATA_HEADER,
    I_DATA_LAYOUT,
    IMMEDIATE,
    UNORDERED,
)
from warp.sctp.parameters import PADS
from warp.sctp.sack import MASK32


class Message:
    """One message on its way out. `offset` is the first byte that has not become a fragment."""

    __slots__ = (
        "abandoned",
        "data",
        "expires_at",
        "first_tsn",
        "following",
        "fragments",
        "last_tsn",
        "offset",
        "ordered",
        "ppid",
        "sequence",
        "stream",
        "transmissions",
    )

    def __init__(
        self,
        stream: OutStream,
        ppid: int,
        data: bytes,
        *,
        ordered: bool,
        transmissions: int | None,
        expires_at: float | None,
    ) -> None:
        self.stream = stream
        self.ppid = ppid
        self.data = data
        self.ordered = ordered
        self.transmissions = transmissions
        """How often a fragment may leave in all; None for as often as it takes."""
        self.expires_at = expires_at
        self.offset = 0
        self.sequence = 0
        self.first_tsn = 0
        self.last_tsn = 0
        self.fragments = 0
        """Fragments so far: the next FSN (counted with interleaving only)."""
        self.abandoned = False
        self.following: Message | None = None


class OutStream:
    """The outgoing half of a stream: a linked queue of messages, and its counters."""

    __slots__ = (
        "buffered",
        "head",
        "held",
        "last_tsn",
        "next_mid",
        "next_ssn",
        "next_unordered_mid",
        "paused",
        "stream_id",
        "tail",
    )

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self.head: Message | None = None
        self.tail: Message | None = None
        self.next_ssn = 0
        self.next_mid = 0
        self.next_unordered_mid = 0
        self.buffered = 0
        self.last_tsn: int | None = None
        self.paused = False
        self.held: list[Message] = []
        """Messages of the stream's next life, queued while a reset is under way."""

    def append(self, message: Message) -> None:
        """Put a message at the end."""
        if self.tail is None:
            self.head = message
        else:
            self.tail.following = message
        self.tail = message

    def prepend(self, message: Message) -> None:
        """Put a message in front."""
        message.following = self.head
        self.head = message
        if self.tail is None:
            self.tail = message

    def pop(self) -> None:
        """Remove the message in front."""
        head = self.head
        if head is not None:
            self.head = head.following
            head.following = None
            if self.head is None:
                self.tail = None


IN_FLIGHT: Final = 0
LOST: Final = 1
ACKED: Final = 2
ABANDONED: Final = 3


class Fragment:
    """A chunk that has a TSN: kept, ready to be sent again, until it is acknowledged."""

    __slots__ = ("chunk", "message", "state", "transmissions", "tsn")

    def __init__(self, tsn: int, chunk: bytes, message: Message) -> None:
        self.tsn = tsn
        self.chunk = chunk
        self.message = message
        self.state = IN_FLIGHT
        self.transmissions = 1


class SendQueue:
    """Everything that has been accepted for sending and has no TSN yet."""

    __slots__ = ("_drained", "_ready", "_streams", "header_size", "interleaving", "messages")

    def __init__(self) -> None:
        self._streams: dict[int, OutStream] = {}
        self._ready: list[OutStream] = []
        self._drained: dict[int, None] = {}
        self.interleaving = False
        self.header_size = DATA_HEADER
        self.messages = 0
        """Messages with something left to send, held ones not counted."""

    def set_interleaving(self, interleaving: bool) -> None:
        """Choose the chunk family; called before anything is taken."""
        self.interleaving = interleaving
        self.header_size = I_DATA_HEADER if interleaving else DATA_HEADER

    def put(
        self,
        stream_id: int,
        ppid: int,
        data: bytes,
        *,
        ordered: bool,
        transmissions: int | None,
        expires_at: float | None,
    ) -> None:
        """Accept a message (at least one byte)."""
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = OutStream(stream_id)
        message = Message(
            stream,
            ppid,
            data,
            ordered=ordered,
            transmissions=transmissions,
            expires_at=expires_at,
        )
        stream.buffered += len(data)
        if stream.paused:
            stream.held.append(message)
        else:
            self._enqueue(stream, message)

    def peek(self) -> Message | None:
        """Return the message whose turn it is."""
        return self._ready[0].head if self._ready else None

    def take(self, tsn: int, length: int, *, immediate: bool) -> Fragment:
        """Cut `length` bytes off the message whose turn it is, as the chunk with this TSN."""
        stream = self._ready[0]
        message = stream.head
        if message is None:
            raise IndexError("nothing to take")
        offset, data = message.offset, message.data
        end = offset + length
        flags = 0 if message.ordered else UNORDERED
        if immediate:
            flags |= IMMEDIATE
        if not offset:
            flags |= BEGIN
            message.first_tsn = tsn
            self._number(stream, message)
        if end == len(data):
            flags |= END
        payload = data[offset:end]
        wire = tsn & MASK32
        if self.interleaving:
            word = message.fragments if offset else message.ppid
            message.fragments += 1
            head = I_DATA_LAYOUT.pack(
                CHUNK_I_DATA, flags, I_DATA_HEADER + length, wire,
                stream.stream_id, 0, message.sequence, word,
            )  # fmt: skip
        else:
            head = DATA_LAYOUT.pack(
                CHUNK_DATA, flags, DATA_HEADER + length, wire,
                stream.stream_id, message.sequence, message.ppid,
            )  # fmt: skip
        message.offset = end
        message.last_tsn = stream.last_tsn = tsn
        stream.buffered -= length
        self._drained[stream.stream_id] = None
        if flags & END:
            self._finish(stream)
        elif self.interleaving:
            self._ready.append(self._ready.pop(0))
        pad = length & 3
        return Fragment(tsn, head + payload + PADS[pad] if pad else head + payload, message)

    def drop(self, message: Message) -> bool:
        """Forget the unsent rest of a message; tell whether it was still queued.

        Works for the message of any stream's front, which is where an unfinished one stands.
        """
        stream = message.stream
        if stream.head is not message:
            return False
        stream.buffered -= len(message.data) - message.offset
        self._drained[stream.stream_id] = None
        if self._ready[0] is not stream:
            self._ready.remove(stream)
            self._ready.insert(0, stream)
        self._finish(stream)
        return True

    def buffered_amount(self, stream_id: int) -> int:
        """Return the bytes of a stream that have not yet left for the first time."""
        stream = self._streams.get(stream_id)
        return stream.buffered if stream is not None else 0

    def drained_streams(self) -> set[int]:
        """Drain the ids of streams whose buffered amount fell since the last call."""
        drained, self._drained = set(self._drained), {}
        return drained

    def pause(self, stream_id: int) -> None:
        """Hold what is sent from now on: the stream is to be reset."""
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = OutStream(stream_id)
        stream.paused = True

    def is_settled(self, stream_id: int, cumulative_acked: int) -> bool:
        """Tell whether all that was queued before the pause has left and was acknowledged."""
        stream = self._streams[stream_id]
        if stream.head is not None:
            return False
        return stream.last_tsn is None or stream.last_tsn <= cumulative_acked

    def resume(self, stream_id: int, *, restart: bool) -> None:
        """Let the held messages go; with `restart`, numbered from 0 again."""
        stream = self._streams[stream_id]
        stream.paused = False
        if restart:
            stream.next_ssn = stream.next_mid = stream.next_unordered_mid = 0
            stream.last_tsn = None
        held, stream.held = stream.held, []
        for message in held:
            self._enqueue(stream, message)
        if restart and not held:
            del self._streams[stream_id]

    def unfinished_fronts(self) -> list[Message]:
        """Return the messages of which a part has left."""
        heads = [stream.head for stream in self._streams.values()]
        return [head for head in heads if head is not None and head.offset]

    def restart(self, unfinished: list[Message]) -> None:
        """Number all from 0 and send again what had left but not arrived (RFC 9260 5.2.4.1).

        `unfinished` in the order of leaving. A message may reach the peer's application twice when
        it was its acknowledgement that got lost; but without this it may not reach it at all.
        """
        for message in reversed(unfinished):
            stream = message.stream
            stream.buffered += message.offset
            message.offset = message.fragments = 0
            if stream.head is not message:
                if stream.head is None:
                    self._ready.append(stream)
                stream.prepend(message)
                self.messages += 1
        for stream in self._streams.values():
            stream.next_ssn = stream.next_mid = stream.next_unordered_mid = 0
            stream.last_tsn = None

    def _enqueue(self, stream: OutStream, message: Message) -> None:
        if stream.head is None:
            self._ready.append(stream)
        stream.append(message)
        self.messages += 1

    def _finish(self, stream: OutStream) -> None:
        """Remove the front message; the stream goes to the end of the line."""
        stream.pop()
        self.messages -= 1
        ready = self._ready
        if stream.head is None:
            del ready[0]
        elif len(ready) > 1:
            ready.append(ready.pop(0))

    def _number(self, stream: OutStream, message: Message) -> None:
        if self.interleaving:
            if message.ordered:
                message.sequence = stream.next_mid
                stream.next_mid = (stream.next_mid + 1) & MASK32
            else:
                message.sequence = stream.next_unordered_mid
                stream.next_unordered_mid = (stream.next_unordered_mid + 1) & MASK32
        elif message.ordered:
            message.sequence = stream.next_ssn
            stream.next_ssn = (stream.next_ssn + 1) & 0xFFFF
