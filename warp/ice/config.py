"""What an ICE agent is told once, and the two small enums that go with it.

Values only: credentials, entropy, trace and rider are constructor arguments of `IceAgent`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from warp.errors import InvalidConfig
from warp.names import Name


class IceRole(Name):
    """Who picks the pair (RFC 8445 section 6.1.1)."""

    CONTROLLING = "controlling"
    CONTROLLED = "controlled"

    @property
    def opposite(self) -> IceRole:
        """The peer's role."""
        if self is IceRole.CONTROLLING:
            return IceRole.CONTROLLED
        return IceRole.CONTROLLING


class Nomination(enum.Enum):
    """When a controlling agent nominates."""

    FIRST_VALID = "first valid"
    """As soon as a pair answered; a relayed one waits `relay_wait_s` for something better."""
    WAIT = "wait"
    """`nomination_wait_s` after the first valid pair, or when no better pair is left."""
    EVERY_CHECK = "every check"
    """USE-CANDIDATE in every check to a full peer, as RFC 5245 agents and browsers do."""
    BY_APPLICATION = "by application"
    """Only `IceAgent.nominate` nominates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IceConfig:
    """How an agent behaves. The defaults are meant for a live call."""

    lite: bool = False
    """Only answer checks (RFC 8445 section 2.5): for a server with a public address."""
    nomination: Nomination = Nomination.FIRST_VALID
    nomination_wait_s: float = 1.0
    relay_wait_s: float = 0.5
    nomination_settle_s: float = 0.5
    """So long after a selection, USE-CANDIDATE on a lesser pair is taken for an aggressive
    peer's leftover; later it moves the selection."""
    check_interval_s: float = 0.05  # Ta, RFC 8445 section 14.2
    steady_checks: int = 20
    """Checks of one pair at the steady interval; afterwards the interval doubles."""
    max_check_interval_s: float = 1.0
    patience_s: float = 39.5  # RFC 8863 section 4: a pair's life, and how long an agent waits
    consent_interval_s: float = 5.0  # randomised by 0.8 to 1.2, RFC 7675 section 5.1
    consent_timeout_s: float = 30.0  # RFC 7675 section 5.1
    disconnected_after_s: float = 8.0
    lite_follow_after_s: float | None = 8.0
    """A lite agent follows any authenticated request to a new flow once the selected one has
    been silent for so long (more than a consent interval); None waits for USE-CANDIDATE."""
    max_pairs: int = 100  # RFC 8445 section 6.1.2.5
    max_remote_candidates: int = 64
    max_learned_candidates: int = 16
    """Peer-reflexive remote candidates kept (full), or flows remembered (lite)."""
    max_burst_checks: int = 4
    outstanding_bytes: int = 14_600  # RFC 8445 appendix B.1: checks under way at any moment
    outstanding_s: float = 1.0
    """How long an unanswered check counts as under way."""

    def __post_init__(self) -> None:
        if self.check_interval_s < 0.005:
            raise InvalidConfig("check_interval_s is at least 0.005 (RFC 8445 section 14.2)")
        if not 0 < self.consent_interval_s < self.consent_timeout_s:
            raise InvalidConfig("consent_interval_s lies between 0 and consent_timeout_s")
        counts = (self.steady_checks, self.max_pairs, self.max_remote_candidates)
        if min(*counts, self.max_learned_candidates, self.max_burst_checks) < 1:
            raise InvalidConfig("a limit of an ICE agent is at least 1")
