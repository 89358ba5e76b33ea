"""`warp pcap redact`: a capture that may be shared, with the same ladder and the same explanation.

    pass 1   finder ─▶ which flows are WebRTC; ClientHellos, whole
    pass 2   kept datagram ─▶ rewrite ─▶ raw IP with right checksums
             everything else ─▶ an empty packet, so that numbers stay

The output is pcapng; names of machines, comments and key logs of the input are not carried over.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from warp.dtls.messages import HandshakeType
from warp.stun import is_stun
from warp_tools.capture.encode import framed, nothing, tcp_packet, udp_packet
from warp_tools.capture.finder import Finder, Found
from warp_tools.capture.ip import Address
from warp_tools.capture.pseudonyms import Pseudonyms
from warp_tools.capture.reader import CaptureError, Datagram, open_capture
from warp_tools.capture.rewrite import rewrite
from warp_tools.capture.writer import PacketWriter, writing
from warp_tools.failure import CommandRefused

MAX_STREAMS: Final = 10_000
_CLIENT_HELLO: Final = HandshakeType.CLIENT_HELLO


class Outcome(NamedTuple):
    """What was done."""

    packets: int
    kept: int
    """Datagrams that are in the output."""
    sessions: int
    notes: list[str]
    """What could not be read."""


def redact(source: Path, target: Path, key: bytes | None = None) -> Outcome:
    """Write a capture without payloads, addresses and credentials.

    `key` makes two runs agree; without it a new one is drawn. Raises `CaptureError` or
    `ToolFailure`.
    """
    if str(source) == "-" or (source.exists() and not (source.is_file() or source.is_dir())):
        raise CaptureError("redact reads its input twice: give it a file, not standard input")
    if target.exists() and source.exists() and target.samefile(source):
        raise CommandRefused(f"{target} is the input: name another file")
    finder, names = Finder(limit=0), Pseudonyms(key)
    with open_capture(source) as reader:
        for datagram in reader:
            _look(finder.receive(datagram), datagram, names)
    if not finder.sessions:
        return Outcome(reader.counts["packets"], 0, 0, reader.notes())
    flows = finder.flows()
    with open_capture(source) as reader, writing(target) as writer:
        names.hellos.session = None
        output = _Output(writer, names)
        for number, group in groupby(reader, key=lambda datagram: datagram.number):
            datagrams = list(group)
            output.fill(number, datagrams[0].time_ns)
            kept = [d for d in datagrams if _is_kept(d, flows)]
            output.write(kept, datagrams[0].time_ns)
    return Outcome(reader.counts["packets"], output.kept, len(finder.sessions), reader.notes())


def _look(found: Found | None, datagram: Datagram, names: Pseudonyms) -> None:
    """Learn what the ClientHello holds of which a piece is in here."""
    dtls = None if found is None or found.event is None else found.event.dtls
    if found is None or dtls is None:
        return
    if any(piece.kind == _CLIENT_HELLO for record in dtls.records for piece in record.pieces):
        names.hellos.session = found.session.number
        rewrite(datagram.payload, datagram.length, names)


def _is_kept(datagram: Datagram, flows: set[tuple[Address, Address]]) -> bool:
    if is_stun(datagram.payload):
        return True
    ends = datagram.source, datagram.destination
    return ends in flows or ends[::-1] in flows


class _Output:
    """The file that is written, one packet for each of the input."""

    def __init__(self, writer: PacketWriter, names: Pseudonyms) -> None:
        self._writer = writer
        self._names = names
        self._written = 0
        self._sequences: dict[tuple[Address, Address], int] = {}
        self.kept = 0

    def fill(self, number: int, time_ns: int) -> None:
        """Keep the places of packets that held nothing."""
        while self._written < number - 1:
            self._writer.write(time_ns, nothing())
            self._written += 1

    def write(self, datagrams: list[Datagram], time_ns: int) -> None:
        """Write what came in one packet, rewritten."""
        self._written += 1
        if not datagrams:
            self._writer.write(time_ns, nothing())
            return
        self.kept += len(datagrams)
        first = datagrams[0]
        source, destination = (
            self._names.address(end) for end in (first.source, first.destination)
        )
        payloads = [rewrite(d.payload, d.length, self._names) for d in datagrams]
        if first.transport == "tcp":
            data, length = self._segment(source, destination, payloads, first.hops)
        else:
            data, length = udp_packet(source, destination, payloads[0], first.length, first.hops)
        self._writer.write(time_ns, data, length, first.interface)

    def _segment(
        self, source: Address, destination: Address, payloads: list[bytes], hops: int
    ) -> tuple[bytes, int]:
        body = b"".join(map(framed, payloads))
        sequence = self._sequences.get((source, destination), 1)
        if len(self._sequences) < MAX_STREAMS or (source, destination) in self._sequences:
            self._sequences[source, destination] = sequence + len(body)
        return tcp_packet(source, destination, sequence, body, hops)
