"""The retransmission timeout (RFC 9260 section 6.3.1, 6.3.2).

One per association: fed with round trips by `retransmission` and `heartbeat`, doubled by every
timer that expires unanswered.
"""

from __future__ import annotations

from typing import Final

from warp.sctp.config import SctpConfig

_ALPHA: Final = 1 / 8
_BETA: Final = 1 / 4
_LONGEST_SAMPLE_S: Final = 60.0


class Rto:
    """Smoothed round trip and its variation, in seconds."""

    __slots__ = ("_backoff", "_base_s", "_config", "_measured", "rttvar_s", "srtt_s")

    def __init__(self, config: SctpConfig) -> None:
        self._config = config
        self._base_s = config.rto_initial_s
        self._backoff = 0
        self._measured = False
        self.srtt_s: float | None = None
        self.rttvar_s = 0.0

    @property
    def current_s(self) -> float:
        """The timeout to arm now, with the doublings of earlier expiries."""
        if not self._backoff:
            return self._base_s
        cap = max(self._base_s, self._config.rto_backoff_max_s)
        return min(self._base_s * float(1 << self._backoff), cap, self._config.rto_max_s)

    def hint(self, rtt_s: float) -> None:
        """Take a round trip that another layer measured, until we have one of our own."""
        if not self._measured and 0 <= rtt_s <= _LONGEST_SAMPLE_S:
            self.srtt_s, self.rttvar_s = rtt_s, rtt_s / 2
            self._update()

    def measure(self, rtt_s: float) -> None:
        """Take a round trip of a chunk that was sent only once (Karn's rule is the caller's)."""
        if not 0 <= rtt_s <= _LONGEST_SAMPLE_S:
            return
        if self.srtt_s is None or not self._measured:
            self._measured = True
            self.srtt_s, self.rttvar_s = rtt_s, rtt_s / 2
        else:
            self.rttvar_s += _BETA * (abs(self.srtt_s - rtt_s) - self.rttvar_s)
            self.srtt_s += _ALPHA * (rtt_s - self.srtt_s)
        self._update()

    def back_off(self) -> None:
        """Double the timeout: a timer expired (section 6.3.3 rule E2)."""
        self._backoff = min(self._backoff + 1, 16)

    def reset_backoff(self) -> None:
        """Forget the doublings."""
        self._backoff = 0

    def _update(self) -> None:
        config = self._config
        rtt = self.srtt_s or 0.0
        wanted = rtt + 4 * max(self.rttvar_s, config.rtt_variance_floor_s)
        self._base_s = min(max(wanted, config.rto_min_s), config.rto_max_s)
        self._backoff = 0
