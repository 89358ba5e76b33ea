"""STUN, DTLS and media over TCP: frames of RFC 4571, and STUN that frames itself.

Called by `reader` with the segments of TCP connections. ICE-TCP (RFC 6544) puts each datagram
behind a 16-bit length; STUN and TURN servers over TCP send messages back to back (RFC 8489
section 6.2.2, RFC 8656 section 12.5). What is neither is another protocol and is left alone.

    segment ─▶ in order? ─▶ buffer ─▶ framing known? ─▶ datagrams
                └ a gap: what is missing is given up when it does not come soon
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from warp.stun import MAGIC_COOKIE
from warp_tools.capture.ip import Address, Segment

MAX_STREAMS: Final = 4096
MAX_BUFFER: Final = 1 << 17
MAX_AHEAD: Final = 32
MAX_CHANCES: Final = 64
_COOKIE: Final = MAGIC_COOKIE.to_bytes(4, "big")
_FIN, _SYN, _RST = 1, 2, 4
_HALF: Final = 1 << 31
_FRAMED, _BARE, _FOREIGN = 1, 2, 3


class Payload(NamedTuple):
    """One datagram that came over TCP."""

    data: bytes
    length: int


class _Stream:
    __slots__ = ("ahead", "buffer", "chances", "framing", "next")

    def __init__(self) -> None:
        self.next: int | None = None
        self.buffer = b""
        self.ahead: dict[int, Segment] = {}
        self.framing = 0
        self.chances = MAX_CHANCES
        """Segments that may yet be found to begin with a datagram: its beginning was missed."""


class Streams:
    """Every direction of every TCP connection, as far as it may be WebRTC."""

    def __init__(self) -> None:
        self._streams: OrderedDict[tuple[Address, Address], _Stream] = OrderedDict()
        self.gaps = 0
        """Places where segments are missing and their bytes were given up."""
        self.foreign = 0
        """Directions that speak something else."""

    def receive(self, segment: Segment) -> list[Payload]:
        """Take a segment in; return the datagrams that are whole now."""
        key = (segment.source, segment.destination)
        if segment.flags & (_SYN | _RST):
            self._streams.pop(key, None)
        stream = self._streams.get(key)
        if stream is None:
            if segment.flags & _RST or (not segment.length and not segment.flags & _SYN):
                return []
            stream = self._streams[key] = _Stream()
            if len(self._streams) > MAX_STREAMS:
                self._streams.popitem(last=False)
            if segment.flags & _SYN:
                stream.next = segment.sequence + 1 & 0xFFFFFFFF
                stream.chances = 0
        if stream.framing == _FOREIGN or not segment.length:
            return []
        self._take(stream, segment)
        return self._datagrams(stream)

    def _take(self, stream: _Stream, segment: Segment) -> None:
        if stream.next is None:
            stream.next = segment.sequence
        new = _from(segment, stream.next)
        if new is None:
            return  # a retransmission
        segment = new
        if segment.sequence != stream.next:
            stream.ahead[segment.sequence] = segment
            if len(stream.ahead) <= MAX_AHEAD:
                return
            self._give_up(stream)
        else:
            self._append(stream, segment)
        while (found := _next_of(stream)) is not None:
            self._append(stream, found)

    def _append(self, stream: _Stream, segment: Segment) -> None:
        if stream.next is None:
            return
        stream.next = stream.next + segment.length & 0xFFFFFFFF
        data = segment.payload[: segment.length]
        if len(data) < segment.length:  # cut by the snap length: zeros keep what follows in place
            data += bytes(min(segment.length, MAX_BUFFER) - len(data))
        stream.buffer += data
        if len(stream.buffer) > MAX_BUFFER:
            stream.buffer, stream.framing = b"", 0

    def _give_up(self, stream: _Stream) -> None:
        """Go on behind the gap, at the earliest segment that is there."""
        self.gaps += 1
        here = stream.next or 0
        stream.next = min(stream.ahead, key=lambda sequence: sequence - here & 0xFFFFFFFF)
        stream.buffer, stream.framing = b"", 0
        stream.chances = MAX_CHANCES

    def _datagrams(self, stream: _Stream) -> list[Payload]:
        if not stream.framing:
            stream.framing = _guess(stream.buffer)
        if stream.framing == _FOREIGN and stream.chances:
            # a segment that begins inside a datagram, perhaps: the next one may not
            stream.chances -= 1
            stream.buffer, stream.framing = b"", 0
        elif stream.framing == _FOREIGN:
            self.foreign += 1
            stream.buffer = b""
            stream.ahead.clear()
        out: list[Payload] = []
        at, data = 0, stream.buffer
        while stream.framing in (_FRAMED, _BARE) and at + 4 <= len(data):
            start, end = _bounds(data, at, stream.framing)
            if end > len(data):
                break
            if end > start:
                out.append(Payload(data[start:end], end - start))
            at = end if stream.framing == _FRAMED else end + 3 & ~3
        stream.buffer = data[at:]
        return out


def _from(segment: Segment, sequence: int) -> Segment | None:
    """Return what a segment has from a sequence number on, None when it has nothing there."""
    behind = sequence - segment.sequence & 0xFFFFFFFF
    if not 0 < behind < _HALF:
        return segment
    if behind >= segment.length:
        return None
    rest, length = segment.payload[behind:], segment.length - behind
    return segment._replace(sequence=sequence, payload=rest, length=length)


def _next_of(stream: _Stream) -> Segment | None:
    """Take out what goes on where the stream is; forget what lies behind that."""
    here = stream.next or 0
    for sequence in list(stream.ahead):
        if (sequence - here & 0xFFFFFFFF) and (sequence - here & 0xFFFFFFFF) < _HALF:
            continue
        found = _from(stream.ahead.pop(sequence), here)
        if found is not None:
            return found
    return None


def _bounds(data: bytes, at: int, framing: int) -> tuple[int, int]:
    """Return where the datagram at `at` starts and ends."""
    if framing == _FRAMED:
        return at + 2, at + 2 + (data[at] << 8 | data[at + 1])
    header = 4 if data[at] >= 0x40 else 20  # ChannelData, or a STUN message
    return at, at + header + (data[at + 2] << 8 | data[at + 3])


def _guess(data: bytes) -> int:
    """Tell how a stream is framed by its first bytes; 0 when they do not suffice."""
    if len(data) < 15:
        return 0
    if data[0] < 4 and data[4:8] == _COOKIE:
        return _BARE
    if data[2] < 4 and data[6:10] == _COOKIE:
        return _FRAMED
    first, length = data[2], data[0] << 8 | data[1]
    plain = 20 <= first <= 26 and data[3] == 0xFE and data[4] in (0xFD, 0xFF)
    if plain and 13 + (data[13] << 8 | data[14]) <= length:
        return _FRAMED
    return _FOREIGN
