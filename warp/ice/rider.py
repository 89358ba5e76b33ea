"""What may ride in a connectivity check: ICE's side of the bargain with SPED.

ICE never hears of DTLS. Whoever implements `Rider` sees authenticated Binding requests and
success responses and may add attributes to those that leave.

    request ──▶ authenticated ──▶ receive_attributes ──▶ attributes_to_send ──▶ response
                                  (may cause new things to ride in this very response)
"""

from __future__ import annotations

from typing import Protocol

from warp.contract import Flow
from warp.stun import Message, MessageClass

BODY_LIMIT_BYTES = 1168
"""Largest STUN body before MESSAGE-INTEGRITY: 1200 less integrity and FINGERPRINT (24 + 8)."""


class Rider(Protocol):
    """Attributes that travel in checks. No method raises."""

    def receive_attributes(self, message: Message, flow: Flow, now: float) -> None:
        """Take what came in an authenticated Binding request or success response.

        For a request this comes before the response is built; `IceAgent.flow` already counts
        the message.
        """

    def attributes_to_send(
        self, message_class: MessageClass, transaction_id: bytes, flow: Flow, room: int, now: float
    ) -> list[tuple[int, bytes]]:
        """Return attributes for one request or success response.

        `room` is how many bytes they may take with their 4-byte headers and padding. It is
        small when enough check bytes are under way (RFC 8445 appendix B.1).
        """

    def wanted_checks(self) -> int:
        """Return how many checks, sent at once, would carry what waits (1 when in doubt).

        Asked before a check on a pair that has not answered yet; the agent sends at most
        `IceConfig.max_burst_checks`.
        """

    def receive_path(self, flow: Flow, now: float) -> None:
        """Note that a flow has just become usable, valid or selected: send directly on it."""

    def last_heard(self) -> tuple[Flow, float] | None:
        """Return where and when something came last that only the peer can have made just now.

        A check can be recorded and repeated by anybody who sees it; protected media and data
        cannot. None before there are keys.
        """
