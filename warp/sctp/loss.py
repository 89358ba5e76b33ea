"""Which TSNs are missing, judged by what the peer has reported (RFC 9260 section 7.2.4).

Owned by `retransmission`. A missing TSN is looked at only until it has been reported three times;
one that was sent again counts reports about later transmissions only, so a lost retransmission is
found too, without a storm.

    hole below a gap block ──3 SACKs with news above it──▶ lost ──sent again──▶ resent
         ▲──────────────── news about a TSN that was sent after it ────────────────┘
"""

from __future__ import annotations

from typing import Final

_INDICATIONS: Final = 3


class LossDetector:
    """Counts miss indications, and keeps what is to be sent again."""

    __slots__ = ("_counts", "_resent", "highest", "lost")

    def __init__(self, cumulative_acked: int) -> None:
        self._counts: dict[int, int] = {}
        self._resent: list[tuple[int, int]] = []
        self.lost: list[int] = []
        """Heap of TSNs to send again; may name some that need it no more."""
        self.highest = cumulative_acked
        """Highest TSN known to have arrived: every hole below it has been noted."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self._counts and not self._resent

    def note_hole(self, tsn: int) -> None:
        """A TSN that later ones have overtaken."""
        self._counts[tsn] = 0

    def note_resent(self, tsn: int, next_tsn: int) -> None:
        """A TSN left again; only news about `next_tsn` and later can tell of its new loss."""
        self._resent.append((next_tsn, tsn))

    def note_acked(self, tsn: int) -> None:
        """A TSN has arrived or was given up."""
        self._counts.pop(tsn, None)

    def forget(self) -> None:
        """Everything in flight is about to be declared lost: counting starts anew."""
        self._counts.clear()
        self._resent.clear()

    def count(self, newest_acked: int, *, all_holes: bool) -> list[int]:
        """Count one SACK whose highest newly acked TSN is this; return the TSNs now lost.

        `all_holes`: in fast recovery a SACK that moves the cumulative point counts for every hole
        it reports, not only for those below the newest.
        """
        resent = self._resent
        if resent and resent[0][0] <= newest_acked:
            news = [tsn for since, tsn in resent if since <= newest_acked]  # they are in order
            self._counts.update(dict.fromkeys(news, 0))
            del resent[: len(news)]
        counts = self._counts
        lost = []
        for tsn, seen in counts.items():
            if tsn < newest_acked or all_holes:
                counts[tsn] = seen + 1
                if seen + 1 >= _INDICATIONS:
                    lost.append(tsn)
        for tsn in lost:
            del counts[tsn]
        return sorted(lost)
