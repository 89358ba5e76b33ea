"""Channels on their way out: reset our stream, wait for the peer's reset (RFC 8831 section 6.7).

    close() --> reset asked; the association lets what is queued leave first (RFC 6525)
            --> performed + the peer's reset --> both done
    A peer that never answers meets a deadline, which does not run while data still leaves.

Used by `registry`, which owns the events and the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from warp.datachannel.channel import Channel
from warp.sctp import Association

_MAX_EXPECTED: Final = 1024
_MAX_REFUSED: Final = 1024
_NONE: Final[frozenset[int]] = frozenset()
"""Shared: the sets of almost every session are empty, and hardly ever change."""


class ClosingChannels:
    """Deadlines of closing channels, and refused streams that have no channel."""

    __slots__ = ("_association", "_expected", "_refused", "_timeout_s", "deadlines")

    def __init__(self, association: Association, timeout_s: float) -> None:
        self._association = association
        self._timeout_s = timeout_s
        self.deadlines: dict[Channel, float] = {}
        """Channels whose peer has to answer a reset, and until when."""
        self._refused = _NONE
        self._expected = _NONE

    def begin(self, channel: Channel, stream_id: int, now: float) -> None:
        """Start to close a channel that has a stream."""
        self.deadlines[channel] = now + self._timeout_s
        self._reset(stream_id, now)

    def end(self, channel: Channel) -> None:
        """Forget a channel that is closed."""
        self.deadlines.pop(channel, None)

    def refuse(self, stream_id: int, now: float) -> None:
        """Reset a stream that never became a channel (RFC 8832 section 6).

        A peer that lets so many resets wait for its answer gets no more of them.
        """
        if stream_id not in self._refused and len(self._refused) < _MAX_REFUSED:
            self._refused |= {stream_id}
            self.expect_reset(stream_id)
            self._reset(stream_id, now)

    def answer(self, stream_id: int, now: float) -> None:
        """Reset a stream without a channel because the peer did, so that its close can end.

        It closed a negotiated channel that our application never created. A reset that answers
        ours is not answered again: two sides without a channel would go on for ever.
        """
        if stream_id in self._expected:
            self._expected -= {stream_id}
        else:
            self.refuse(stream_id, now)

    def expect_reset(self, stream_id: int) -> None:
        """Let the next reset of a stream without a channel pass: it answers one of ours."""
        if len(self._expected) >= _MAX_EXPECTED:
            self._expected = _NONE
        self._expected |= {stream_id}

    def note_message(self, stream_id: int) -> None:
        """Note that the peer has a channel where we have none."""
        if stream_id in self._expected:
            self._expected -= {stream_id}

    def _reset(self, stream_id: int, now: float) -> None:
        if self._association.established:  # else its end is already among its events
            self._association.reset_streams([stream_id], now)

    def is_refused(self, stream_id: int) -> bool:
        """Whether a reset of this channel-less stream is under way."""
        return stream_id in self._refused

    def forget_refused(self, stream_ids: Iterable[int]) -> None:
        """Note that these resets are answered."""
        self._refused = self._refused.difference(stream_ids)

    def get_timer(self) -> float | None:
        """Return when the next channel is given up, or None."""
        return min(self.deadlines.values()) if self.deadlines else None

    def expired(self, now: float) -> list[Channel]:
        """Return the channels whose peer took too long, and give the others their new deadline."""
        late = [channel for channel, deadline in self.deadlines.items() if deadline <= now]
        for channel in late:
            if channel.buffered_amount:
                self.deadlines[channel] = now + self._timeout_s
        return [channel for channel in late if not channel.buffered_amount]
