"""From a capture to the datagrams in it: the one way in for every capture tool.

    with open_capture(path) as reader:            # path "-": standard input
        for datagram in reader:                   # streaming: one at a time, nothing is kept
            datagram.time_ns, datagram.source, datagram.destination, datagram.payload
    reader.notes()                                # what could not be read, in plain words

    Reader(stream: BinaryIO)          iterate once; yields `Datagram`
    Datagram(number, time_ns, source, destination, payload, length, transport, interface, hops)
        number       of the packet in the file, from 1, as Wireshark counts (a datagram that came
                     in fragments: of the last one)
        time_ns      nanoseconds since 1970, as captured: they may go backwards
        source, destination            (host, port)
        payload      what stands behind the UDP header, or inside an RFC 4571 frame
        length       its size on the wire; len(payload) is smaller when the capture cut it
        transport    "udp" or "tcp"
        hops         TTL or hop limit as captured
    reader.frames.secrets             TLS key log that a pcapng file carries (bytes, may be empty)
    reader.counts                     what was read and what was left out, by reason

Raises `CaptureError` (a `ToolFailure`) when the input is no capture; a file that ends too early or
is damaged in the middle gives what came before. A packet that one capture shows twice (leaving
and arriving on a loopback, or on two interfaces of one machine) is yielded once.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from warp_tools.capture import link
from warp_tools.capture.files import CaptureError, Frame, Frames, FrameSource
from warp_tools.capture.finding import several
from warp_tools.capture.ip import TCP, UDP, Address, Fragments, parse_ip, parse_tcp, parse_udp
from warp_tools.capture.streams import Streams

__all__ = ["Address", "CaptureError", "Datagram", "Reader", "open_capture"]

COPY_NS: Final = 10_000_000
MAX_REMEMBERED: Final = 1024
MAX_LINKS: Final = 16

Place = tuple[int, int, int]
"""Interface of the file, way, interface of the machine."""


class Datagram(NamedTuple):
    """One datagram between two sockets."""

    number: int
    time_ns: int
    source: Address
    destination: Address
    payload: bytes
    length: int
    transport: str
    interface: int
    hops: int

    @property
    def cut(self) -> bool:
        """Whether the capture kept only the beginning (a snap length)."""
        return len(self.payload) < self.length


class Copies:
    """Tells a packet that was captured a second time, on another interface or the other way."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[Address, Address, int, int], tuple[int, Place]] = (
            OrderedDict()
        )

    def is_copy(self, datagram: Datagram, place: Place) -> bool:
        """Tell whether this very packet was seen a moment ago at another place."""
        key = (
            datagram.source,
            datagram.destination,
            datagram.length,
            hash(datagram.payload),
        )
        known = self._seen.get(key)
        if known is not None and known[1] != place and abs(datagram.time_ns - known[0]) <= COPY_NS:
            return True
        self._seen[key] = (datagram.time_ns, place)
        self._seen.move_to_end(key)
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)
        return False


class Reader:
    """The datagrams of one capture, in the order of the file."""

    def __init__(self, source: BinaryIO | FrameSource) -> None:
        """Read the head of a file; a source of frames (a live interface) is taken as it is.

        Raises `CaptureError` when the file is no capture.
        """
        is_file = hasattr(source, "read")
        self.frames: Final[FrameSource] = (
            Frames(cast(BinaryIO, source)) if is_file else cast(FrameSource, source)
        )
        self.counts: Counter[str] = Counter()
        self.links: Counter[int] = Counter()
        """Frames by link type that is not known here."""
        self.backwards = 0
        """Packets whose time is before the packet in front of them."""
        self._fragments = Fragments()
        self._streams = Streams()
        self._copies = Copies()
        self._last_ns: int | None = None

    def __iter__(self) -> Iterator[Datagram]:
        """Yield every datagram once."""
        counts = self.counts
        for frame in self.frames:
            counts["packets"] += 1
            if self._last_ns is not None and frame.time_ns < self._last_ns:
                self.backwards += 1
            self._last_ns = frame.time_ns
            for datagram in self._datagrams(frame):
                if self._is_copy(datagram, frame):
                    counts["copies"] += 1
                    continue
                counts["datagrams"] += 1
                if datagram.cut:
                    counts["cut"] += 1
                yield datagram

    def _is_copy(self, datagram: Datagram, frame: Frame) -> bool:
        if frame.link not in link.COOKED and self.frames.interfaces < 2:
            return False  # one place sees a packet once
        place = (frame.interface, *link.place(frame.link, frame.data))
        return self._copies.is_copy(datagram, place)

    def _datagrams(self, frame: Frame) -> Iterator[Datagram]:
        start = link.ip_start(frame.link, frame.data)
        if start < 0:
            if frame.link not in link.LINKS and len(self.links) < MAX_LINKS:
                self.links[frame.link] += 1
            self.counts["other"] += 1
            return
        packet = parse_ip(frame.data[start:], self._fragments, frame.time_ns)
        if packet is None:
            return
        number, time_ns, interface = frame.number, frame.time_ns, frame.interface
        if packet.protocol == UDP:
            udp = parse_udp(packet)
            if udp is not None:
                yield Datagram(number, time_ns, *udp, "udp", interface, packet.hops)
        elif packet.protocol == TCP:
            segment = parse_tcp(packet)
            if segment is None:
                return
            ends = segment.source, segment.destination
            for payload in self._streams.receive(segment):
                yield Datagram(number, time_ns, *ends, *payload, "tcp", interface, packet.hops)
        else:
            self.counts["other"] += 1

    def notes(self) -> list[str]:
        """Return what could not be read, one sentence each; complete after the last datagram."""
        found = []
        if self.frames.damage:
            found.append(self.frames.damage)
        for what, count in self.frames.odd.most_common():
            found.append(f"{several(count, 'packet')} passed over: {what}")
        for kind, count in self.links.most_common():
            found.append(f"{count} packets of link type {kind}, which is not known here")
        if self.counts["cut"]:
            found.append(f"{self.counts['cut']} datagrams were cut by the capture's snap length")
        if self.backwards:
            found.append(f"{self.backwards} packets are older than the packet before them")
        if self._fragments.unfinished:
            found.append(f"{self._fragments.unfinished} packets lack some of their IP fragments")
        if self._streams.gaps:
            found.append(f"{self._streams.gaps} gaps in TCP streams")
        return found


@contextmanager
def open_capture(path: str | Path) -> Iterator[Reader]:
    """Open a pcap or pcapng file (also gzipped), or standard input for "-"."""
    if str(path) == "-":
        yield Reader(sys.stdin.buffer)
        return
    try:
        opened = Path(path).open("rb")  # noqa: SIM115 - closed below, whatever happens
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from error
    with opened as stream:
        try:
            reader = Reader(stream)
        except CaptureError as error:
            raise CaptureError(f"{path}: {error}") from error
        yield reader
