"""What the decrypter says: packets in the clear, messages, and how each connection fared.

Values only; made by `connection`, used by `run` and the files.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp.dtls import DtlsRole
from warp_tools.capture.reader import Datagram
from warp_tools.decrypt.data import Message

SIDES: Final = {DtlsRole.CLIENT: "client", DtlsRole.SERVER: "server"}
"""How a side is called in everything that is printed: by its role in DTLS."""
MEDIA: Final = ("rtp", "rtcp")
"""The dissectors of what was SRTP."""


class Plain(NamedTuple):
    """One packet in the clear, in the datagram that brought it."""

    datagram: Datagram
    dissector: str
    """What Wireshark calls the protocol: stun-udp, dtls, sctp, rtp, rtcp, data."""
    data: bytes
    connection: int = 0
    """Its number; 0 for what belongs to none, as STUN."""
    role: DtlsRole | None = None
    comment: str = ""
    epoch: int = 0
    """Of a DTLS record."""


class Said(NamedTuple):
    """One message of a data channel, and when it was complete."""

    datagram: Datagram
    connection: int
    message: Message
