"""What a datagram is, in a few words, for the ladder: STUN with its riders, DTLS with its messages.

Reads only what stands there in the clear. Any bytes give a description; nothing raises.
"""

from __future__ import annotations

from typing import NamedTuple

from warp.errors import Discard
from warp.stun import BINDING, Attribute, MessageClass, is_stun, parse_message

_HANDSHAKES = {
    0: "HelloRequest",
    1: "ClientHello",
    2: "ServerHello",
    3: "HelloVerifyRequest",
    4: "NewSessionTicket",
    11: "Certificate",
    12: "ServerKeyExchange",
    13: "CertificateRequest",
    14: "ServerHelloDone",
    15: "CertificateVerify",
    16: "ClientKeyExchange",
    20: "Finished",
}
_CLASSES = {
    MessageClass.REQUEST: "request",
    MessageClass.INDICATION: "indication",
    MessageClass.SUCCESS: "response",
    MessageClass.ERROR: "error response",
}
_CONTENT = {20: "ChangeCipherSpec", 21: "Alert", 23: "data", 26: "ACK"}
_RECORD_HEADER = 13
_HANDSHAKE_HEADER = 12
_MAX_RECORDS = 64


class Description(NamedTuple):
    """A datagram's protocol and contents."""

    kind: str
    """stun, dtls, rtp, rtcp, empty or other (RFC 7983 section 7)."""
    text: str


def describe(data: bytes) -> Description:
    """Say what a datagram is."""
    if not data:
        return Description("empty", "empty")
    first = data[0]
    if first <= 3 and is_stun(data):
        return Description("stun", _stun(data))
    if 20 <= first <= 63:
        return Description("dtls", "DTLS " + dtls_contents(data))
    if 128 <= first <= 191:
        # RFC 5761 section 4
        if len(data) > 1 and 192 <= data[1] <= 223:
            return Description("rtcp", "RTCP")
        return Description("rtp", "RTP")
    return Description("other", f"first byte {first}")


def _stun(data: bytes) -> str:
    try:
        message = parse_message(data)
    except Discard as discard:
        return f"STUN, unreadable ({discard.reason.value})"
    name = "Binding" if message.method == BINDING else f"STUN method {message.method}"
    parts = [f"{name} {_CLASSES[message.message_class]}"]
    if message.get(Attribute.USE_CANDIDATE) is not None:
        parts.append("use-candidate")
    rider = message.get(Attribute.META_DTLS_IN_STUN)
    if rider:
        parts.append(f"carries {dtls_contents(rider)} ({len(rider)})")
    acknowledged = message.get(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)
    if acknowledged:
        parts.append(f"acks {len(acknowledged) // 4}")
    return ", ".join(parts)


def dtls_contents(data: bytes) -> str:
    """Name the records of a DTLS datagram, e.g. `ServerHello + encrypted×2`."""
    names: list[str] = []
    at = 0
    while at < len(data) and len(names) < _MAX_RECORDS:
        if data[at] & 0xE0 == 0x20:
            size = _unified_size(data, at)
            names.append("encrypted")
        else:
            size = _RECORD_HEADER + int.from_bytes(data[at + 11 : at + 13], "big")
            names.append(_plain_record(data[at : at + size]))
        at += size
    return " + ".join(_counted(names)) or "nothing"


def _unified_size(data: bytes, at: int) -> int:
    """Bytes of a DTLS 1.3 record (RFC 9147 section 4); without a length it is the last one."""
    first = data[at]
    header = 1 + (2 if first & 0x08 else 1)
    if not first & 0x04:
        return len(data) - at
    return header + 2 + int.from_bytes(data[at + header : at + header + 2], "big")


def _plain_record(record: bytes) -> str:
    content, epoch = record[0], int.from_bytes(record[3:5], "big")
    if len(record) < _RECORD_HEADER:
        return "cut record"
    if content != 22:
        return _CONTENT.get(content, f"content {content}")
    if epoch:
        return "encrypted"
    names: list[str] = []
    body = record[_RECORD_HEADER:]
    while len(body) >= _HANDSHAKE_HEADER and len(names) < _MAX_RECORDS:
        length, offset, size = (int.from_bytes(body[i : i + 3], "big") for i in (1, 6, 9))
        name = _HANDSHAKES.get(body[0], f"handshake {body[0]}")
        whole = offset == 0 and size == length
        names.append(name if whole else f"{name}[{offset}..{offset + size} of {length}]")
        body = body[_HANDSHAKE_HEADER + size :]
    return " + ".join(names) or "cut handshake"


def _counted(names: list[str]) -> list[str]:
    out: list[str] = []
    count = 0
    for at, name in enumerate(names):
        count += 1
        if at + 1 == len(names) or names[at + 1] != name:
            out.append(name if count == 1 else f"{name}×{count}")
            count = 0
    return out
