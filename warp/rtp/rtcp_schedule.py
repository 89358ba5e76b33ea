"""When the next report is due (RFC 3550 section 6.3, appendix A.7).

    interval = max(minimum, members x average size / RTCP bandwidth)
    the first one after half the minimum
    actual   = interval x uniform(0.5, 1.5) / (e - 3/2)

A WebRTC session has two members, so that timer reconsideration and its averages of membership are
constants here. Feedback (NACK, transport-wide) does not wait for it: between two members RFC 4585
section 3.5.2 allows it at once.
"""

from __future__ import annotations

import math
from typing import Final

from warp.entropy import Entropy, random_u32

_COMPENSATION: Final = math.e - 1.5
MEMBERS: Final = 2
BANDWIDTH_BYTES_PER_S: Final = 200.0
"""Five per cent of a voice stream of 32 kbit/s (RFC 3550 section 6.2)."""
_UDP_AND_IP: Final = 28
"""Sizes count the lower layers (RFC 3550 section 6.2)."""


class RtcpSchedule:
    """The timer of one transport's reports."""

    __slots__ = ("_average_size", "_entropy", "_minimum_s", "deadline")

    def __init__(self, minimum_s: float, *, entropy: Entropy) -> None:
        self._minimum_s = minimum_s
        self._entropy = entropy
        self._average_size = 100.0
        self.deadline: float | None = None
        """When the next report is due; None before `start` and after `stop`."""

    def start(self, now: float) -> None:
        """Arm the first report, unless the schedule runs already."""
        if self.deadline is None:
            self.deadline = now + self._randomised(self._minimum_s / 2)

    def stop(self) -> None:
        """Cancel the timer (after a BYE)."""
        self.deadline = None

    def receive_datagram(self, size: int) -> None:
        """Take the size of an RTCP datagram, of either direction, into the average."""
        self._average_size += (size + _UDP_AND_IP - self._average_size) / 16

    def restart(self, now: float) -> None:
        """Arm the next report, after one has been sent."""
        interval = MEMBERS * self._average_size / BANDWIDTH_BYTES_PER_S
        self.deadline = now + self._randomised(max(self._minimum_s, interval))

    def _randomised(self, interval_s: float) -> float:
        uniform = 0.5 + random_u32(self._entropy) / (1 << 32)
        return interval_s * uniform / _COMPENSATION
