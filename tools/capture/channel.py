"""SCTP behind DTLS, told by its size: handshake or SNAP, and whether a channel was announced.

RFC 9260 section 3.3, RFC 8832 section 5.1. Without keys only lengths are known, but those of the
small packets are telling: a COOKIE ACK alone is 16 bytes, a SACK alone 28, an INIT never less than
32, a DCEP OPEN never less than 40. What the sizes do not settle is None, with the reason.

    INIT (>= 32) ─▶ INIT ACK ─▶ COOKIE ECHO ─▶ COOKIE ACK (16)      an ordinary start
    DATA ─▶ SACK (28)                                               SNAP: no handshake at all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from warp.sctp.chunks import ChunkType
from warp_tools.capture.events import Event
from warp_tools.capture.handshake import MAX_PROTECTED
from warp_tools.capture.start import Start, is_ack

if TYPE_CHECKING:
    from warp_tools.capture.opened import Inside, Opened, OpenedPacket

COOKIE_ACK: Final = 16
SACK: Final = 28
INIT: Final = 32
OPEN: Final = 40
DCEP_ACK: Final = 32
COOKIE_HEADER: Final = 4
"""Of the parameter that an INIT ACK has and an INIT has not."""
NO_MESSAGE: Final = "no message was seen on a channel"
_LOOKED_AT: Final = 24
_HANDSHAKE_PACKETS: Final = 6
"""Of a side, until its COOKIE ACK: four, and repetitions. Later, an ABORT may be as long."""
_HANDSHAKE: Final = frozenset(
    (ChunkType.INIT, ChunkType.INIT_ACK, ChunkType.COOKIE_ECHO, ChunkType.COOKIE_ACK)
)
_SETTLED: Final = frozenset((ChunkType.DATA, ChunkType.I_DATA, ChunkType.SACK, ChunkType.HEARTBEAT))


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
    """"negotiated" or None; with keys also "dcep" and "both"."""
    dcep_reason: str
    cookie_acks: tuple[Event | None, Event | None]
    hidden: bool = False
    """Whether another COOKIE ACK stands in a longer packet, it is not known in which."""
    others: str = ""
    """Why it is not known whether channels behind the first one were announced by DCEP."""
    in_clear: bool = False
    """Whether all this was read in packets that keys have opened."""
    opens: tuple[Event | None, Event | None] = (None, None)
    """The first DCEP OPEN of each side, where keys have opened it."""
    bundled: tuple[bool, bool] = (False, False)
    """Whether that OPEN came with the COOKIE ECHO (RFC 9260 section 5.1)."""

    def first(self, side: int) -> Event | None:
        """Return a side's first SCTP packet."""
        return next((packet.event for packet in self.packets if packet.side == side), None)

    def cookie(self, side: int) -> tuple[Packet, Packet] | None:
        """Return a side's INIT ACK and the COOKIE ECHO that answers it, known by the cookie's size.

        INIT and INIT ACK of one side differ by its cookie, which the other side echoes.
        """
        own = [packet for packet in self.packets if packet.side == side][:2]
        if self.snap is not False or len(own) < 2:
            return None
        echo = own[1].size - own[0].size - COOKIE_HEADER + COOKIE_ACK
        later = (p for p in self.packets if p.side != side and p.size == echo)
        found = next((p for p in later if p.event.time_ns >= own[1].event.time_ns), None)
        return None if found is None or echo <= COOKIE_ACK else (own[1], found)


def look(start: Start, opened: Opened | None = None) -> Channel:
    """Judge the SCTP of a session: by what the keys have opened, else by the sizes of records."""
    if opened is not None:
        known = _known(start, opened)
        if known is not None:
            return known
    packets = _packets(start)
    if packets is None:
        reason = "the cipher pads, so sizes do not tell"
        if start.session.handshake.server_hello is None:
            reason = "no whole ServerHello was captured, so that sizes tell nothing"
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
            mine = [packet for packet in packets if packet.side == side][:_HANDSHAKE_PACKETS]
            acks[side] = next((p.event for p in mine if p.size == COOKIE_ACK), None)
    dcep, why = _dcep(packets, snap, start)
    hidden = _hides(packets, acks)
    others = "" if dcep is None else _others(packets, start)
    return Channel(tuple(packets), snap, reason, dcep, why, (acks[0], acks[1]), hidden, others)


def _known(start: Start, opened: Opened) -> Channel | None:
    """Read the answers from packets in the clear, or return None when there are none."""
    shake = start.session.handshake
    events = {
        record.event.number: record.event
        for side in (0, 1)
        for record in [*shake.sealed(side), *shake.flight(side)]
    }
    inside = opened.connection(events)
    if inside is None:
        return None
    packets: list[Packet] = []
    acks: list[Event | None] = [None, None]
    for found in inside.packets:
        event = events.get(found.number)
        if event is None:
            continue
        packets.append(Packet(event, event.side, found.size))
        if ChunkType.COOKIE_ACK in found.chunks:
            acks[event.side] = acks[event.side] or event
    if not packets or start.missing:
        return None
    snap, reason = _known_snap(inside.packets)
    kinds = {(True, True): "both", (True, False): "dcep", (False, True): "negotiated"}
    dcep = kinds.get((bool(inside.opens), bool(inside.negotiated)))
    why = f"{inside.opens} channels were announced by DCEP, {inside.negotiated} messages came on "
    why += "channels that were not"
    why = NO_MESSAGE if dcep is None else why
    opens, bundled = _opens(inside, events)
    return Channel(
        tuple(packets), snap, reason, dcep, why, (acks[0], acks[1]),
        in_clear=True, opens=opens, bundled=bundled,
    )  # fmt: skip


def _opens(
    inside: Inside, events: dict[int, Event]
) -> tuple[tuple[Event | None, Event | None], tuple[bool, bool]]:
    """Return the first OPEN of each side, and whether a COOKIE ECHO was with it."""
    echoes = {p.number for p in inside.packets if ChunkType.COOKIE_ECHO in p.chunks}
    found: list[Event | None] = [None, None]
    for number in inside.opens_in:
        event = events.get(number)
        if event is not None:
            found[event.side] = found[event.side] or event
    with_echo = [event is not None and event.number in echoes for event in found]
    return (found[0], found[1]), (with_echo[0], with_echo[1])


def _known_snap(packets: list[OpenedPacket]) -> tuple[bool | None, str]:
    for packet in packets:
        if _HANDSHAKE.intersection(packet.chunks):
            return False, f"#{packet.number} holds {packet}"
    if any(_SETTLED.intersection(packet.chunks) for packet in packets):
        return True, "the first SCTP packets hold data, and no INIT was sent"
    return None, "no SCTP packet shows whether there was a handshake"


def _hides(packets: list[Packet], acks: list[Event | None]) -> bool:
    """Both sides asked, and one COOKIE ACK is alone: the other one goes with data.

    Who has only answered has sent an INIT ACK before, and nothing else.
    """
    if (acks[0] is None) == (acks[1] is None):
        return False
    side = 0 if acks[0] is not None else 1
    sizes = [packet.size for packet in packets if packet.side == side]
    return sizes.index(COOKIE_ACK) > 1


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
            if counts[packet.side] < 2 or counts[1 - packet.side] < 2:
                # as long as a SHUTDOWN ACK or an ABORT; INIT and COOKIE ECHO stand before this one
                return None, f"#{packet.event.number} may be a COOKIE ACK, or the end"
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


def _dcep(packets: list[Packet], snap: bool | None, start: Start) -> tuple[str | None, str]:
    unknown = "the channel's messages are encrypted, and their sizes do not tell"
    if snap is None:
        return None, unknown
    rest = packets if snap else _after_handshake(packets)
    if rest is None:
        return None, unknown
    data = [packet for packet in rest if packet.size not in (COOKIE_ACK, SACK)]
    if not data:
        return None, NO_MESSAGE
    if data[0].size >= OPEN:
        return None, unknown
    if not _is_first(rest, data[0]) or _lacks(start, data[0].event):
        return None, "whether a message was lost before the first that was captured is not known"
    return "negotiated", (
        f"the first message (#{data[0].event.number}) is too short for a DCEP OPEN: "
        "its channel was agreed on in advance"
    )


def _others(packets: list[Packet], start: Start) -> str:
    """Say why another channel may have been announced, or nothing when none was.

    An OPEN is answered by an ACK of DCEP, a message of one byte: 32 bytes alone, more with others.
    """
    if any(len(start.session.handshake.sealed(side)) >= MAX_PROTECTED for side in (0, 1)):
        return "only the first packets were looked at"
    asked = [False, False]
    for packet in _behind(packets):
        if packet.size >= DCEP_ACK and asked[1 - packet.side]:
            return "later messages are encrypted, and some are as long as an OPEN and its answer"
        asked[packet.side] |= packet.size >= OPEN
    return ""


def _behind(packets: list[Packet]) -> list[Packet]:
    """Return what follows the SCTP handshake, where there is one."""
    ends = [at for at, packet in enumerate(packets) if packet.size == COOKIE_ACK]
    return packets[ends[0] :] if ends else packets


def _is_first(packets: list[Packet], first: Packet) -> bool:
    """Tell whether nothing was acknowledged before a packet, and it before anything longer came.

    An OPEN that was lost before would come again, and until then acknowledgements have gaps.
    """
    at = packets.index(first)
    if any(packet.size == SACK for packet in packets[:at]):
        return False
    for packet in packets[at + 1 :]:
        if packet.side != first.side and packet.size == SACK:
            return True
        if packet.side == first.side and packet.size >= OPEN:
            return False
    return False


def _lacks(start: Start, until: Event) -> bool:
    """Tell whether records are missing before a datagram, where their numbers are in the clear."""
    shake = start.session.handshake
    for side in (0, 1):
        records = [
            (record.event.time_ns, record.sequence)
            for record in [*shake.flight(side), *shake.sealed(side)]
            if record.sequence is not None
        ]
        # and the next one, which may be the first to show the gap
        before = sum(time_ns <= until.time_ns for time_ns, _ in records)
        numbers = {number for _, number in sorted(records)[: before + 1]}
        if numbers and len(numbers) != max(numbers) + 1:
            return True
    return False


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
