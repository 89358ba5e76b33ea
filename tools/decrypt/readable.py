"""How a DTLS record is written so that every Wireshark reads it, with a line that says what it is.

Wireshark before 4.2 takes handshake messages of DTLS 1.3 in fragments for those of 1.2, and finds
them malformed, and does not know ACK. In the plaintext file each message of a protected epoch
therefore goes in the form of TLS, whole, in the packet that completes it, and a comment says what
else there is. Records in the clear are written as they were:

    record ─▶ fragments ─▶ whole           ─▶ tls13-handshake
                         ├ completes one   ─▶ tls13-handshake, "put together from #12, #13"
                         └ a part          ─▶ data, "Certificate[0..239 of 353]"

Called by `plainfile`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from warp.dtls import DtlsRole
from warp.dtls.acks import decode_ack
from warp.dtls.faults import HandshakeFault
from warp.dtls.reassembly import Fragment, HandshakeMessage, Reassembler, split_fragments
from warp.dtls.records import ACK, HANDSHAKE, PLAIN_HEADER_LENGTH
from warp_tools.capture import names
from warp_tools.decrypt.plain import Plain

HANDSHAKE13: Final = "tls13-handshake"
BYTES: Final = "data"
MAX_MESSAGES: Final = 64
"""Fragments of a record, and messages that wait for the rest of them."""
MAX_SHOWN: Final = 8
_FIRST_EPOCH13: Final = 2
_Key = tuple[int, DtlsRole | None, int, int]


class Readable(NamedTuple):
    """What is written: the dissector, its bytes, and a comment (may be empty)."""

    dissector: str
    content: bytes
    comment: str


class _Parts:
    """A message that came in fragments so far."""

    __slots__ = ("numbers", "reassembler")

    def __init__(self, message_seq: int) -> None:
        self.numbers: list[int] = []
        self.reassembler = Reassembler()
        self.reassembler.next_seq = message_seq

    def receive(self, fragment: Fragment, number: int) -> HandshakeMessage | None:
        """Take one fragment in; return the message if that was the last one."""
        if number not in self.numbers and len(self.numbers) < MAX_SHOWN:
            self.numbers.append(number)
        try:
            self.reassembler.receive(fragment)
        except HandshakeFault:
            return None
        return self.reassembler.pop()


class Readables:
    """Makes records of DTLS readable; remembers, within bounds, messages that are not whole."""

    def __init__(self) -> None:
        self._parts: OrderedDict[_Key, _Parts] = OrderedDict()

    def receive(self, plain: Plain) -> Readable:
        """Return how a packet is to be written."""
        kind = plain.data[0] if plain.dissector == "dtls" else None
        if kind == HANDSHAKE and plain.epoch >= _FIRST_EPOCH13:
            return self._handshake(plain)
        if kind == ACK:
            return Readable(plain.dissector, plain.data, _with(plain.comment, _listed(plain.data)))
        return Readable(plain.dissector, plain.data, plain.comment)

    def _handshake(self, plain: Plain) -> Readable:
        content = plain.data[PLAIN_HEADER_LENGTH:]
        fragments, complete = split_fragments(content, plain.epoch, MAX_MESSAGES)
        if not complete:
            return Readable(BYTES, content, _with(plain.comment, "no handshake messages"))
        messages, said = b"", [plain.comment]
        for one in fragments:
            name = names.handshake(one.message_type)
            if not one.offset and len(one.data) == one.length:
                messages += _as_tls(one)
                continue
            found, numbers = self._join(plain, one)
            if found is None:
                end = one.offset + len(one.data)
                said.append(f"{name}[{one.offset}..{end} of {one.length}]")
                continue
            messages += _as_tls(found)
            listed = ", ".join(f"#{number}" for number in numbers)
            said.append(f"{name} put together from {listed}")
        comment = "; ".join(filter(None, said))
        return (
            Readable(HANDSHAKE13, messages, comment)
            if messages
            else Readable(BYTES, content, comment)
        )

    def _join(self, plain: Plain, fragment: Fragment) -> tuple[HandshakeMessage | None, list[int]]:
        key = plain.connection, plain.role, plain.epoch, fragment.message_seq
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = _Parts(fragment.message_seq)
            if len(self._parts) > MAX_MESSAGES:
                self._parts.popitem(last=False)
        found = parts.receive(fragment, plain.datagram.number)
        if found is not None:
            del self._parts[key]
        return found, parts.numbers


def _as_tls(message: Fragment | HandshakeMessage) -> bytes:
    body = message.data if isinstance(message, Fragment) else message.body
    return (message.message_type << 24 | len(body)).to_bytes(4, "big") + body


def _listed(record: bytes) -> str:
    """Say what an ACK acknowledges."""
    try:
        numbers = decode_ack(record[PLAIN_HEADER_LENGTH:])
    except HandshakeFault:
        return "ACK that is malformed"
    shown = ", ".join(f"{epoch}/{sequence}" for epoch, sequence in numbers[:MAX_SHOWN])
    more = f" and {len(numbers) - MAX_SHOWN} more" if len(numbers) > MAX_SHOWN else ""
    return f"ACK of records (epoch/number) {shown}{more}" if numbers else "ACK of nothing"


def _with(comment: str, more: str) -> str:
    return f"{comment}; {more}" if comment else more
