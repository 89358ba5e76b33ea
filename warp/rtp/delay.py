"""How long packets take, as far as one end can tell: the base, the jitter above it, clock drift.

    arrival - timestamp = transit, of unknown origin ──▶ smallest lately: the base
                                                   └───▶ 95 % stay below base + spread

The spread is what a jitter buffer has to wait for (RFC 3550 section 6.4.1 has the mean, which says
nothing of the worst). `warp.rtp.jitter` is the caller. Bounded by its window.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

_FEWEST = 50
_MOST = 512
_OLDEST_S = 60.0
_TREND_S = 1.0
_TREND_POINTS = 60


class DelayMeter:
    """Transit times of the last packets, in ticks of the media clock."""

    __slots__ = ("_arrivals", "_quantile", "_sorted", "_trend", "_window_s")

    def __init__(self, window_s: float, quantile: float) -> None:
        self._window_s = window_s
        self._quantile = quantile
        self._arrivals: deque[tuple[float, int]] = deque()
        self._sorted: list[int] = []
        self._trend: deque[tuple[float, int]] = deque(maxlen=_TREND_POINTS)

    def add(self, transit: int, now: float) -> float:
        """Take in one packet's arrival minus its timestamp; returns the time since the last."""
        arrivals, ordered = self._arrivals, self._sorted
        passed = max(now - arrivals[-1][0], 0.0) if arrivals else 0.0
        while arrivals:
            age = now - arrivals[0][0]
            # a sparse stream (DTX) is judged by its last packets, lest one of them be the base
            if len(arrivals) < _MOST and (
                age <= self._window_s or (len(arrivals) < _FEWEST and age <= _OLDEST_S)
            ):
                break
            del ordered[bisect_left(ordered, arrivals.popleft()[1])]
        arrivals.append((now, transit))
        insort(ordered, transit)
        trend = self._trend
        if not trend or now - trend[-1][0] >= _TREND_S:
            trend.append((now, transit))
        elif transit < trend[-1][1]:
            trend[-1] = (trend[-1][0], transit)
        return passed

    def clear(self) -> None:
        """Forget everything: another source follows."""
        self._arrivals.clear()
        self._sorted.clear()
        self._trend.clear()

    @property
    def known(self) -> bool:
        """Whether a packet has been measured."""
        return bool(self._sorted)

    @property
    def base(self) -> int:
        """The shortest transit lately; 0 before the first packet."""
        return self._sorted[0] if self._sorted else 0

    @property
    def spread(self) -> int:
        """Ticks above the base within which the quantile of packets arrives."""
        ordered = self._sorted
        if not ordered:
            return 0
        return ordered[min(int(self._quantile * len(ordered)), len(ordered) - 1)] - ordered[0]

    def drift_ppm(self, clock_rate: int) -> float | None:
        """By how much the peer's clock runs fast (negative: slow); None within ten seconds.

        The slope of each second's shortest transit, over the last minute.
        """
        points = list(self._trend)[:-1]
        if len(points) < 10:
            return None
        mean_t = sum(t for t, _ in points) / len(points)
        mean_x = sum(x for _, x in points) / len(points)
        spread = sum((t - mean_t) ** 2 for t, _ in points)
        slope = sum((t - mean_t) * (x - mean_x) for t, x in points) / spread
        return -slope / clock_rate * 1e6
