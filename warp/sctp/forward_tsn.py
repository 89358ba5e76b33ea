"""Giving up on messages: the sender's half of partial reliability (RFC 3758 section 3.5).

Owned by `retransmission`, which marks the fragments; here is kept which messages were abandoned and
when the peer was last told.

    abandoned ──▶ advanced point moves ──▶ FORWARD-TSN ──(rate limit, T3)──▶ again until acked
"""

from __future__ import annotations

from typing import Final

from warp.sctp.chunks import (
    ForwardTsn,
    Skip,
    encode_forward_tsn,
    encode_i_forward_tsn,
)
from warp.sctp.outbound import Message
from warp.sctp.packet import COMMON_HEADER_SIZE
from warp.sctp.sack import MASK32

_LONGEST_PAUSE_S: Final = 0.2
"""RFC 3758 section 3.5 rule C3: at least this often, or once a round trip."""


class Abandonment:
    """The Advanced Peer Ack Point, and what the peer must be told about the streams it skips."""

    __slots__ = ("_interleaving", "_messages", "_sent_at", "_urgent", "point")

    def __init__(self, cumulative_acked: int, *, interleaving: bool) -> None:
        self.point = cumulative_acked
        self._interleaving = interleaving
        self._messages: list[Message] = []
        self._sent_at: float | None = None
        self._urgent = False

    @property
    def is_empty(self) -> bool:
        """Whether no abandoned message is left that the peer might wait for."""
        return not self._messages

    def note(self, message: Message) -> None:
        """A message was abandoned; its last TSN is final."""
        self._messages.append(message)

    def advance(self, point: int) -> None:
        """Move the point: everything up to it was abandoned or has arrived."""
        if point > self.point:
            self.point = point
            self._urgent = True

    def handle_cumulative_ack(self, cumulative: int) -> None:
        """The peer has moved on; what it passed needs no more telling."""
        self.point = max(self.point, cumulative)
        if self._messages:
            self._messages = [m for m in self._messages if m.last_tsn > cumulative]

    def handle_timeout(self) -> None:
        """T3 expired: whatever was said may have been lost."""
        self._urgent = True

    def is_due(self, cumulative: int, srtt_s: float | None, now: float) -> bool:
        """Tell whether a FORWARD-TSN has to leave now."""
        if self.point <= cumulative:
            return False
        if self._urgent or self._sent_at is None:
            return True
        return now - self._sent_at >= min(_LONGEST_PAUSE_S, srtt_s or _LONGEST_PAUSE_S)

    def build(self, mtu: int, now: float) -> bytes:
        """Return the chunk; when there are too many streams for one packet, it goes less far.

        Names every abandoned message that has a TSN up to the point and is not wholly behind the
        peer's cumulative point.
        """
        self._urgent = False
        self._sent_at = now
        entry = 8 if self._interleaving else 4
        room = (mtu - COMMON_HEADER_SIZE - 8) // entry
        point = self.point
        skips: dict[tuple[int, bool], int] = {}
        for message in sorted(self._messages, key=lambda m: m.first_tsn):
            if message.first_tsn > point:
                break
            # a message counts as soon as the point passes a part of it: with interleaving the
            # receiver may come to its last TSN without being told again
            if not self._interleaving and not message.ordered:
                continue
            key = (message.stream.stream_id, not message.ordered)
            if key not in skips and len(skips) == room:
                point = message.first_tsn - 1
                self._urgent = True
                break
            skips[key] = message.sequence
        chunk = ForwardTsn(point & MASK32, tuple(Skip(*k, seq) for k, seq in skips.items()))
        return encode_i_forward_tsn(chunk) if self._interleaving else encode_forward_tsn(chunk)
