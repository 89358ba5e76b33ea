"""A full agent's paths for one generation: sending checks and reading their answers.

    start, candidates, credentials ─▶ Checklist ─▶ check every Ta ─▶ answer ─▶ valid
    request on a flow ─▶ pair (learned if new) ─▶ triggered check at once     │
    valid ─▶ Nominator ─▶ marked check ─▶ selected ─▶ consent every 4..6 s ◀──┘
    selected falls silent ─▶ probes ─▶ all pairs again ─▶ another is nominated, or consent ends

RFC 8445 sections 6.1.4, 7.2, 7.3.1.3 to 7.3.1.5 and 8; RFC 7675. Called by `agent`.
"""

from __future__ import annotations

from warp.contract import Address, Flow
from warp.errors import InvalidState
from warp.ice.candidate import Candidate, CandidateType, candidate_priority
from warp.ice.check import CheckRequest
from warp.ice.checklist import Checklist
from warp.ice.config import IceRole
from warp.ice.context import IceContext
from warp.ice.events import (
    FlowAuthenticated,
    PairSelected,
    PairValidated,
    RemoteCandidateLearned,
)
from warp.ice.keys import Keys
from warp.ice.liveness import Liveness
from warp.ice.nomination import Nominator
from warp.ice.pair import CandidatePair, PairInput, PairState
from warp.ice.paths import PathStatus, PathTimer
from warp.ice.sender import CheckSender
from warp.ice.transactions import Transaction
from warp.timers import TimerTable

_CHECK_FLOW_SPACING_S = 1.0
_MAX_ROUNDS = 8
_LEAST_PRIORITY = candidate_priority(CandidateType.PEER_REFLEXIVE, local_preference=0)


class FullChecks:
    """See `paths.Paths` for the verbs."""

    __slots__ = (
        "_can_check",
        "_context",
        "_ended",
        "_heard_flow",
        "_keys",
        "_life",
        "_nominator",
        "_sender",
        "_started",
        "checklist",
        "flow",
        "timers",
    )

    def __init__(self, context: IceContext, keys: Keys) -> None:
        config = context.config
        self._context = context
        self._keys = keys
        self.checklist = Checklist(config, context.role)
        self._nominator = Nominator(config, context.role)
        self._sender = CheckSender(context, keys, self.checklist, self._nominator)
        self.timers: TimerTable[PathTimer] = TimerTable()
        self._life = Liveness(context, self.timers)
        self._started = False
        self._can_check = False
        self._heard_flow: Flow | None = None
        self._ended: PathStatus | None = None
        self.flow: Flow | None = None

    # -- what it amounts to -----------------------------------------------------------

    @property
    def selected_flow(self) -> Flow | None:
        """The nominated flow."""
        selected = self._nominator.selected
        return None if selected is None else selected.flow

    @property
    def is_validated(self) -> bool:
        """Whether one of our checks on `flow` was answered."""
        return self._life.active is not None

    @property
    def rtt_s(self) -> float | None:
        """Smoothed round-trip time of the path in use."""
        return None if self._life.active is None else self._life.active.rtt_s

    def status(self) -> PathStatus:
        """Return what the paths amount to."""
        if self._ended is not None:
            return self._ended
        if self._life.active is None:
            return PathStatus.WAITING
        if self._life.is_quiet:
            return PathStatus.QUIET
        if self._nominator.selected is None:
            return PathStatus.USABLE
        return PathStatus.SELECTED

    # -- commands ---------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin; checks leave when the peer's credentials are known."""
        self._started = True
        self._begin(now)

    def note_remote(self, now: float) -> None:
        """The peer's credentials are known."""
        self._nominator.remote_is_lite = self._keys.remote_is_lite
        self._begin(now)

    def _begin(self, now: float) -> None:
        """Check as soon as that is possible, and whatever has become known since."""
        self._can_check = self._started and self._keys.remote is not None and self._ended is None
        if self._can_check:
            # whatever comes late gets its full time too (RFC 8863 section 4)
            if self._life.active is None:
                self._be_patient(now)
            self._arm_check(now)

    def set_role(self, role: IceRole, now: float) -> None:
        """The role has changed: priorities and nomination follow it."""
        self.checklist.set_role(role)
        self._nominator.set_role(role)
        self._refresh(now)
        self._consider_nomination(now)
        self._arm_check(now)

    def add_local(self, candidate: Candidate, base: Address, now: float) -> None:
        """Take a local candidate; its pairs are checked even when another is selected."""
        self.checklist.add_local(candidate, base)
        self._begin(now)

    def add_remote(self, candidate: Candidate, now: float) -> None:
        """Take a signalled candidate."""
        if self.checklist.add_remote(candidate):
            self._begin(now)

    def remove_local_host(self, host: str, now: float) -> None:
        """An interface went away: leave its pairs at once, look for another way."""
        gone = self.checklist.remove_local_host(host)
        if self._heard_flow is not None and self._heard_flow.local[0] == host:
            self._heard_flow = None
        if self._nominator.candidate in gone:
            self._nominator.candidate = None
        if self._life.active in gone:
            self._nominator.lose_selected()
            self.checklist.revive(None)
            self._be_patient(now)
        self._refresh(now)
        self._consider_nomination(now)
        self._arm_check(now)

    def _be_patient(self, now: float) -> None:
        self.timers.arm(PathTimer.PATIENCE, now + self._context.config.patience_s)

    def nominate(self, flow: Flow, now: float) -> None:
        """Nominate a valid pair; raises `InvalidState` when that is not ours to do."""
        pair = self.checklist.pairs.get(flow)
        if self._context.role is not IceRole.CONTROLLING:
            raise InvalidState("only the controlling agent nominates")
        if pair is None or pair.state is not PairState.SUCCEEDED:
            raise InvalidState("only a valid pair can be nominated: wait for PairValidated")
        if pair is not self._nominator.selected:
            self._nominate(pair, now)
            self._arm_check(now)

    def request_check(self, now: float, burst: int) -> None:
        """Send `burst` checks at once on the best pair (bounded)."""
        self._sender.burst = min(max(burst, 1), self._context.config.max_burst_checks)
        self._arm_check(now)

    def check_flow(self, flow: Flow, now: float) -> None:
        """Authenticated media came from an unknown flow: the peer's address may have changed."""
        pair = self.checklist.pairs.get(flow) or self._learn(flow, None, now)
        checked = pair.checked_at
        if pair is not self._life.active and (
            checked is None or now >= checked + _CHECK_FLOW_SPACING_S
        ):
            self.checklist.trigger(pair)
            self._life.doubt(now)
            self._arm_check(now)

    def close(self) -> None:
        """Forget everything and fall silent."""
        self.timers.cancel_all()
        self._sender.transactions.clear()
        self._life.follow(None, 0.0)
        self.checklist.clear()
        self._nominator.selected = self._nominator.candidate = None
        self._heard_flow = self.flow = None
        self._started = self._can_check = False

    # -- requests of the peer -----------------------------------------------------------

    def receive_request(self, request: CheckRequest, flow: Flow, now: float) -> bool:
        """Take an authenticated request: usable flow, triggered check, maybe nomination."""
        pair = self.checklist.pairs.get(flow) or self._learn(flow, request.priority, now)
        first = pair.last_request_at is None
        pair.last_request_at = now
        if first:
            self._context.happened.append(FlowAuthenticated(flow))
        if self._heard_flow != flow:
            self._heard_flow = flow
            self._refresh(now)
        marked = request.use_candidate and self._context.role is IceRole.CONTROLLED
        if pair.state is not PairState.SUCCEEDED:
            pair.nominated = pair.nominated or marked
            self.checklist.trigger(pair)
            self._life.doubt(now)
            self._arm_check(now)
        elif marked and pair is not self._nominator.selected:
            if self._nominator.accepts(pair, now):
                self._select(pair, now)
                self._arm_check(now)
        elif pair is not self._life.active:
            if self._life.is_suspect and self._context.role is IceRole.CONTROLLED:
                self._leave_for(pair, now)
            self._life.doubt(now)
        if first:
            self._context.announce(flow)
        return first

    def _learn(self, flow: Flow, priority: int | None, now: float) -> CandidatePair:
        remote = self.checklist.remotes.get(flow.remote)
        if remote is None:
            remote = self.checklist.learn_remote(
                flow.remote, _LEAST_PRIORITY if priority is None else priority, self._life.active
            )
            self._context.happened.append(RemoteCandidateLearned(remote))
            self._context.emit(now, "ice:remote_candidate_learned", flow)
        return self.checklist.pair_for(flow, remote)

    # -- answers to our checks ------------------------------------------------------------

    def find(self, transaction_id: bytes) -> Transaction | None:
        """Return our open check of this id."""
        return self._sender.transactions.find(transaction_id)

    def receive_success(
        self, transaction_id: bytes, check: Transaction, mapped: Address | None, now: float
    ) -> None:
        """Take an authenticated answer: the pair is valid (RFC 8445 section 7.2.5.3)."""
        self._sender.transactions.close(transaction_id)
        pair, context = check.pair, self._context
        if self.checklist.pairs.get(pair.flow) is not pair:
            return  # its local address has gone meanwhile
        rtt_s = now - check.sent_at
        pair.note_rtt(rtt_s)
        fresh = pair.state is not PairState.SUCCEEDED
        pair.become(PairInput.ANSWERED)
        pair.checks, pair.last_response_at, pair.mapped_address = 0, now, mapped
        if fresh:
            self.checklist.unfreeze(pair.foundation)
            context.happened.append(PairValidated(pair.flow, rtt_s))
            context.announce(pair.flow)
            if context.trace is not None:
                context.emit(now, "ice:pair_validated", pair.flow, rtt_s=rtt_s)
        in_use = self._life.active
        self._settle_nomination(pair, check, now)
        self._refresh(now)
        if pair is not self._life.active:
            if self._life.is_suspect:
                self._leave_for(pair, now)
        elif pair is in_use:  # one that has just come into use was followed with this answer
            was_suspect = self._life.note_answer(now)
            if was_suspect and self._nominator.selected is not None:
                self.checklist.park()
        self._consider_nomination(now)
        self._arm_check(now)

    def _settle_nomination(self, pair: CandidatePair, check: Transaction, now: float) -> None:
        if self._context.role is IceRole.CONTROLLING:
            if check.nominates and self._nominator.confirms(pair):
                self._select(pair, now)
        elif pair.nominated:
            pair.nominated = False
            if self._nominator.accepts(pair, now):
                self._select(pair, now)

    def receive_conflict(self, transaction_id: bytes, check: Transaction, now: float) -> None:
        """A check was answered 487: repeat it in the other role (RFC 8445 section 7.2.5.1)."""
        self._sender.transactions.close(transaction_id)
        if self.checklist.pairs.get(check.pair.flow) is check.pair:
            self.checklist.trigger(check.pair)
            self._arm_check(now)

    def receive_refusal(self, transaction_id: bytes, check: Transaction, now: float) -> None:
        """A check was refused for good (RFC 8445 section 7.2.5.2.4)."""
        self._sender.transactions.close(transaction_id)
        pair = check.pair
        if self.checklist.pairs.get(pair.flow) is pair:
            self._context.emit(now, "ice:pair_refused", pair.flow)
            self._give_up(pair, now)

    def _give_up(self, pair: CandidatePair, now: float) -> None:
        pair.become(PairInput.REFUSED)
        if pair is self._nominator.candidate:
            self._nominator.candidate = None
        if pair is self._nominator.selected:
            self._nominator.lose_selected()
        if pair is self._life.active:
            self._be_patient(now)
        self._refresh(now)
        self._consider_nomination(now)
        self._arm_check(now)

    # -- nomination and the path in use ---------------------------------------------------

    def _consider_nomination(self, now: float) -> None:
        pair, wait_until = self._nominator.pick(self.checklist, now)
        if pair is not None:
            self._nominate(pair, now)
        elif wait_until is not None:
            self.timers.arm(PathTimer.NOMINATION, wait_until)

    def _nominate(self, pair: CandidatePair, now: float) -> None:
        if self._nominator.candidate is pair:
            return
        self._nominator.candidate = pair
        pair.checks, pair.due_at = 0, now
        if self._context.trace is not None:
            self._context.emit(now, "ice:nominating", pair.flow)

    def _select(self, pair: CandidatePair, now: float) -> None:
        if pair is self._nominator.selected:
            return
        self._nominator.select(pair, now)
        self.checklist.park()
        self.timers.cancel(PathTimer.NOMINATION)
        self._context.happened.append(PairSelected(pair.flow))
        self._context.emit(now, "ice:pair_selected", pair.flow)
        self._refresh(now)

    def _refresh(self, now: float) -> None:
        """Recompute the path in use after anything that may have changed it."""
        active = self._nominator.selected
        if active is None:
            valid = self.checklist.valid()
            active = valid[0] if valid else None
        if active is not self._life.active:
            self._life.follow(active, now)
        flow = self._heard_flow if active is None else active.flow
        if flow != self.flow:
            self.flow = flow
            if flow is not None:
                self._context.announce(flow)

    # -- time -----------------------------------------------------------------------------

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        for _ in range(_MAX_ROUNDS):
            for reason in self.timers.pop_expired(now):
                self._handle(reason, now)
            # a handler may arm something for this very moment, e.g. checks after a consent check
            due = self.timers.due
            if due is None or due > now:
                return

    def _handle(self, reason: PathTimer, now: float) -> None:
        if reason is PathTimer.CHECK:
            self._send_due(now)
        elif reason is PathTimer.CONSENT:
            self._ask_consent(now)
        elif reason is PathTimer.SILENCE:
            self._life.look_for_silence(now)
        elif reason is PathTimer.EXPIRY:
            self._look_for_expiry(now)
        elif reason is PathTimer.NOMINATION:
            self._consider_nomination(now)
            self._arm_check(now)
        else:
            self._lose_patience(now)

    def _ask_consent(self, now: float) -> None:
        active = self._life.active
        if active is None or not self._can_check:
            return
        self._sender.send(active, now)
        if self._life.note_check(now):
            self._look_elsewhere(active, now)
        self._arm_check(now)

    def _look_elsewhere(self, active: CandidatePair, now: float) -> None:
        """The path in use does not answer: try all others, take one that has answered since."""
        self._context.emit(now, "ice:path_suspect", active.flow)
        since = active.last_response_at or 0.0
        later = [p for p in self.checklist.valid() if (p.last_response_at or 0.0) > since]
        if self._context.role is IceRole.CONTROLLED:
            later = [p for p in later if (p.last_request_at or 0.0) > since]
        self.checklist.revive(active)
        if later:
            self._leave_for(later[0], now)

    def _leave_for(self, pair: CandidatePair, now: float) -> None:
        """The path in use does not answer, this one does: nominate it, or follow the peer there.

        A controlled agent cannot nominate. But a peer that asks where it never asked before has
        moved; if it marks only its first nomination, as Firefox does, nothing else tells.
        """
        active = self._life.active
        since = 0.0 if active is None else active.last_response_at or 0.0
        if self._context.role is IceRole.CONTROLLING:
            self._nominate(pair, now)
        elif (pair.last_request_at or 0.0) > since:
            self._select(pair, now)

    def _look_for_expiry(self, now: float) -> None:
        """Consent lasts 30 s from the last answer (RFC 7675 section 5.1)."""
        if not self._life.has_expired(now):
            return
        timeout_s = self._context.config.consent_timeout_s
        if self._life.active is self._nominator.selected:
            self._nominator.lose_selected()
        for pair in self.checklist.valid():
            if (pair.last_response_at or 0.0) + timeout_s <= now:
                pair.become(PairInput.REFUSED)
        if not self.checklist.valid():
            self._end(PathStatus.CONSENT_LOST)
        self._refresh(now)
        self._consider_nomination(now)
        self._arm_check(now)

    def _lose_patience(self, now: float) -> None:
        """Fail when no pair is left that could still succeed (RFC 8863 section 4)."""
        if self._life.active is not None or self._ended is not None:
            return
        self.checklist.fail_overdue(now)
        deadlines = [
            (now if p.started_at is None else p.started_at) + self._context.config.patience_s
            for p in self.checklist.open_pairs()
        ]
        if deadlines:
            self.timers.arm(PathTimer.PATIENCE, min(deadlines))
            return
        self._end(PathStatus.EXHAUSTED)
        self._refresh(now)

    def _end(self, status: PathStatus) -> None:
        self._ended = status
        self._can_check = False
        self._heard_flow = None
        self.timers.cancel_all()

    def _arm_check(self, now: float) -> None:
        due = self._sender.next_due(now) if self._can_check else None
        if due is None:
            self.timers.cancel(PathTimer.CHECK)
        else:
            self.timers.arm(PathTimer.CHECK, due)

    def _send_due(self, now: float) -> None:
        if not self._can_check:
            return
        candidate = self._nominator.candidate
        if candidate is not None and candidate.checks > self._context.config.steady_checks:
            self._give_up(candidate, now)
        self._sender.send_due(self._life.active, now)
        self._arm_check(now)
