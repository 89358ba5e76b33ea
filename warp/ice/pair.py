"""Candidate pairs and their states (RFC 8445 sections 6.1.2.3 and 6.1.2.6).

FROZEN ──unfrozen──▶ WAITING ──check sent──▶ IN_PROGRESS ──answered──▶ SUCCEEDED
   ▲                    ▲ ▲                       │ │
   └──────parked────────┘ └──triggered, revived───┘ └──timed out, refused──▶ FAILED
"""

from __future__ import annotations

from warp.contract import Address, Flow
from warp.errors import InternalError
from warp.ice.candidate import Candidate, CandidateType, peer_reflexive_priority
from warp.ice.config import IceRole
from warp.names import Name


class PairState(Name):
    """How far the checks of a pair have come."""

    FROZEN = "frozen"
    WAITING = "waiting"
    IN_PROGRESS = "in progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class PairInput(Name):
    """What moves a pair."""

    UNFROZEN = "unfrozen"
    TRIGGERED = "triggered"
    CHECK_SENT = "check sent"
    ANSWERED = "answered"
    REFUSED = "refused"
    PARKED = "parked"


_S, _I = PairState, PairInput
TRANSITIONS: dict[tuple[PairState, PairInput], PairState] = {
    (_S.FROZEN, _I.UNFROZEN): _S.WAITING,
    (_S.FROZEN, _I.TRIGGERED): _S.WAITING,
    (_S.FAILED, _I.TRIGGERED): _S.WAITING,
    (_S.IN_PROGRESS, _I.TRIGGERED): _S.WAITING,
    (_S.FROZEN, _I.CHECK_SENT): _S.IN_PROGRESS,
    (_S.WAITING, _I.CHECK_SENT): _S.IN_PROGRESS,
    (_S.FAILED, _I.CHECK_SENT): _S.IN_PROGRESS,
    **{(state, _I.ANSWERED): _S.SUCCEEDED for state in PairState},
    **{(state, _I.REFUSED): _S.FAILED for state in PairState},
    (_S.WAITING, _I.PARKED): _S.FROZEN,
    (_S.IN_PROGRESS, _I.PARKED): _S.FROZEN,
}
"""A pair stays where it is for every other input."""


def pair_priority(local: int, remote: int, role: IceRole) -> int:
    """Return the pair's priority from both candidates' (RFC 8445 section 6.1.2.3)."""
    controlling, controlled = (local, remote) if role is IceRole.CONTROLLING else (remote, local)
    if controlling > controlled:
        return (controlled << 32) + 2 * controlling + 1
    return (controlling << 32) + 2 * controlled


class CandidatePair:
    """A local base and a remote candidate, with what its checks have told."""

    __slots__ = (
        "checked_at",
        "checks",
        "due_at",
        "flow",
        "last_request_at",
        "last_response_at",
        "local",
        "mapped_address",
        "nominated",
        "priority",
        "remote",
        "rtt_s",
        "started_at",
        "state",
    )

    def __init__(self, flow: Flow, local: Candidate, remote: Candidate, role: IceRole) -> None:
        self.flow = flow
        self.local = local
        self.remote = remote
        self.priority = pair_priority(local.priority, remote.priority, role)
        self.state = PairState.FROZEN
        self.checks = 0
        """Checks sent since the last answer."""
        self.started_at: float | None = None
        self.checked_at: float | None = None
        self.due_at = 0.0
        self.last_response_at: float | None = None
        self.last_request_at: float | None = None
        self.rtt_s: float | None = None
        self.nominated = False
        """The peer's USE-CANDIDATE came, maybe before the pair was valid."""
        self.mapped_address: Address | None = None

    @property
    def foundation(self) -> tuple[str, str]:
        """Both candidates' foundations."""
        return self.local.foundation, self.remote.foundation

    @property
    def is_relayed(self) -> bool:
        """Whether media would take the detour of a TURN server of either side."""
        relayed = CandidateType.RELAYED
        return self.local.type is relayed or self.remote.type is relayed

    @property
    def is_open(self) -> bool:
        """Whether its checks have neither succeeded nor failed."""
        return self.state not in (PairState.SUCCEEDED, PairState.FAILED)

    @property
    def check_priority(self) -> int:
        """The value of PRIORITY in its checks (RFC 8445 section 7.1.1)."""
        return peer_reflexive_priority(self.local.priority)

    def become(self, cause: PairInput) -> None:
        """Move by the table; an input without an entry changes nothing."""
        self.state = TRANSITIONS.get((self.state, cause), self.state)

    def set_role(self, role: IceRole) -> None:
        """Recompute the priority for a role (RFC 8445 section 7.3.1.1)."""
        self.priority = pair_priority(self.local.priority, self.remote.priority, role)

    def replace_remote(self, remote: Candidate, role: IceRole) -> None:
        """Take the signalled candidate in place of the learned one of the same address."""
        if remote.address != self.flow.remote:
            raise InternalError("a pair keeps its addresses")
        self.remote = remote
        self.set_role(role)

    def note_rtt(self, sample_s: float) -> None:
        """Smooth a round-trip time in (RFC 6298's factor)."""
        self.rtt_s = sample_s if self.rtt_s is None else self.rtt_s + (sample_s - self.rtt_s) / 8
