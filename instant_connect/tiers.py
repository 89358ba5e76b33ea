"""What has been proven of a client, and what may be spent on it before more is.

     T0 ANSWERED ─ hello ─▶ T1 SHAKING ─ answers ours ─▶ T2 REACHABLE ─ Finished ─▶ T3 PROVEN
                                 └──────────── Finished (says both) ─────────────────┘   │
                                                        POST attached, or 30 s ─▶ T4 CONFIRMED

A first datagram can be recorded and sent again by whoever sees it, from any address. So nothing
that costs anybody anything may follow from it alone; all of that begins at T3 (the reasoning of
RFC 8446 section 8 and RFC 9000 section 8.1). Called by `sessions`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from warp.names import Name
from warp.peer import SendPermission
from warp.trace import Trace


class Tier(enum.IntEnum):
    """How much is proven. Each tier includes those below it."""

    ANSWERED = 0
    SHAKING = 1
    REACHABLE = 2
    PROVEN = 3
    CONFIRMED = 4


class Input(Name):
    """What raises the tier."""

    HELLO_SEEN = "the client's handshake has begun"
    REACHED = "it has answered what only a receiver of ours can know"
    AUTHENTICATED = "its Finished is right, and its certificate the one of the ticket"
    ATTACHED = "its offer has come by signalling"
    WAITED = "signalling has had its time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What one tier allows. Later tiers allow what earlier ones do."""

    proven: str
    amplification: int | None  # bytes sent for each byte received on an address; None: no limit
    keeps: str  # the most that is held in memory
    dtls: bool = False  # a handshake is worth its arithmetic
    media: SendPermission = SendPermission.NONE
    admits: bool = False  # reserve the model, start billing, open events, run tools
    durable: bool = False  # give out the call's id, survive a lost path


ALLOWANCES: Final[Mapping[Tier, Allowance]] = {
    Tier.ANSWERED: Allowance(
        proven="somebody holds the ticket and its password, or has recorded who does",
        amplification=1,
        keeps="its last check on each address",
    ),
    Tier.SHAKING: Allowance(
        proven="the same",
        amplification=3,
        keeps="a connection without media",
        dtls=True,
        media=SendPermission.NON_PERSONAL,
    ),
    Tier.REACHABLE: Allowance(
        proven="it receives what is sent to this address",
        amplification=None,
        keeps="a connection without media",
        dtls=True,
        media=SendPermission.NON_PERSONAL,
    ),
    Tier.PROVEN: Allowance(
        proven="it has the key of the ticket's certificate",
        amplification=None,
        keeps="a session",
        dtls=True,
        media=SendPermission.ALL,
        admits=True,
    ),
    Tier.CONFIRMED: Allowance(
        proven="its application has heard of the session by another way, or never will",
        amplification=None,
        keeps="a session",
        dtls=True,
        media=SendPermission.ALL,
        admits=True,
        durable=True,
    ),
}

TRANSITIONS: Final[Mapping[tuple[Tier, Input], Tier]] = {
    (Tier.ANSWERED, Input.HELLO_SEEN): Tier.SHAKING,
    (Tier.SHAKING, Input.REACHED): Tier.REACHABLE,
    (Tier.SHAKING, Input.AUTHENTICATED): Tier.PROVEN,
    (Tier.REACHABLE, Input.AUTHENTICATED): Tier.PROVEN,
    (Tier.PROVEN, Input.ATTACHED): Tier.CONFIRMED,
    (Tier.PROVEN, Input.WAITED): Tier.CONFIRMED,
}


class Standing:
    """The tier of one session, and until when it has to reach the next."""

    __slots__ = ("_confirm_after_s", "_is_attached", "_trace", "deadline", "tier")

    def __init__(
        self,
        now: float,
        *,
        half_open_s: float,
        confirm_after_s: float,
        trace: Trace | None = None,
    ) -> None:
        """A session that begins with its client's hello at `now`."""
        self._confirm_after_s = confirm_after_s
        self._trace = trace
        self._is_attached = False
        self.tier = Tier.ANSWERED
        self.deadline: float | None = now + half_open_s
        """When the present tier has lasted long enough; None at the last one."""
        self.receive(Input.HELLO_SEEN, now)

    @property
    def allowance(self) -> Allowance:
        """What may be spent now."""
        return ALLOWANCES[self.tier]

    @property
    def is_attached(self) -> bool:
        """Whether the client's offer has come, at whatever tier."""
        return self._is_attached

    def receive(self, why: Input, now: float) -> None:
        """Take in what has happened; what does not fit the present tier changes nothing.

        An offer may come before its session is proven: it counts from then on.
        """
        self._is_attached |= why is Input.ATTACHED
        tier = TRANSITIONS.get((self.tier, why))
        if tier is None:
            return
        self._become(tier, why, now)
        if tier is Tier.PROVEN:
            self.deadline = now + self._confirm_after_s
            if self._is_attached:
                self._become(Tier.CONFIRMED, Input.ATTACHED, now)

    def _become(self, tier: Tier, why: Input, now: float) -> None:
        self.tier = tier
        if tier is Tier.CONFIRMED:
            self.deadline = None
        if self._trace is not None:
            self._trace.emit(now, "instant:tier_reached", {"tier": tier.name, "why": why.value})
