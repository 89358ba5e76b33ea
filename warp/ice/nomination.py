"""Which pair is nominated, by us or by the peer (RFC 8445 section 8.1).

controlling   valid pair ──pick──▶ candidate ──USE-CANDIDATE answered──▶ selected
controlled    USE-CANDIDATE received ──accepts──▶ (valid) ──▶ selected
"""

from __future__ import annotations

from warp.ice.checklist import Checklist
from warp.ice.config import IceConfig, IceRole, Nomination
from warp.ice.pair import CandidatePair


def supersedes(
    priority: int, selected_priority: int, since_selection_s: float, config: IceConfig
) -> bool:
    """Tell whether the peer's USE-CANDIDATE on another pair moves an existing selection.

    An aggressive peer (RFC 5245 section 8.1.1.2) marks every check, the best pair wins; once
    that has settled, a mark means that the peer has moved.
    """
    return priority > selected_priority or since_selection_s > config.nomination_settle_s


class Nominator:
    """Picks, remembers and replaces the selected pair."""

    __slots__ = (
        "_config",
        "_first_valid_at",
        "_selected_at",
        "candidate",
        "migrating",
        "remote_is_lite",
        "role",
        "selected",
    )

    def __init__(self, config: IceConfig, role: IceRole) -> None:
        self._config = config
        self._first_valid_at: float | None = None
        self._selected_at = 0.0
        self.role = role
        self.remote_is_lite = False
        self.candidate: CandidatePair | None = None
        """The pair whose nominating check is under way."""
        self.selected: CandidatePair | None = None
        self.migrating = False
        """A selected pair was lost in mid-call: its successor is wanted at once."""

    def marks(self, pair: CandidatePair) -> bool:
        """Tell whether a check on this pair carries USE-CANDIDATE."""
        if self.role is IceRole.CONTROLLED:
            return False
        if pair is self.candidate or pair is self.selected:
            return True
        if self.selected is not None or self.candidate is not None:
            return False
        if self._config.nomination is Nomination.BY_APPLICATION:
            return False
        # media must follow the first check of a client that changed networks
        return self.migrating or (
            self._config.nomination is Nomination.EVERY_CHECK and not self.remote_is_lite
        )

    def pick(self, checklist: Checklist, now: float) -> tuple[CandidatePair | None, float | None]:
        """Return the pair to nominate now, or when to ask again, or neither."""
        mode = self._config.nomination
        if self.role is IceRole.CONTROLLED or mode is Nomination.BY_APPLICATION:
            return None, None
        if self.selected is not None or self.candidate is not None:
            return None, None
        valid = checklist.valid()
        if not valid:
            return None, None
        best = valid[0]
        if self._first_valid_at is None:
            self._first_valid_at = now
        wait_s = 0.0
        if not self.migrating:
            if mode is Nomination.WAIT:
                wait_s = self._config.nomination_wait_s
            elif best.is_relayed:
                wait_s = self._config.relay_wait_s
        until = self._first_valid_at + wait_s
        if now < until and any(p.priority > best.priority for p in checklist.open_pairs()):
            return None, until
        return best, None

    def confirms(self, pair: CandidatePair) -> bool:
        """Tell whether the answer to a marked check of ours selects its pair."""
        if self.selected is None or pair is self.candidate:
            return True
        return (
            self._config.nomination is Nomination.EVERY_CHECK
            and pair.priority > self.selected.priority
        )

    def accepts(self, pair: CandidatePair, now: float) -> bool:
        """Tell whether the peer's nomination of this valid pair selects it."""
        if self.selected is None:
            return True
        return supersedes(
            pair.priority, self.selected.priority, now - self._selected_at, self._config
        )

    def select(self, pair: CandidatePair, now: float) -> None:
        """Make this the selected pair."""
        self.selected = pair
        self.candidate = None
        self.migrating = False
        self._selected_at = now

    def lose_selected(self) -> None:
        """The selected pair is gone; nominate the next valid one without waiting."""
        self.migrating = self.migrating or self.selected is not None
        self.selected = None

    def set_role(self, role: IceRole) -> None:
        """Take another role; the selection stays."""
        self.role = role
        self.candidate = None
