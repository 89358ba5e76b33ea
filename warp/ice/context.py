"""What all generations of one agent share: role, entropy, rider, trace, and both ways out."""

from __future__ import annotations

import enum
from typing import Any

from warp.contract import Datagram, Event, Flow
from warp.entropy import Entropy, random_u64
from warp.ice.config import IceConfig, IceRole
from warp.ice.rider import Rider
from warp.redact import redact_address
from warp.trace import Trace


class IceDiscard(enum.Enum):
    """Why an agent threw a STUN message away (beside the reasons of `StunDiscard`)."""

    NOT_RUNNING = "the agent has failed or is closed"
    NOT_BINDING = "the method is not Binding"
    NO_USERNAME = "a request without USERNAME"
    UNKNOWN_USERNAME = "USERNAME names no generation of ours"
    WRONG_INTEGRITY = "MESSAGE-INTEGRITY is absent or wrong"
    UNKNOWN_TRANSACTION = "an answer to no open check"
    UNKNOWN_REQUIRED_ATTRIBUTE = "an answer with an unknown comprehension-required attribute"
    ASYMMETRIC_ANSWER = "the answer came on another flow than its check"


class IceContext:
    """Passed to the machines of a generation; owned by the agent."""

    __slots__ = (
        "config",
        "discards",
        "entropy",
        "fresh_flows",
        "happened",
        "outbox",
        "rider",
        "role",
        "tie_breaker",
        "trace",
    )

    def __init__(
        self,
        config: IceConfig,
        role: IceRole,
        entropy: Entropy,
        trace: Trace | None,
        rider: Rider | None,
    ) -> None:
        self.config = config
        self.role = role
        self.entropy = entropy
        self.trace = trace
        self.rider = rider
        # a lite agent never compares it: it cannot control
        self.tie_breaker = 0 if config.lite else random_u64(entropy)
        self.outbox: list[Datagram] = []
        self.happened: list[Event] = []
        self.fresh_flows: list[Flow] = []
        self.discards: dict[enum.Enum, int] = {}

    def draw_tie_breaker(self) -> None:
        """Take a new one after a conflict was lost (RFC 8445 section 7.2.5.1)."""
        self.tie_breaker = random_u64(self.entropy)

    def emit(self, now: float, name: str, flow: Flow | None = None, **data: Any) -> None:
        """Trace one event; callers on the hot path guard with `if context.trace is not None`."""
        if self.trace is None:
            return
        if flow is not None:
            data["local"] = f"{redact_address(flow.local[0])}:{flow.local[1]}"
            data["remote"] = f"{redact_address(flow.remote[0])}:{flow.remote[1]}"
        self.trace.emit(now, name, data)

    def announce(self, flow: Flow) -> None:
        """Let the rider know of a usable flow, once the message at hand is dealt with."""
        if flow not in self.fresh_flows:
            self.fresh_flows.append(flow)

    def count(self, reason: enum.Enum, now: float) -> None:
        """Count and trace one discarded datagram."""
        self.discards[reason] = self.discards.get(reason, 0) + 1
        self.emit(now, "ice:discarded", reason=reason.value)
