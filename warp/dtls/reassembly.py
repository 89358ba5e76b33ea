"""Puts handshake fragments together, in message_seq order (RFC 9147 section 5.5).

Called by the handshake desk with every fragment of every record. Fragments may overlap, come in
any order, change their boundaries between retransmissions and claim absurd lengths: nothing is
allocated before its bytes are there.

    record ─▶ take_whole() ─▶ the next message, as long as one fragment is all of it
       └▶ split_fragments() ─▶ receive() ─▶ buffered by message_seq, ranges merged
                                              └▶ pop() the next whole one
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from warp.dtls.faults import Alert, DtlsRule, misbehaved

WINDOW: Final = 8  # messages ahead that are kept; beyond they are dropped and not acknowledged
MAX_MESSAGE: Final = 32 * 1024  # a certificate chain of 16 KiB, and as much again
MAX_BUFFERED: Final = 64 * 1024  # for all messages together
MAX_CHUNKS: Final = 256  # separate pieces of one message: 2-byte fragments of a kilobyte, shuffled
_SECTION: Final = "RFC 9147 section 5.5"

FRAGMENT_HEADER_LENGTH: Final = 12
_FRAGMENT_HEADER: Final = struct.Struct("!IHHI")
"""Type and length, message_seq, offset and fragment length (8, 24, 16, 24 and 24 bits)."""


class HandshakeMessage(NamedTuple):
    """A whole handshake message as it came out of the reassembler."""

    message_type: int
    message_seq: int
    body: bytes
    epoch: int


class Fragment(NamedTuple):
    """One fragment with the fields of its 12-byte header, and the epoch of its record."""

    message_type: int
    length: int
    message_seq: int
    offset: int
    data: bytes
    epoch: int


class Verdict(enum.Enum):
    """What became of a fragment; only what was kept or was known may be acknowledged."""

    KEPT = "kept"
    KNOWN = "of a message that was handled before"
    REFUSED = "refused"


def split_fragments(
    content: bytes, epoch: int, limit: int, position: int = 0
) -> tuple[list[Fragment], bool]:
    """Return the fragments of a record from `position` on, `limit` at most, and whether nothing
    else follows.
    """
    fragments: list[Fragment] = []
    size = len(content)
    while position < size and len(fragments) < limit:
        start = position + FRAGMENT_HEADER_LENGTH
        if start > size:
            break
        head, message_seq, offset_high, tail = _FRAGMENT_HEADER.unpack_from(content, position)
        end = start + (tail & 0xFFFFFF)
        if end > size:
            break
        fragments.append(
            Fragment(
                head >> 24,
                head & 0xFFFFFF,
                message_seq,
                offset_high << 8 | tail >> 24,
                content[start:end],
                epoch,
            )
        )
        position = end
    return fragments, 0 < position == size


class _Partial:
    __slots__ = ("chunks", "epoch", "length", "message_type")

    def __init__(self, fragment: Fragment) -> None:
        self.message_type = fragment.message_type
        self.length = fragment.length
        self.epoch = fragment.epoch
        self.chunks: list[tuple[int, bytes]] = []  # disjoint, sorted by their start

    def store(self, offset: int, data: bytes) -> None:
        """Merge one range; where bytes overlap, the latest count."""
        start, merged = offset, data
        apart: list[tuple[int, bytes]] = []
        for chunk_start, chunk in self.chunks:
            chunk_end, end = chunk_start + len(chunk), start + len(merged)
            if chunk_end < start or chunk_start > end:
                apart.append((chunk_start, chunk))
                continue
            if chunk_end > end:
                merged += chunk[end - chunk_start :]
            if chunk_start < start:
                merged = chunk[: start - chunk_start] + merged
                start = chunk_start
        apart.append((start, merged))
        apart.sort()
        self.chunks = apart

    def touches(self, fragment: Fragment) -> bool:
        """Tell whether the fragment would grow a chunk that is there, or join some."""
        start, end = fragment.offset, fragment.offset + len(fragment.data)
        return any(at <= end and start <= at + len(chunk) for at, chunk in self.chunks)

    def buffered(self) -> int:
        return sum(len(chunk) for _, chunk in self.chunks)

    def is_whole(self) -> bool:
        return not self.length or (len(self.chunks) == 1 and len(self.chunks[0][1]) == self.length)


class Reassembler:
    """Buffers fragments until the next message is whole.

    The number of the next message never wraps (RFC 9147 section 5.2): beyond 2^16 - 1 no fragment
    can have it, and all are of messages that were handled before.
    """

    __slots__ = ("_partials", "_strict", "next_seq")

    def __init__(self, *, strict: bool = False) -> None:
        self._partials: dict[int, _Partial] = {}
        self._strict = strict
        self.next_seq = 0

    def take_whole(self, content: bytes, start: int, epoch: int) -> HandshakeMessage | None:
        """Return the awaited message if the fragment at `start` of a record is all of it.

        None, also while something is buffered, leaves everything to `receive`. Almost every
        message comes so.
        """
        body = start + FRAGMENT_HEADER_LENGTH
        if body > len(content):
            return None
        head, message_seq, offset_high, tail = _FRAGMENT_HEADER.unpack_from(content, start)
        length = head & 0xFFFFFF
        end = body + length
        if (
            message_seq != self.next_seq
            or offset_high
            or tail != length  # nor is there a low byte of the offset
            or length > MAX_MESSAGE
            or end > len(content)
            or self._partials
        ):
            return None
        self.next_seq = message_seq + 1
        return HandshakeMessage(head >> 24, message_seq, content[body:end], epoch)

    def receive(self, fragment: Fragment) -> Verdict:
        """Take one fragment in. Raises HandshakeFault for absurdities under protection.

        In epoch 0 anyone can send absurdities: there they are refused, and the newest claim about
        a message replaces the older one.
        """
        ahead = fragment.message_seq - self.next_seq
        if ahead < 0:
            return Verdict.KNOWN
        if ahead > WINDOW:
            return Verdict.REFUSED
        if fragment.length > MAX_MESSAGE:
            return self._refuse(fragment, DtlsRule.MESSAGE_TOO_LARGE)
        if fragment.offset + len(fragment.data) > fragment.length:
            return self._refuse(fragment, DtlsRule.FRAGMENT_MISMATCH)
        partial = self._partials.get(fragment.message_seq)
        if partial is not None and fragment.epoch < partial.epoch:
            return Verdict.REFUSED
        if partial is None or fragment.epoch > partial.epoch:
            partial = _Partial(fragment)
        elif (partial.message_type, partial.length) != (fragment.message_type, fragment.length):
            self._refuse(fragment, DtlsRule.FRAGMENT_MISMATCH)
            partial = _Partial(fragment)
        return self._store(partial, fragment)

    def _store(self, partial: _Partial, fragment: Fragment) -> Verdict:
        if not partial.is_whole() and fragment.data:
            # what is waited for now may always grow to its full size
            ahead = fragment.message_seq != self.next_seq
            if ahead and self._buffered() + len(fragment.data) > MAX_BUFFERED - MAX_MESSAGE:
                return Verdict.REFUSED
            if len(partial.chunks) >= MAX_CHUNKS and not partial.touches(fragment):
                return Verdict.REFUSED
            partial.store(fragment.offset, fragment.data)
        self._partials[fragment.message_seq] = partial
        return Verdict.KEPT

    def _buffered(self) -> int:
        return sum(partial.buffered() for partial in self._partials.values())

    def _refuse(self, fragment: Fragment, rule: DtlsRule) -> Verdict:
        if fragment.epoch or self._strict:
            raise misbehaved(Alert.ILLEGAL_PARAMETER, rule, _SECTION)
        return Verdict.REFUSED

    def pop(self) -> HandshakeMessage | None:
        """Return the next message if it is whole, and wait for the one after it."""
        partial = self._partials.get(self.next_seq)
        if partial is None or not partial.is_whole():
            return None
        del self._partials[self.next_seq]
        body = partial.chunks[0][1] if partial.length else b""
        message = HandshakeMessage(partial.message_type, self.next_seq, body, partial.epoch)
        self.next_seq += 1
        return message

    def wait_again(self) -> None:
        """Expect the last popped message once more: what came in its place was worthless."""
        self.next_seq -= 1

    def enter_epoch(self, epoch: int) -> None:
        """Forget what is left of earlier epochs: no message straddles a change of keys.

        Raises HandshakeFault when the leftovers were protected (RFC 8446 section 5.1).
        """
        for message_seq, partial in list(self._partials.items()):
            if partial.epoch < epoch:
                if partial.epoch or self._strict:
                    raise misbehaved(
                        Alert.UNEXPECTED_MESSAGE,
                        DtlsRule.LEFTOVER_FRAGMENTS,
                        "RFC 8446 section 5.1",
                    )
                del self._partials[message_seq]

    @property
    def has_gap(self) -> bool:
        """Tell whether something is buffered that cannot be handed out yet."""
        return bool(self._partials)
