"""A STUN client transaction over UDP: one request, repeated until answered (RFC 8489 6.2.1).

Used where a request is retransmitted (server-reflexive discovery, consent to a STUN server);
connectivity checks of ICE pace themselves. Retransmissions are the same bytes.

    start ── request ──▶        at 0, RTO, 3 RTO, 7 RTO, ... (`request_count` in all)
          ◀── response ── SUCCEEDED | FAILED (error response)
          `final_wait_rtos` x RTO after the last request: TIMED_OUT
"""

from __future__ import annotations

from dataclasses import dataclass

from warp.names import Name
from warp.stun.message import Message, MessageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The retransmission schedule."""

    initial_rto_s: float = 0.5  # RFC 8489 section 6.2.1
    request_count: int = 7  # Rc, RFC 8489 section 6.2.1
    final_wait_rtos: int = 16  # Rm, RFC 8489 section 6.2.1


class TransactionState(Name):
    """How far a transaction is."""

    IDLE = "idle"
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"


class ClientTransaction:
    """One request and its response. `response` and `rtt_s` are set once it is settled."""

    __slots__ = (
        "_config",
        "_deadline",
        "_due",
        "_first_sent",
        "_rto_s",
        "_sent",
        "method",
        "request",
        "response",
        "rtt_s",
        "state",
        "transaction_id",
    )

    def __init__(self, request: bytes, method: int, config: TransactionConfig) -> None:
        self.request = request
        self.method = method
        self.transaction_id = request[8:20]
        self.state = TransactionState.IDLE
        self.response: Message | None = None
        self.rtt_s: float | None = None
        self._config = config
        self._rto_s = config.initial_rto_s
        self._sent = 0
        self._due = False
        self._first_sent = 0.0
        self._deadline: float | None = None

    def start(self, now: float) -> None:
        """Send the request for the first time; harmless when already started."""
        if self.state is TransactionState.IDLE:
            self.state = TransactionState.PENDING
            self._first_sent = now
            self._send(now)

    def _send(self, now: float) -> None:
        self._due = True
        self._sent += 1
        if self._sent < self._config.request_count:
            self._deadline = now + self._rto_s
            self._rto_s *= 2
        else:
            self._deadline = now + self._config.final_wait_rtos * self._config.initial_rto_s

    def receive_message(self, message: Message, now: float) -> bool:
        """Take a response; returns whether it settled this transaction.

        The caller has verified integrity where the request had it (RFC 8489 section 9.1.4).
        """
        if (
            self.state is not TransactionState.PENDING
            or message.transaction_id != self.transaction_id
            or message.method != self.method
            or message.message_class not in (MessageClass.SUCCESS, MessageClass.ERROR)
        ):
            return False
        self.response = message
        if self._sent == 1:  # a repeated request has no unambiguous round trip (Karn)
            self.rtt_s = now - self._first_sent
        success = message.message_class is MessageClass.SUCCESS
        self._settle(TransactionState.SUCCEEDED if success else TransactionState.FAILED)
        return True

    def _settle(self, state: TransactionState) -> None:
        self.state = state
        self._deadline = None
        self._due = False

    def datagrams_to_send(self, now: float) -> list[bytes]:
        """Drain the request when it is due."""
        if not self._due:
            return []
        self._due = False
        return [self.request]

    def get_timer(self) -> float | None:
        """Return when to repeat or give up, or None."""
        return self._deadline

    def handle_timer(self, now: float) -> None:
        """Repeat the request, or give up after the last wait."""
        if self._deadline is None or now < self._deadline:
            return
        if self._sent >= self._config.request_count:
            self._settle(TransactionState.TIMED_OUT)
        else:
            self._send(now)
