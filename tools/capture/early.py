"""What a DTLS 1.3 server sent behind its flight, before it can have had the client's Finished.

    ClientHello ─▶ flight ─▶ SRTP, SRTCP, SCTP of the server ...  client's flight ─▶

A server may do so (RFC 8446 section 4.4.4), whether it does is seen in what it sends. The finding
and what WARP would have saved both ask here, so that they agree.
"""

from __future__ import annotations

import enum
from typing import Final

from warp_tools.capture.events import Event
from warp_tools.capture.facts import Facts

_AT_ONCE_MS: Final = 30.0
"""A frame of audio, and computing."""


class Turn(enum.Enum):
    """When a server begins to send."""

    EARLY = enum.auto()
    """Behind its flight."""
    WAITED = enum.auto()
    """As soon as it had the client's flight."""
    UNTOLD = enum.auto()
    """What it sent first came later, which does not show what it could have done."""


def early_media(facts: Facts) -> list[Event]:
    """Return the media packets that a server of DTLS 1.3 sent without the client's flight."""
    start = facts.start
    if start.server is None or start.is_12 or not start.client_flight:
        return []
    first = start.client_flight[0]
    sent = facts.session.sources.early[start.server]
    return [event for event in sent if not facts.vantage.could_follow(event, first)]


def turn(facts: Facts) -> Turn:
    """Tell what the capture shows of when the server could send."""
    start = facts.start
    if start.is_12:
        return Turn.WAITED  # it has no keys before
    if start.server is None or not start.client_flight:
        return Turn.UNTOLD
    data = facts.channel.first(start.server)
    if early_media(facts):
        return Turn.EARLY
    if data is not None and not facts.vantage.could_follow(data, start.client_flight[0]):
        return Turn.EARLY
    done = facts.stage("dtls_server")
    letter = facts.letter(start.server)
    begun = [facts.stage(f"{what}_{letter}") for what in ("media", "sctp_first")]
    if done is None or not facts.vantage.countable:
        return Turn.UNTOLD
    waits = [stage.own_ms - done.own_ms for stage in begun if stage is not None]
    return Turn.WAITED if waits and min(waits) <= _AT_ONCE_MS else Turn.UNTOLD
