"""Watching the path: heartbeats and the count of timeouts in a row (RFC 9260 section 8.1-8.3).

One path an association, since ICE chooses the addresses below. A heartbeat is sent when nothing
else would show that the peer is there: after a long silence, and right after a start without
handshake.
"""

from __future__ import annotations

from warp.entropy import Entropy
from warp.sctp.chunks import ChunkType, encode_chunk
from warp.sctp.config import SctpConfig
from warp.sctp.parameters import ParameterType, encode_parameter
from warp.sctp.retransmission import SctpTimer
from warp.sctp.rto import Rto
from warp.timers import TimerTable

_NONCE_SIZE = 8


class Path:
    """Round trip times, errors in a row, heartbeats."""

    __slots__ = ("_entropy", "_interval_s", "_limit", "_probe", "_timers", "errors", "rto")

    def __init__(self, config: SctpConfig, entropy: Entropy, timers: TimerTable[SctpTimer]) -> None:
        self.rto = Rto(config)
        self.errors = 0
        """Timeouts since the peer last showed a sign of life."""
        self._entropy = entropy
        self._interval_s = config.heartbeat_interval_s
        self._limit = config.max_retransmissions
        self._probe: tuple[bytes, float] | None = None
        """Nonce of the heartbeat that is not yet answered, and when it left."""
        self._timers = timers

    def start(self, now: float, *, first_s: float | None = None) -> None:
        """Begin to watch; the first heartbeat may be wanted sooner than the others."""
        self._probe = None
        self.errors = 0
        self.rto.reset_backoff()
        if first_s is not None and self._interval_s is not None:
            self._timers.arm(SctpTimer.HEARTBEAT, now + first_s)
        else:
            self._arm_interval(now)

    def count_error(self) -> bool:
        """A timer expired unanswered; tell whether the limit is exceeded (section 8.1)."""
        self.errors += 1
        return self._limit is not None and self.errors > self._limit

    def reset_errors(self) -> None:
        """The peer has acknowledged something."""
        self.errors = 0

    def probe(self, now: float) -> bytes:
        """Return a HEARTBEAT chunk to send now."""
        nonce = self._entropy.random_bytes(_NONCE_SIZE)
        self._probe = (nonce, now)
        self._timers.arm(SctpTimer.HEARTBEAT, now + self.rto.current_s)
        info = encode_parameter(ParameterType.HEARTBEAT_INFO, nonce)
        return encode_chunk(ChunkType.HEARTBEAT, 0, info)

    def handle_timeout(self, now: float, *, idle: bool) -> tuple[bytes | None, bool]:
        """Return the heartbeat to send, if any, and whether the peer is to be given up.

        While data is in flight its own timer watches the path (section 8.3: idle only).
        """
        failed = False
        if self._probe is not None:
            self._probe = None
            self.rto.back_off()
            failed = self.count_error()
        if failed or not idle:
            self._arm_interval(now)
            return None, failed
        return self.probe(now), False

    def receive_ack(self, body: bytes, now: float) -> bool:
        """Take in a HEARTBEAT ACK; tell whether it answers our probe."""
        if self._probe is None:
            return False
        nonce, sent_at = self._probe
        if body[: _NONCE_SIZE + 4] != encode_parameter(ParameterType.HEARTBEAT_INFO, nonce):
            return False
        self._probe = None
        self.reset_errors()
        self.rto.measure(now - sent_at)
        self._arm_interval(now)
        return True

    def _arm_interval(self, now: float) -> None:
        if self._interval_s is None:
            self._timers.cancel(SctpTimer.HEARTBEAT)
        else:
            self._timers.arm(SctpTimer.HEARTBEAT, now + self._interval_s + self.rto.current_s)
