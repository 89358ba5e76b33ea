"""How much redundancy the path is worth: what the peer reports as lost, smoothed.

    report's fraction lost ──▶ up at once, down slowly ──▶ percent for AudioSender.set_expected_loss

The fraction covers the time since the report before (RFC 3550 section 6.4.1): a few dozen packets,
of which a single one is some percent. `rtp_line` is the caller; pure.
"""

from __future__ import annotations

from typing import Final

LEAST_PERCENT: Final = 1
"""Redundancy stays: nobody reports the first loss before it has happened."""
MOST_PERCENT: Final = 25
"""libopus measures out no more for more."""
_UP, _DOWN = 0.5, 0.1


class ExpectedLoss:
    """Follows one peer's reports on what we send."""

    __slots__ = ("_share", "percent")

    def __init__(self, percent: int) -> None:
        """`percent` is expected until somebody has reported."""
        self._share = percent / 100
        self.percent = percent
        """What the encoder is to expect."""

    def receive_report(self, fraction_lost: int) -> None:
        """Take in a report block's fraction, in 256ths; what is no fraction is taken as near."""
        share = min(max(fraction_lost, 0), 255) / 256
        self._share += (share - self._share) * (_UP if share > self._share else _DOWN)
        self.percent = min(max(round(self._share * 100), LEAST_PERCENT), MOST_PERCENT)
