"""The congestion window: slow start, avoidance, fast recovery (RFC 9260 section 7.2).

Owned by `retransmission`, which reports acknowledgements, losses and timeouts.

    slow start ──loss──▶ fast recovery ──exit TSN acked──▶ avoidance ──T3──▶ slow start (1 MTU)
"""

from __future__ import annotations

from warp.sctp.config import SctpConfig


class CongestionControl:
    """How many bytes may be in flight, and how many packets may leave in one go.

    Sizes count chunk headers and padding.
    """

    __slots__ = (
        "_floor",
        "_max_burst",
        "_partial",
        "_restart",
        "burst",
        "cwnd",
        "free_packet",
        "last_sent_at",
        "mtu",
        "recovery_exit",
        "ssthresh",
    )

    def __init__(self, config: SctpConfig, peer_rwnd: int) -> None:
        self.mtu = config.mtu
        self._floor = config.min_cwnd_packets * config.mtu
        self._restart = config.initial_cwnd_packets * config.mtu
        self._max_burst = config.max_burst_packets
        self._partial = 0
        self.cwnd = self._restart
        self.ssthresh = max(peer_rwnd, self._floor)
        self.recovery_exit: int | None = None
        """Highest TSN outstanding when fast recovery began; None outside it."""
        self.free_packet = False
        """The first packet of a fast retransmit leaves whatever the window says (7.2.4)."""
        self.burst = self._max_burst
        """New packets that may leave before the next SACK (section 6.1 rule D)."""
        self.last_sent_at: float | None = None

    def receive_sack(self, acked_bytes: int) -> None:
        """A SACK is a send opportunity; several may come in before the next drain.

        What has left the network may be replaced, and a burst come on top: a receiver that reads
        in batches acknowledges many packets at once, and must not be answered by a trickle.
        """
        self.burst += self._max_burst + round(acked_bytes / self.mtu)

    def receive_ack(self, acked_bytes: int, flight_before: int) -> None:
        """Grow, after a SACK that moved the cumulative point; only if the window was in use."""
        if self.recovery_exit is not None or flight_before + self.mtu < self.cwnd:
            return
        if self.cwnd <= self.ssthresh:
            # appropriate byte counting without a cap per SACK (RFC 3465): receivers that read in
            # batches acknowledge many packets at once; bursts are limited where they are sent
            self.cwnd += min(acked_bytes, max(flight_before, self.mtu))
            return
        self._partial += acked_bytes
        if self._partial >= self.cwnd:
            self._partial -= self.cwnd
            self.cwnd += self.mtu

    def handle_loss(self, highest_outstanding: int) -> None:
        """Halve, once per window of losses (section 7.2.4)."""
        if self.recovery_exit is not None:
            return
        self.ssthresh = max(self.cwnd // 2, self._floor)
        self.cwnd = self.ssthresh
        self._partial = 0
        self.recovery_exit = highest_outstanding
        self.free_packet = True

    def handle_cumulative_ack(self, cumulative: int) -> None:
        """Leave fast recovery when everything that was outstanding at its start is acked."""
        if self.recovery_exit is not None and cumulative >= self.recovery_exit:
            self.recovery_exit = None
            self.free_packet = False

    def handle_timeout(self) -> None:
        """Fall back to one packet: T3 expired (section 7.2.3); fast recovery is over too."""
        self.ssthresh = max(self.cwnd // 2, self._floor)
        self.cwnd = self.mtu
        self._partial = 0
        self.recovery_exit = None
        self.free_packet = False
        self.burst = self._max_burst

    def begin_flight(self, rto_s: float, now: float) -> None:
        """Nothing is in flight: a new burst, and a window that has decayed (section 7.2.1)."""
        self.burst = max(self.burst, self._max_burst)
        if self.last_sent_at is not None and self.cwnd > self._restart:
            idle_rtos = int((now - self.last_sent_at) / rto_s)
            self.cwnd = max(self.cwnd >> min(max(idle_rtos, 0), 32), self._restart)

    def handle_sent(self, packets: int, now: float) -> None:
        """A send opportunity is over; so many packets with new data have left in it."""
        if packets:
            self.last_sent_at = now
        burst, limit = self.burst - packets, self._max_burst
        self.burst = limit if burst > limit else max(burst, 0)
