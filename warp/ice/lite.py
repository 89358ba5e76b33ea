"""A lite agent's paths: it answers checks and sends none (RFC 8445 sections 2.5 and 7.3).

    authenticated request ─▶ path (usable at once) ─▶ USE-CANDIDATE ─▶ selected
    requests on the path in use keep consent; none for 30 s ends it (RFC 7675 section 5.1)
    a request that has come on another flow before is a copy: it is answered and moves nothing

The flow of the last authenticated request is used until one is nominated. In a call a nomination
alone does not move it away from a path on which the peer is heard, since checks can be replayed:
it has to be heard on the new path, or no more on the old one. A peer that is heard on a path which
it has asked for since has moved, whether it nominates again (libwebrtc) or not (Firefox). Called by
`agent`.
"""

from __future__ import annotations

from warp.contract import Address, Flow
from warp.errors import InvalidState
from warp.ice.candidate import Candidate
from warp.ice.check import CheckRequest
from warp.ice.config import IceRole
from warp.ice.context import IceContext
from warp.ice.events import FlowAuthenticated, PairSelected
from warp.ice.nomination import supersedes
from warp.ice.paths import PathStatus, PathTimer
from warp.ice.transactions import Transaction
from warp.timers import TimerTable

_MAX_SEEN = 32
_SETTLE_S = 1.5
"""So long a nominated path waits to be heard while the peer is heard on the selected one."""


class _LitePath:
    """A flow on which authenticated requests came."""

    __slots__ = ("heard_at", "nominated_at", "priority")

    def __init__(self) -> None:
        self.heard_at = 0.0
        self.nominated_at: float | None = None
        self.priority = 0
        """PRIORITY of the peer's last request: which of several nominations wins."""


class LitePaths:
    """See `paths.Paths` for the verbs."""

    __slots__ = (
        "_context",
        "_ended",
        "_paths",
        "_quiet",
        "_seen",
        "_selected_at",
        "flow",
        "selected_flow",
        "timers",
    )

    def __init__(self, context: IceContext) -> None:
        self._context = context
        self._paths: dict[Flow, _LitePath] = {}
        self.timers: TimerTable[PathTimer] = TimerTable()
        self._ended: PathStatus | None = None
        self._quiet = False
        self._seen: dict[bytes, Flow] = {}
        self._selected_at = 0.0
        self.flow: Flow | None = None
        self.selected_flow: Flow | None = None

    @property
    def is_validated(self) -> bool:
        """Whether a request came on `flow`: all the proof a lite agent ever gets."""
        return self.flow is not None

    @property
    def rtt_s(self) -> float | None:
        """A lite agent sends no checks and measures nothing."""
        return None

    def status(self) -> PathStatus:
        """Return what the paths amount to."""
        if self._ended is not None:
            return self._ended
        if self.flow is None:
            return PathStatus.WAITING
        if self._quiet:
            return PathStatus.QUIET
        return PathStatus.USABLE if self.selected_flow is None else PathStatus.SELECTED

    def start(self, now: float) -> None:
        """Give the peer its time to send a check (RFC 8863 section 4)."""
        if self.flow is None and self._ended is None:
            self.timers.arm(PathTimer.PATIENCE, now + self._context.config.patience_s)

    # -- requests -------------------------------------------------------------------------

    def receive_request(self, request: CheckRequest, flow: Flow, now: float) -> bool:
        """Take an authenticated request: a path, maybe the selected one."""
        path = self._paths.get(flow)
        first = path is None
        if path is None:
            path = self._add(flow)
        if self._is_copy(request.transaction_id, flow):
            return first
        path.heard_at = now
        if request.priority is not None:
            path.priority = request.priority
        if flow != self.selected_flow and self._takes_over(request, path, flow, now):
            self._select(flow, now)
        elif self.selected_flow is None and flow != self.flow:
            self._use(flow, now)
        if self._quiet and flow == self.flow:
            self._quiet = False
            self._arm_life(now)
        return first

    def _is_copy(self, transaction_id: bytes, flow: Flow) -> bool:
        """Tell whether this request has come on another flow before."""
        seen = self._seen
        if seen.setdefault(transaction_id, flow) != flow:
            return True
        if len(seen) > _MAX_SEEN:
            del seen[next(iter(seen))]
        return False

    def _add(self, flow: Flow) -> _LitePath:
        if len(self._paths) >= self._context.config.max_learned_candidates:
            spare = [f for f in self._paths if f not in (self.flow, self.selected_flow)]
            oldest = min(spare, key=lambda f: self._paths[f].heard_at, default=None)
            if oldest is not None:
                del self._paths[oldest]
        path = self._paths[flow] = _LitePath()
        self._context.happened.append(FlowAuthenticated(flow))
        self._context.announce(flow)
        return path

    def _takes_over(self, request: CheckRequest, path: _LitePath, flow: Flow, now: float) -> bool:
        """Tell whether this request on another flow moves the selection to it."""
        selected = None if self.selected_flow is None else self._paths.get(self.selected_flow)
        if selected is None:
            return request.use_candidate
        config = self._context.config
        if request.use_candidate:
            since = now - self._selected_at
            if not supersedes(path.priority, selected.priority, since, config):
                return False
            path.nominated_at = now
            if self._is_heard_elsewhere(path, now):
                self.timers.arm(PathTimer.NOMINATION, now + _SETTLE_S)
                return False
            return True
        follow = config.lite_follow_after_s
        if follow is None:
            return False
        rider = self._context.rider
        heard = None if rider is None else rider.last_heard()
        speaks = heard is not None and heard[0] == flow and now < heard[1] + _SETTLE_S
        return speaks or now >= selected.heard_at + follow

    def _is_heard_elsewhere(self, path: _LitePath, now: float) -> bool:
        """Tell whether the peer has lately been heard on the selected path, and not on this one."""
        rider = self._context.rider
        heard = None if rider is None else rider.last_heard()
        if heard is None or self._paths.get(heard[0]) is path:
            return False
        return heard[0] == self.selected_flow and now < heard[1] + _SETTLE_S

    def check_flow(self, flow: Flow, now: float) -> None:
        """The peer is heard on another flow: follow, if it has asked for it since the selection.

        Before any nomination it is where it speaks from: its checks go round all of its pairs.
        """
        path = self._paths.get(flow)
        if path is None:
            return
        if self.selected_flow is None and flow != self.flow:
            self._use(flow, now)
        if self._has_left_for(path):
            self._select(flow, now)

    def _has_left_for(self, path: _LitePath) -> bool:
        """Whether the peer has nominated this path since the selection, or asked here last."""
        if path.nominated_at is not None and path.nominated_at > self._selected_at:
            return True
        selected = None if self.selected_flow is None else self._paths.get(self.selected_flow)
        if selected is None or self._context.config.lite_follow_after_s is None:
            return False
        return path.heard_at > max(selected.heard_at, self._selected_at)

    def _settle_nomination(self, now: float) -> None:
        """Nothing came on the nominated path: take it only if the selected one is silent too."""
        nominated = [
            (path.nominated_at, flow)
            for flow, path in self._paths.items()
            if path.nominated_at is not None and path.nominated_at > self._selected_at
        ]
        if nominated:
            _, flow = max(nominated)
            if not self._is_heard_elsewhere(self._paths[flow], now):
                self._select(flow, now)

    def _select(self, flow: Flow, now: float) -> None:
        self.selected_flow = flow
        self._selected_at = now
        context = self._context
        context.happened.append(PairSelected(flow))
        if context.trace is not None:
            context.emit(now, "ice:pair_selected", flow)
        if flow != self.flow:
            self._use(flow, now)

    def _use(self, flow: Flow, now: float) -> None:
        self.flow = flow
        self._quiet = False
        self._context.announce(flow)
        self.timers.cancel(PathTimer.PATIENCE)
        self._arm_life(now)

    def _arm_life(self, now: float) -> None:
        config = self._context.config
        self.timers.arm(PathTimer.SILENCE, now + config.disconnected_after_s)
        self.timers.arm(PathTimer.EXPIRY, now + config.consent_timeout_s)

    # -- time -----------------------------------------------------------------------------

    def handle_timer(self, now: float) -> None:
        """Look at the last request only now, so that a request arms no timer."""
        for reason in self.timers.pop_expired(now):
            path = None if self.flow is None else self._paths.get(self.flow)
            if reason is PathTimer.PATIENCE:
                if path is None:
                    self._end(PathStatus.EXHAUSTED)
            elif reason is PathTimer.NOMINATION:
                self._settle_nomination(now)
            elif path is not None:
                self._look_at(reason, path.heard_at, now)

    def _look_at(self, reason: PathTimer, heard_at: float, now: float) -> None:
        config = self._context.config
        silence = reason is PathTimer.SILENCE
        at = heard_at + (config.disconnected_after_s if silence else config.consent_timeout_s)
        if at > now:
            self.timers.arm(reason, at)
        elif silence:
            self._quiet = True
        else:
            self._end(PathStatus.CONSENT_LOST)

    def _end(self, status: PathStatus) -> None:
        self._ended = status
        self.close()

    def close(self) -> None:
        """Forget everything and fall silent."""
        self.timers.cancel_all()
        self._paths.clear()
        self._seen.clear()
        self.flow = self.selected_flow = None

    def remove_local_host(self, host: str, now: float) -> None:
        """One of our addresses went away."""
        for flow in [flow for flow in self._paths if flow.local[0] == host]:
            del self._paths[flow]
        if self.selected_flow not in self._paths:
            self.selected_flow = None
        if self.flow is not None and self.flow not in self._paths:
            self.flow = None
            heard = max(self._paths, key=lambda f: self._paths[f].heard_at, default=None)
            if heard is not None:
                self._use(heard, now)
            else:
                self.timers.cancel_all()
                self.start(now)

    # -- what only a full agent does --------------------------------------------------------

    def note_remote(self, now: float) -> None:
        """Nothing to begin: the peer checks."""

    def set_role(self, role: IceRole, now: float) -> None:
        """A lite agent stays controlled."""

    def add_local(self, candidate: Candidate, base: Address, now: float) -> None:
        """Nothing to check from it."""

    def add_remote(self, candidate: Candidate, now: float) -> None:
        """Nothing to check towards it."""

    def find(self, transaction_id: bytes) -> Transaction | None:
        """No checks of ours, no answers."""
        return None

    def receive_success(
        self, transaction_id: bytes, check: Transaction, mapped: Address | None, now: float
    ) -> None:
        """Never called: `find` finds nothing."""

    def receive_conflict(self, transaction_id: bytes, check: Transaction, now: float) -> None:
        """Never called: `find` finds nothing."""

    def receive_refusal(self, transaction_id: bytes, check: Transaction, now: float) -> None:
        """Never called: `find` finds nothing."""

    def request_check(self, now: float, burst: int) -> None:
        """A lite agent sends no checks; what waits leaves directly or in the next response."""

    def nominate(self, flow: Flow, now: float) -> None:
        """Raise: the full side nominates."""
        raise InvalidState("a lite agent never nominates")
