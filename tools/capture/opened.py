"""What stands inside protected records, for captures whose keys are known.

Fed with every datagram beside the finder (`read(also=...)`); the decrypter does the opening, here
is only remembered what the ladder and the explanation ask for, by the number of the datagram.

    datagram ─▶ decrypt.Sessions ─▶ SCTP packets ─▶ names of chunks
                                 └▶ messages     ─▶ OPEN, or data on a channel nobody announced
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from warp.datachannel.dcep import DcepOpen
from warp.errors import Discard
from warp.sctp.chunks import ChunkType, split_chunks
from warp_tools.capture.ladder import record_names
from warp_tools.capture.reader import Datagram
from warp_tools.capture.records import read_records
from warp_tools.decrypt.keylog import KeyLog, read_keylog
from warp_tools.decrypt.plain import Plain, Said
from warp_tools.decrypt.sessions import Sessions

MAX_REMEMBERED: Final = 50_000
MAX_PACKETS: Final = 64
_NAMES: Final = {int(kind): kind.name.replace("_", " ") for kind in ChunkType}


class OpenedPacket(NamedTuple):
    """One SCTP packet in the clear."""

    number: int
    """Of the datagram that brought it."""
    size: int
    chunks: tuple[int, ...]

    def __str__(self) -> str:
        names = [_NAMES.get(chunk, f"chunk {chunk}") for chunk in self.chunks]
        return "SCTP " + " + ".join(names)


class Inside:
    """What was opened of one DTLS connection."""

    __slots__ = ("negotiated", "opens", "opens_in", "packets")

    def __init__(self) -> None:
        self.packets: list[OpenedPacket] = []
        """The first SCTP packets."""
        self.opens = 0
        """Channels that were announced by DCEP."""
        self.opens_in: list[int] = []
        """The datagrams that brought the first of these OPENs whole."""
        self.negotiated = 0
        """Messages on channels that no OPEN had announced."""


class Opened:
    """Everything that the keys have opened."""

    def __init__(self, keylog: KeyLog) -> None:
        self._keylog: Final = keylog
        self._sessions: Final = Sessions(keylog)
        self._connections: Final[dict[int, Inside]] = {}
        self._owners: Final[dict[int, int]] = {}
        self._words: Final[dict[int, list[str]]] = {}

    def learn(self, secrets: bytes) -> None:
        """Take in lines of a key log."""
        for number, line in enumerate(secrets.decode("ascii", "replace").splitlines(), 1):
            self._keylog.add_line(line, number)

    def receive(self, datagram: Datagram) -> None:
        """Take one datagram in."""
        for found in self._sessions.receive(datagram):
            number = found.datagram.number
            if isinstance(found, Said):
                self._said(found)
            elif found.dissector == "sctp":
                self._packet(found, number)
            elif found.dissector == "dtls":
                records = read_records(found.data, len(found.data)).records
                self._note(number, record_names(records))

    def inside(self, number: int) -> list[str]:
        """Say what a datagram holds."""
        return self._words.get(number, [])

    def connection(self, numbers: Iterable[int]) -> Inside | None:
        """Return what was opened of the connection that these datagrams belong to."""
        for number in numbers:
            owner = self._owners.get(number)
            if owner is not None:
                return self._connections[owner]
        return None

    def _connection(self, number: int) -> Inside:
        return self._connections.setdefault(number, Inside())

    def _said(self, said: Said) -> None:
        content, inside = said.message.content, self._connection(said.connection)
        if isinstance(content, DcepOpen):
            inside.opens += 1
            if len(inside.opens_in) < MAX_PACKETS:
                inside.opens_in.append(said.datagram.number)
        elif content is not None and said.message.label is None:
            inside.negotiated += 1

    def _packet(self, plain: Plain, number: int) -> None:
        try:
            chunks = tuple(kind for kind, _, _ in split_chunks(plain.data))
        except Discard:
            return
        packet = OpenedPacket(number, len(plain.data), chunks)
        self._note(number, [str(packet)])
        packets = self._connection(plain.connection).packets
        if len(packets) < MAX_PACKETS:
            packets.append(packet)
            self._owners[number] = plain.connection

    def _note(self, number: int, words: list[str]) -> None:
        if number in self._words or len(self._words) < MAX_REMEMBERED:
            self._words.setdefault(number, []).extend(words)


def opened_with(path: Path) -> Opened:
    """Return an opener for a key log. Raises `ToolFailure` when the log cannot be used."""
    return Opened(read_keylog(path))
