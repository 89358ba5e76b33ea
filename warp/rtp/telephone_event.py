"""Telephone events: DTMF digits as RTP payloads (RFC 4733 section 2.3).

    |     event     |E|R|  volume   |          duration             |

All packets of one event share its starting timestamp; the duration grows; the last is sent three
times with E set. `ToneTracker` turns that into one beginning and one end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp.errors import Discard, InvalidConfig
from warp.rtp.events import ToneBegan, ToneEnded
from warp.rtp.packet import RtpDiscard

DIGITS: Final = "0123456789*#ABCD"
"""The DTMF digits by event code (RFC 4733 section 3.2)."""


class TelephoneEvent(NamedTuple):
    """One payload. `volume` in -dBm0 (0..63), `duration` in ticks of the event's clock."""

    code: int
    ended: bool
    volume: int
    duration: int

    def serialize(self) -> bytes:
        """Return the four bytes. Raises `InvalidConfig` when a field does not fit."""
        if not (self.code < 256 and self.volume < 64 and self.duration < 65536):
            raise InvalidConfig("telephone event: code < 256, volume < 64, duration < 65536")
        flags = (0x80 if self.ended else 0) | self.volume
        return bytes((self.code, flags)) + self.duration.to_bytes(2, "big")


def parse_telephone_event(payload: bytes) -> TelephoneEvent:
    """Return the event in a payload. Raises `Discard(RtpDiscard.EVENT)`.

    Bytes after the first four are left alone: RFC 4733 permits a later event to be appended only
    where both sides agreed on redundancy, which WebRTC does not.
    """
    if len(payload) < 4:
        raise Discard(RtpDiscard.EVENT)
    flags = payload[1]
    return TelephoneEvent(
        payload[0], flags > 0x7F, flags & 0x3F, int.from_bytes(payload[2:4], "big")
    )


class ToneTracker:
    """Folds the packets of an event into `ToneBegan` and `ToneEnded`."""

    __slots__ = ("_code", "_duration", "_finished", "_timestamp")

    def __init__(self) -> None:
        self._timestamp: int | None = None
        self._code = 0
        self._duration = 0
        self._finished = True

    def receive(self, timestamp: int, event: TelephoneEvent) -> list[ToneBegan | ToneEnded]:
        """Take in the next packet in order; `timestamp` is the extended start of the event."""
        out: list[ToneBegan | ToneEnded] = []
        if timestamp != self._timestamp:
            if self._timestamp is not None and timestamp < self._timestamp:
                return out
            out += self.finish()  # all three ends of the last one were lost
            self._timestamp, self._code, self._duration = timestamp, event.code, 0
            self._finished = False
            out.append(ToneBegan(event.code, timestamp, event.volume))
        if self._finished:
            return out
        self._duration = max(self._duration, event.duration)
        if event.ended:
            out += self.finish()
        return out

    def finish(self) -> list[ToneBegan | ToneEnded]:
        """End a tone that still sounds."""
        if self._finished or self._timestamp is None:
            return []
        self._finished = True
        return [ToneEnded(self._code, self._timestamp, self._duration)]
