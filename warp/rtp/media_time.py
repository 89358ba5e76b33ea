"""Three clocks and how they meet (RFC 3550 section 4, 6.4.1).

    now          monotonic seconds, what the machines are told
    wall time    seconds since 1970; as NTP time in sender reports
    media time   ticks of a stream's clock rate, 32 bits on the wire, extended here

Used by `sender` for its reports and by `receiver` to place a peer's media on its wall clock.
"""

from __future__ import annotations

from typing import Final

from warp.serial import extend32

NTP_UNIX_OFFSET: Final = 2208988800
"""Seconds from 1900 to 1970 (RFC 5905 section 6)."""


def ntp_from_wall(wall_time_s: float) -> int:
    """Return the 64-bit NTP timestamp of a wall time; it wraps in 2036, as the format does."""
    seconds = int(wall_time_s // 1)
    fraction = int((wall_time_s - seconds) * (1 << 32))
    return ((seconds + NTP_UNIX_OFFSET) << 32 | fraction) & 0xFFFFFFFFFFFFFFFF


def wall_from_ntp(ntp: int) -> float:
    """Return the wall time of a 64-bit NTP timestamp of the era that began in 1900."""
    return (ntp >> 32) - NTP_UNIX_OFFSET + (ntp & 0xFFFFFFFF) / (1 << 32)


def ntp_middle(ntp: int) -> int:
    """Return the middle 32 bits, as used by LSR (RFC 3550 section 6.4.1)."""
    return (ntp >> 16) & 0xFFFFFFFF


def round_trip(now_middle: int, last_report: int, delay: int) -> float | None:
    """Return the round trip in seconds from a report block, or None when it tells nothing.

    All arguments are in units of 1/65536 s (RFC 3550 section 6.4.1). A small negative value is
    rounding and becomes 0; a large one is a clock that jumped.
    """
    if last_report == 0:
        return None
    ticks = (now_middle - last_report - delay) & 0xFFFFFFFF
    if ticks >= 0xFFFF0000:
        return 0.0
    return ticks / 65536 if ticks < 0x80000000 else None


class SenderClock:
    """The peer's mapping from a stream's media time to its wall time, from sender reports."""

    __slots__ = ("_ntp", "_rate", "_timestamp", "last_report", "received_at")

    def __init__(self, clock_rate: int) -> None:
        self._rate = clock_rate
        self._ntp = 0
        self._timestamp = 0
        self.last_report = 0
        """Middle of the newest report's NTP time; 0 when there was none."""
        self.received_at = 0.0

    def receive_report(self, ntp: int, rtp_timestamp: int, now: float) -> None:
        """Take in the time part of a sender report."""
        self._ntp = ntp
        self._timestamp = rtp_timestamp
        self.last_report = ntp_middle(ntp)
        self.received_at = now

    def wall_time(self, timestamp: int) -> float | None:
        """Return when the peer sampled `timestamp` (extended or not), on its own wall clock.

        None before the first sender report.
        """
        if not self._ntp:
            return None
        low = timestamp & 0xFFFFFFFF
        ticks = extend32(low, self._timestamp) - self._timestamp
        return wall_from_ntp(self._ntp) + ticks / self._rate

    def delay_since_report(self, now: float) -> int:
        """Return DLSR in 1/65536 s; 0 when there was no report (RFC 3550 section 6.4.1)."""
        if not self.last_report:
            return 0
        return min(max(int((now - self.received_at) * 65536), 0), 0xFFFFFFFF)
