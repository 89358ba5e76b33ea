"""SCTP behind DTLS, told by its size: handshake or SNAP, and whether a channel was announced.

RFC 9260 section 3.3, RFC 8832 section 5.1. Without keys only lengths are known, but those of the
small packets are telling: a COOKIE ACK alone is 16 bytes, a SACK alone 28, an INIT never less than
32, a DCEP OPEN never less than 40. What the sizes do not settle is None, with the reason.

    INIT (>= 32) ─▶ INIT ACK ─▶ COOKIE ECHO ─▶ COOKIE ACK (16)      an ordinary start
    DATA ─▶ SACK (28)                                               SNAP: no handshake at all
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp_tools.capture.events import Event
from warp_tools.capture.start import Start, is_ack

COOKIE_ACK: Final = 16
SACK: Final = 28
INIT: Final = 32
OPEN: Final = 40
COOKIE_HEADER: Final = 4
"""Of the parameter that an INIT ACK has and an INIT has not."""
_LOOKED_AT: Final = 24


class Packet(NamedTuple):
    """An SCTP packet, as far as its size shows."""

    event: Event
    side: int
    size: int


class Channel(NamedTuple):
    """What the sizes say. A reason stands where the answer is None."""

    packets: tuple[Packet, ...]
    snap: bool | None
    snap_reason: str
    dcep: str | None
    """"negotiated" or None; with keys also "dcep"."""
    dcep_reason: str
    cookie_acks: tuple[Event | None, Event | None]

    def first(self, side: int) -> Event | None:
        """Return a side's first SCTP packet."""
        return next((packet.event for packet in self.packets if packet.side == side), None)


def look(start: Start) -> Channel:
    """Judge the SCTP of a session by the sizes of its records."""
    packets = _packets(start)
    if packets is None:
        reason = "the cipher pads, so sizes do not tell"
        return Channel((), None, reason, None, reason, (None, None))
    if not packets:
        reason = "no SCTP packet was captured"
        return Channel((), None, reason, None, reason, (None, None))
    if start.missing:
        reason = "the beginning is not in the capture"
        return Channel(tuple(packets), None, reason, None, reason, (None, None))
    snap, reason = _snap(packets)
    acks: list[Event | None] = [None, None]
    if snap is False:
        for side in (0, 1):
            mine = (p.event for p in packets if p.side == side and p.size == COOKIE_ACK)
            acks[side] = next(mine, None)
    dcep, why = _dcep(packets, snap)
    return Channel(tuple(packets), snap, reason, dcep, why, (acks[0], acks[1]))


def _packets(start: Start) -> list[Packet] | None:
    """Return the records that may be SCTP packets, in order; None when sizes are unknown."""
    found: list[Packet] = []
    for side in (0, 1):
        for record in start.session.handshake.sealed(side):
            if start.is_12 and record.content_type != 23:
                continue
            if start.is_12 is False and (is_ack(record) or record.epoch == 1):
                continue
            size = start.content_size(record)
            if size is None:
                return None
            if size >= COOKIE_ACK and size % 4 == 0:
                found.append(Packet(record.event, side, size))
    return sorted(found, key=lambda packet: (packet.event.time_ns, packet.event.number))


def _snap(packets: list[Packet]) -> tuple[bool | None, str]:
    counts = [0, 0]
    for packet in packets[:_LOOKED_AT]:
        counts[packet.side] += 1
        if packet.size == COOKIE_ACK:
            return False, (
                f"#{packet.event.number} has the size of a COOKIE ACK: "
                "the association was set up by an SCTP handshake"
            )
        if packet.size == SACK:
            if counts[packet.side] <= 2:
                return True, (
                    f"#{packet.event.number} has the size of a SACK, and no packet before it "
                    "that of a COOKIE ACK: the association was there without a handshake"
                )
            break
    return None, "the sizes of the first SCTP packets do not tell"


def _dcep(packets: list[Packet], snap: bool | None) -> tuple[str | None, str]:
    unknown = "the channel's messages are encrypted, and their sizes do not tell"
    if snap is None:
        return None, unknown
    rest = packets if snap else _after_handshake(packets)
    if rest is None:
        return None, unknown
    data = [packet for packet in rest if packet.size not in (COOKIE_ACK, SACK)]
    if not data:
        return None, "no message was seen on a channel"
    if data[0].size >= OPEN:
        return None, unknown
    return "negotiated", (
        f"the first message (#{data[0].event.number}) is too short for a DCEP OPEN: "
        "both sides knew the channel"
    )


def _after_handshake(packets: list[Packet]) -> list[Packet] | None:
    """Return what follows the SCTP handshake, or None when a message may hide in it."""
    end = next(at for at, packet in enumerate(packets) if packet.size == COOKIE_ACK)
    sizes = [[packet.size for packet in packets[:end] if packet.side == side] for side in (0, 1)]
    if any(len(own) != 3 for own in sizes):
        return None
    for own, other in (sizes, sizes[::-1]):
        # INIT and INIT ACK of one side show how long its cookie is; the other side echoes it
        cookie = own[1] - own[0] - COOKIE_HEADER
        if other[2] != cookie + COOKIE_ACK:
            return None
    return packets[end:]
