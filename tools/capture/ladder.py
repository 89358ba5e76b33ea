"""The ladder in words: what a datagram holds, and what is special about it.

    describe(event)   one line for people, e.g. `Binding request, use-candidate, carries 900 bytes
                      of DTLS: ClientHello[0..875 of 1413]`
    notes(event)      what is special about it, e.g. `acks #12`, `same bytes as #3`, `LOST`

Called by the views; any event gives a text. Names are those of the RFCs.
"""

from __future__ import annotations

from collections.abc import Iterable

from warp.stun import BINDING, MessageClass
from warp_tools.capture import names
from warp_tools.capture.contents import GOOG_PING, Dtls, Media, Stun
from warp_tools.capture.events import Event, Mark, Marked
from warp_tools.capture.records import Piece, Record

_CLASSES = {
    MessageClass.REQUEST: "request",
    MessageClass.INDICATION: "indication",
    MessageClass.SUCCESS: "response",
    MessageClass.ERROR: "error response",
}
_METHODS = {BINDING: "Binding", GOOG_PING: "GOOG-PING"}


def describe(event: Event) -> str:
    """Say what a datagram holds."""
    contents = event.contents
    if contents.stun is not None:
        return _stun(event, contents.stun)
    if contents.dtls is not None:
        return f"DTLS {_counted(contents.dtls, event.count)}"
    if contents.media is not None:
        return _media(contents.media, event)
    return "unknown"


def notes(event: Event) -> list[str]:
    """Say what is special about a datagram, one phrase each."""
    found = [event.says] if event.says else []
    acknowledged = [m.number for m in event.marks if m.mark is Mark.ACKNOWLEDGES]
    if acknowledged:
        found.append("acks " + ", ".join(f"#{number}" for number in acknowledged))
    found += [_mark(marked) for marked in event.marks if marked.mark is not Mark.ACKNOWLEDGES]
    if event.cut:
        found.append("cut by the capture")
    stun, dtls = event.contents.stun, event.contents.dtls
    for fault in (stun.fault if stun else None, dtls.fault if dtls else None):
        if fault and not (event.cut and "cut" in fault):
            found.append(fault)
    return found


def _mark(marked: Marked) -> str:
    text = "LOST" if marked.mark is Mark.LOST else str(marked.mark.value)
    return f"{text} #{marked.number}" if marked.number else text


def _stun(event: Event, stun: Stun) -> str:
    method = _METHODS.get(stun.method, f"STUN method 0x{stun.method:03x}")
    parts = [f"{method} {_CLASSES[stun.message_class]}"]
    if stun.error is not None:
        parts[0] += f" {stun.error}"
    if stun.use_candidate:
        parts.append("use-candidate")
    if stun.rider_bytes == 0:
        parts.append("empty DTLS attribute")
    elif stun.rider_bytes and event.dtls is not None:
        parts.append(f"carries {stun.rider_bytes} bytes of DTLS: {_records(event.dtls)}")
    if stun.acks == () and stun.fault is None:
        parts.append("empty ack list")
    return ", ".join(parts)


def _media(media: Media, event: Event) -> str:
    if media.rtcp:
        text = f"SRTCP {names.rtcp(media.kind)}, SSRC {media.ssrc:08x}"
    else:
        text = f"SRTP, SSRC {media.ssrc:08x}, payload type {media.kind}, number {media.sequence}"
    return f"{text} and {event.count - 1} more" if event.count > 1 else text


def _counted(dtls: Dtls, count: int) -> str:
    text = _records(dtls)
    return f"{text} and {count - 1} more datagrams" if count > 1 else text


def _records(dtls: Dtls) -> str:
    """Name the records of a DTLS datagram."""
    return " + ".join(record_names(dtls.records)) or "nothing readable"


def record_names(records: Iterable[Record]) -> list[str]:
    """Name records, equal neighbours counted."""
    return _repeated(_record(record) for record in records)


def _record(record: Record) -> str:
    if record.unified:
        return f"encrypted (epoch {record.epoch}, {record.size} bytes)"
    if record.epoch:
        kind = names.content_type(record.content_type or 0)
        return f"encrypted {kind} (epoch {record.epoch}, {record.size} bytes)"
    if record.content_type == 22:
        return " + ".join(map(_piece_name, record.pieces)) or "cut handshake message"
    if record.content_type == 21 and len(record.body) == 2:
        return f"Alert {names.alert(record.body[1])}"
    return names.content_type(record.content_type or 0)


def _piece_name(piece: Piece) -> str:
    name = names.handshake(piece.kind)
    if piece.whole:
        return f"{name} ({piece.length} bytes)" if piece.length else name
    return f"{name}[{piece.offset}..{piece.offset + piece.size} of {piece.length}]"


def _repeated(texts: Iterable[str]) -> list[str]:
    out: list[str] = []
    count = 0
    for text in [*texts, ""]:
        if out and text == out[-1].removesuffix(f"×{count}"):
            count += 1
            out[-1] = f"{text}×{count}"
            continue
        if text:
            out.append(text)
            count = 1
    return out
