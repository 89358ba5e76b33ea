"""What can be seen of a call on its wire, whoever the peer is."""

from __future__ import annotations

import asyncio

from interop.wire import Rung, Wire
from warp.stun import Attribute
from warp_tools.dissect import dtls_contents

MOST_ACKNOWLEDGED = 4
LARGEST_RIDER = 900
LARGEST_CARRIER = 1220
"""Chromium leaves a rider out of what is larger; so that is the most that anybody expects."""


def dtls_in(rung: Rung) -> str:
    """Name the DTLS messages of a datagram, bare or riding; an empty text when there are none."""
    if rung.rider:
        return dtls_contents(rung.rider)
    return dtls_contents(rung.data) if rung.is_dtls else ""


def first(wire: Wire, *, ours: bool, contents: str) -> Rung:
    """Return the first datagram of one side with this DTLS message, bare or riding."""
    return next(r for r in list(wire.rungs) if r.ours is ours and contents in dtls_in(r))


def generations(wire: Wire, *, ours: bool) -> set[bytes]:
    """Return the ufrags of its own that one side has checked with."""
    checks = [r.message for r in list(wire.rungs) if r.ours is ours and r.is_check]
    return {(m.get(Attribute.USERNAME) or b":").split(b":")[1] for m in checks if m is not None}


async def checked_with(wire: Wire, number: int, *, ours: bool) -> None:
    """Wait until one side has used so many ufrags."""
    while len(generations(wire, ours=ours)) < number:
        await asyncio.sleep(0.01)


def check_attributes(wire: Wire) -> int:
    """Fail for any STUN message of ours that could hurt a peer; returns how many were looked at.

    An acknowledgement of another length than a multiple of four crashes Chromium's renderer when
    it answers a check that carries DTLS; attributes behind MESSAGE-INTEGRITY are not covered by it.
    """
    messages = [r.message for r in list(wire.rungs) if r.ours and r.message is not None]
    for message in messages:
        assert message.has_integrity
        kinds = [kind for kind, _ in message.attributes]
        assert len(set(kinds)) == len(kinds)
        acknowledged = message.get(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)
        rider = message.get(Attribute.META_DTLS_IN_STUN)
        if acknowledged is not None:
            assert len(acknowledged) % 4 == 0
            assert len(acknowledged) <= 4 * MOST_ACKNOWLEDGED
        if rider is not None:
            assert acknowledged is not None
            assert 0 < len(rider) <= LARGEST_RIDER
            assert 20 <= rider[0] <= 63
            assert len(message.raw) <= LARGEST_CARRIER
    return len(messages)
