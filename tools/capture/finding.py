"""A finding: something about a start that a person should know, with a stable id.

The ids are the public face: they are listed here, with what each means, and never change their
meaning. Texts may.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class Weight(enum.Enum):
    """What a finding means for the start."""

    GOOD = "good"
    NOTE = "note"
    COST = "cost"
    """It took time that need not be."""
    FAULT = "fault"
    """Something was lost or is broken."""


IDS = {
    "start-missing": "the capture begins in the middle of the session",
    "checks-missing": "the capture begins after the first checks",
    "ice-restart": "new ICE credentials on a connection that goes on",
    "one-direction": "only what one side sent was captured",
    "cut-packets": "the capture kept only the beginning of datagrams",
    "two-places": "datagrams were captured at two places, of their way or with two clocks",
    "datagram-lost": "datagrams did not show at the second place of the capture",
    "no-answer": "no answer to any check was captured",
    "first-check-lost": "no answer to the first check was captured, one to a later one was",
    "check-refused": "a check was answered with an error",
    "role-conflict": "both sides wanted the same ICE role",
    "consent-missing": "a side went on sending without fresh consent (RFC 7675)",
    "no-sped": "nobody offered to carry DTLS in checks",
    "sped-ignored": "one side offered SPED, the other one answered without it",
    "sped-malformed": "an acknowledgement attribute that is no list of CRC-32",
    "sped-unmatched": "an acknowledged CRC is that of no datagram in the capture",
    "flight-not-in-answer": "the server's flight came later than the answer that could carry it",
    "warp": "DTLS in the first exchange of checks and SCTP without a handshake",
    "dtls12": "DTLS 1.2: one round trip more than 1.3",
    "hello-retry": "the server asked for another key share",
    "cookie-under-ice": "the server asked for a cookie although ICE has proved the address",
    "cookie-exchange": "the server asked for a cookie",
    "clienthello-split-pq": "the ClientHello needs two datagrams because of a post-quantum share",
    "clienthello-split": "the ClientHello needs more than one datagram",
    "clienthello-late": "the ClientHello left long after a check of its sender was answered",
    "answer-active": "the controlled side is DTLS client, as after a=setup:active in the answer",
    "dtls-timer-wait": "a DTLS flight waited for a timer",
    "dtls-retransmission": "DTLS flights were sent again",
    "server-flight-late": "the server's flight came long after the ClientHello",
    "client-flight-late": "the client's flight came long after the server's",
    "dtls-missing": "checks were answered and no DTLS was ever sent",
    "dtls-unanswered": "no answer to the ClientHello was captured, or not all of it",
    "both-clients": "both sides sent a ClientHello, and none of them was answered",
    "handshake-unfinished": "the DTLS handshake does not come to its end in the capture",
    "dtls-alert": "an alert during the handshake",
    "plaintext-ack": "an unprotected ACK lists protected records",
    "no-snap": "SCTP was set up by a handshake",
    "early-media": "the server sent media, or reports on it, before it had the client's flight",
    "early-srtp-lost": "SRTP came before the receiver could have its keys",
    "media-late": "media began long after it could",
    "media-lost": "RTP packets are missing",
    "one-way-media": "only one side sends media",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. `id` is one of `IDS`."""

    id: str
    weight: Weight
    text: str
    trips: float | None = None
    """Round trips that it cost."""
    ms: float | None = None
    """Milliseconds that it cost, as measured."""
    datagrams: tuple[int, ...] = ()
    """Numbers of the datagrams that show it."""

    def to_json(self) -> dict[str, Any]:
        """Return the finding for machines."""
        return {
            "id": self.id,
            "weight": self.weight.value,
            "text": self.text,
            "round_trips": self.trips,
            "ms": None if self.ms is None else round(self.ms, 1),
            "datagrams": list(self.datagrams),
        }


def several(count: int, what: str) -> str:
    """Return a number and its noun: `1 datagram`, `3 datagrams`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
