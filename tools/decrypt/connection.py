"""One DTLS connection of the capture, with everything it protects.

    DTLS ─▶ Handshake ─┬▶ handshake messages, alerts, ACKs ──▶ Plain("dtls")
                       └▶ application data ─▶ DataReader ────▶ Plain("sctp"), Said
    SRTP ─▶ MediaOpener (the handshake's exporter) ──────────▶ Plain("rtp"), Plain("rtcp")

Which side sent a datagram is told by its hellos, by what came the other way, or by whose keys fit.
Called by `sessions`, which finds the connection that a datagram belongs to.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

from warp.dtls import DtlsRole
from warp.dtls.records import (
    APPLICATION_DATA,
    DTLS12_WIRE,
    HANDSHAKE,
    MAX_SEQUENCE,
    PLAIN_HEADER,
    PLAIN_HEADER_LENGTH,
)
from warp.errors import Discard
from warp.sctp.packet import checksum_matches, parse_header
from warp_tools.capture.reader import Address, Datagram
from warp_tools.decrypt.data import DataReader
from warp_tools.decrypt.handshake import ROLES, FindSecrets, Handshake, Opened
from warp_tools.decrypt.media import MediaOpener, profiles_to_try
from warp_tools.decrypt.plain import MEDIA, Plain, Said

MAX_HELD: Final = 512
"""Datagrams of media that may wait for their keys: ten seconds of one voice."""
MAX_HELD_BYTES: Final = 64 << 20
"""And so many bytes, all connections of a capture together."""
MAX_WAYS: Final = 256
_HELLO_RANDOM: Final = slice(27, 59)
_CLIENT_SAYS: Final = frozenset({1, 16})
_SERVER_SAYS: Final = frozenset({2, 3, 12, 14})
OTHER: Final = {DtlsRole.CLIENT: DtlsRole.SERVER, DtlsRole.SERVER: DtlsRole.CLIENT}

Found: TypeAlias = Plain | Said


def peek_client_random(data: bytes) -> bytes | None:
    """Return the random of the ClientHello that a datagram begins with, or None."""
    if (
        len(data) < _HELLO_RANDOM.stop
        or data[0] != HANDSHAKE
        or data[3:5] != b"\0\0"
        or data[PLAIN_HEADER_LENGTH] != 1
        or data[19:22] != b"\0\0\0"  # a later fragment of the message
    ):
        return None
    return data[_HELLO_RANDOM]


def peek_role(data: bytes) -> DtlsRole | None:
    """Return whose a plaintext handshake message must be, or None where both may send it."""
    if len(data) <= PLAIN_HEADER_LENGTH or data[0] != HANDSHAKE or data[3:5] != b"\0\0":
        return None
    kind = data[PLAIN_HEADER_LENGTH]
    if kind in _CLIENT_SAYS:
        return DtlsRole.CLIENT
    return DtlsRole.SERVER if kind in _SERVER_SAYS else None


class Budget:
    """What may be held at a time."""

    __slots__ = ("left",)

    def __init__(self, size: int = MAX_HELD_BYTES) -> None:
        self.left = size

    def take(self, size: int) -> bool:
        """Take room for so many bytes, if there is any."""
        if size > self.left:
            return False
        self.left -= size
        return True


class Connection:
    """A connection; `said` counts messages, `lost_media` what could not wait for its keys."""

    __slots__ = (
        "_budget",
        "_held",
        "_ways",
        "client",
        "data",
        "handshake",
        "lost_media",
        "media",
        "number",
        "said",
        "server",
        "strangers",
    )

    def __init__(self, number: int, find: FindSecrets, budget: Budget) -> None:
        self.number = number
        self._budget = budget
        self.handshake = Handshake(find)
        self.media: MediaOpener | None = None
        self.data = DataReader()
        self.client: Address | None = None
        self.server: Address | None = None
        self.said = 0
        self.lost_media = 0
        self.strangers = 0
        """Protected datagrams of which nobody knows whose they are."""
        self._held: deque[Datagram] = deque()
        self._ways: dict[tuple[Address, Address], DtlsRole] = {}

    # -- what arrives -------------------------------------------------------------------------

    def receive_dtls(self, data: bytes, datagram: Datagram) -> list[Found]:
        """Take in a DTLS datagram, sent as such or inside a connectivity check."""
        known = peek_role(data) or self._role(datagram)
        if known is not None:
            opened = self.handshake.receive(data, known)
            self._learn(datagram, known)
        else:
            opened = self._guess(data, datagram)
        found = [one for record in opened for one in self._read(record, datagram)]
        return found + self.release_media()

    def receive_media(self, datagram: Datagram) -> list[Found]:
        """Take in an SRTP or SRTCP datagram; it waits while the keys are unknown."""
        media = self._media()
        if media is None:
            self._hold(datagram)
            return []
        known = self._role(datagram)
        plain = media.receive(datagram.payload, ROLES if known is None else (known,))
        if plain is None:
            return []
        if known is None:
            self._learn(datagram, plain.role)
        return [Plain(datagram, MEDIA[plain.rtcp], plain.data, self.number, plain.role)]

    def release_media(self) -> list[Found]:
        """Open what has waited for its keys, once they are known."""
        found: list[Found] = []
        if self._held and self._media() is not None:
            held, self._held = self._held, deque()
            self._budget.left += sum(len(datagram.payload) for datagram in held)
            for datagram in held:
                found += self.receive_media(datagram)
        return found

    def _hold(self, datagram: Datagram) -> None:
        if len(self._held) == MAX_HELD:
            self._budget.left += len(self._held.popleft().payload)
            self.lost_media += 1
        if self._budget.take(len(datagram.payload)):
            self._held.append(datagram)
        else:
            self.lost_media += 1

    @property
    def waiting(self) -> int:
        """Datagrams of media whose keys have not come."""
        return len(self._held)

    def _media(self) -> MediaOpener | None:
        exporter = self.handshake.exporter
        if self.media is None and exporter is not None:
            self.media = MediaOpener(exporter, profiles_to_try(self.handshake.srtp_profile))
        return self.media

    # -- which side ---------------------------------------------------------------------------

    def _role(self, datagram: Datagram) -> DtlsRole | None:
        way = self._ways.get((datagram.source, datagram.destination))
        if way is not None:
            return way
        back = self._ways.get((datagram.destination, datagram.source))
        return OTHER[back] if back is not None else None

    def _learn(self, datagram: Datagram, role: DtlsRole) -> None:
        way = (datagram.source, datagram.destination)
        if way in self._ways or len(self._ways) >= MAX_WAYS:
            return
        self._ways[way] = role
        if self.client is None:
            self.client, self.server = way if role is DtlsRole.CLIENT else reversed(way)

    def _guess(self, data: bytes, datagram: Datagram) -> list[Opened]:
        """Open a datagram of which only the keys can tell who sent it."""
        if not self.handshake.settled:
            self.strangers += 1
            return []
        for role in ROLES:
            side = self.handshake.sides[role]
            counts = side.context.discards.copy()
            opened = self.handshake.receive(data, role)
            if any(record.epoch for record in opened):
                self._learn(datagram, role)
                return opened
            side.context.discards.clear()
            side.context.discards.update(counts)
        self.strangers += 1
        return []

    # -- what a record holds ------------------------------------------------------------------

    def _read(self, record: Opened, datagram: Datagram) -> list[Found]:
        if record.content_type == APPLICATION_DATA:
            return self._read_data(record, datagram)
        header = PLAIN_HEADER.pack(
            record.content_type,
            DTLS12_WIRE,
            0,
            (record.sequence & MAX_SEQUENCE) >> 32,
            record.sequence & 0xFFFF_FFFF,
            len(record.content),
        )
        comment = f"epoch {record.epoch}" if record.epoch else ""
        content = header + record.content
        return [Plain(datagram, "dtls", content, self.number, record.role, comment, record.epoch)]

    def _read_data(self, record: Opened, datagram: Datagram) -> list[Found]:
        role, packet = record.role, record.content
        if not _is_sctp(packet):
            return [Plain(datagram, "data", packet, self.number, role)]
        found: list[Found] = [Plain(datagram, "sctp", packet, self.number, role)]
        messages = self.data.receive(packet, role)
        self.said += len(messages)
        return found + [Said(datagram, self.number, message) for message in messages]


def _is_sctp(packet: bytes) -> bool:
    """Tell whether application data is an SCTP packet, by its checksum (RFC 9653: perhaps 0)."""
    try:
        header = parse_header(packet)
    except Discard:
        return False
    return checksum_matches(packet) if header.checksum else True
