"""Which records we acknowledge, and the ACK message (RFC 9147 section 7).

Called by the handshake desk. Only handshake records are ever listed, and only those that were
processed or kept.

    u16 length | (epoch u64, sequence u64) ...
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from warp.dtls.faults import Alert, DtlsRule, misbehaved

MAX_LISTED: Final = 32  # the newest ones count most
_ENTRY: Final = 16


def encode_ack(numbers: Iterable[tuple[int, int]]) -> bytes:
    """Return the body of an ACK; record numbers ascend (section 7)."""
    entries = b"".join(
        epoch.to_bytes(8, "big") + sequence.to_bytes(8, "big")
        for epoch, sequence in sorted(numbers)
    )
    return len(entries).to_bytes(2, "big") + entries


def decode_ack(body: bytes) -> list[tuple[int, int]]:
    """Return the record numbers of an ACK, as they stand. Raises HandshakeFault (decode_error)."""
    length = int.from_bytes(body[:2], "big")
    if len(body) < 2 or length != len(body) - 2 or length % _ENTRY:
        raise misbehaved(Alert.DECODE_ERROR, DtlsRule.MALFORMED_ACK, "RFC 9147 section 7")
    return [
        (int.from_bytes(body[i : i + 8], "big"), int.from_bytes(body[i + 8 : i + 16], "big"))
        for i in range(2, len(body), _ENTRY)
    ]


class AckList:
    """The records of the peer's present flight that we have; an ACK names them all (section 7).

    So a lost ACK costs nothing once there is another one. True while some were never named.
    """

    __slots__ = ("_news", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], None] = {}
        self._news = False

    def __bool__(self) -> bool:
        return self._news

    def note(self, epoch: int, sequence: int) -> None:
        """Remember a record that was processed or kept."""
        self._numbers[(epoch, sequence)] = None
        self._news = True
        if len(self._numbers) > MAX_LISTED:
            del self._numbers[next(iter(self._numbers))]

    def clear(self) -> None:
        """Forget everything: an answer acknowledges it all."""
        self._numbers.clear()
        self._news = False

    def take(self, room: int) -> bytes:
        """Return an ACK's body of at most `room` bytes, for the newest records.

        The peer will repeat what the others carried.
        """
        self._news = False
        return encode_ack(list(self._numbers)[-max(1, (room - 2) // _ENTRY) :])
