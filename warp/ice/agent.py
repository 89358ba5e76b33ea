"""The ICE agent: authenticates STUN, answers checks, and leaves paths to `checks_full` or `lite`.

    datagram ─▶ parse ─▶ reception: authenticate ─▶ Paths ─▶ rider ─▶ response ─▶ outbox
    commands, time ───────────────────────────────▶ Paths ─▶ checks ────────────▶ outbox
    whatever changed ─▶ _settle ─▶ state, events, rider.receive_path

RFC 8445 (ICE), 8838 (trickle), 7675 (consent), 8863 (patience). Called by `warp.peer`.
"""

from __future__ import annotations

import enum

from warp.contract import Address, Datagram, Event, Flow
from warp.entropy import Entropy
from warp.errors import ConsentLost, Discard, InvalidConfig, InvalidState, NoPath
from warp.ice.candidate import Candidate, CandidateType
from warp.ice.config import IceConfig, IceRole
from warp.ice.context import IceContext, IceDiscard
from warp.ice.credentials import IceCredentials
from warp.ice.events import IceState, StateChanged, Terminated
from warp.ice.generation import Generations
from warp.ice.paths import PathStatus
from warp.ice.reception import receive_error, receive_request, receive_success
from warp.ice.rider import Rider
from warp.ice.states import TRANSITIONS, Input
from warp.stun import (
    BINDING,
    MessageClass,
    parse_message,
)
from warp.timers import earliest
from warp.trace import Trace

_STATUS_INPUTS = {
    PathStatus.WAITING: Input.PATH_GONE,
    PathStatus.USABLE: Input.PATH_USABLE,
    PathStatus.SELECTED: Input.PATH_SELECTED,
    PathStatus.QUIET: Input.PATH_QUIET,
    PathStatus.CONSENT_LOST: Input.CONSENT_LOST,
    PathStatus.EXHAUSTED: Input.EXHAUSTED,
}
_REFLEXIVE = (CandidateType.SERVER_REFLEXIVE, CandidateType.PEER_REFLEXIVE)
_REQUEST, _SUCCESS = MessageClass.REQUEST, MessageClass.SUCCESS
_ENDED = (IceState.FAILED, IceState.CLOSED)
_CHANGED = {state: StateChanged(state) for state in IceState}


class IceAgent:
    """One side's agent for one transport (BUNDLE: a single component)."""

    __slots__ = ("_context", "_generations", "_locals", "_status", "settled_flow", "state")

    def __init__(
        self,
        config: IceConfig,
        *,
        role: IceRole,
        local: IceCredentials,
        entropy: Entropy,
        trace: Trace | None = None,
        rider: Rider | None = None,
    ) -> None:
        # a lite agent is controlled by whoever can check (RFC 8445 section 6.1.1)
        role = IceRole.CONTROLLED if config.lite else role
        self._context = IceContext(config, role, entropy, trace, rider)
        self._generations = Generations(self._context, local)
        self._locals: dict[Address, Candidate] = {}
        self._status = PathStatus.WAITING
        self.state = IceState.NEW
        self.settled_flow: Flow | None = None
        """What `flow` is between two verbs: a plain attribute, for whoever sends media."""

    # -- what it knows ------------------------------------------------------------------

    @property
    def flow(self) -> Flow | None:
        """Where to send now: the selected pair, else a valid one, else the flow of the last
        authenticated request, else None. While restarting: the earlier generation's, if alive."""
        generations = self._generations
        if generations.previous is None:
            return generations.current.paths.flow
        return generations.in_use.paths.flow

    @property
    def is_validated(self) -> bool:
        """Whether a check of ours was answered on the path in use (lite: a request came)."""
        return self._generations.in_use.paths.is_validated

    @property
    def is_undecided(self) -> bool:
        """Whether nothing but the peer's requests says which flow is in use."""
        paths = self._generations.current.paths
        return paths.selected_flow is None and paths.rtt_s is None

    @property
    def selected_flow(self) -> Flow | None:
        """The nominated flow of the present generation, or None."""
        return self._generations.current.paths.selected_flow

    @property
    def rtt_s(self) -> float | None:
        """Smoothed round-trip time of the path in use; None before an answer, and when lite."""
        return self._generations.in_use.paths.rtt_s

    @property
    def role(self) -> IceRole:
        """Who nominates; a role conflict may change it."""
        return self._context.role

    @property
    def local_credentials(self) -> IceCredentials:
        """Our credentials of the present generation."""
        return self._generations.current.keys.local

    @property
    def remote_credentials(self) -> IceCredentials | None:
        """The peer's credentials of the present generation, if they are known."""
        return self._generations.current.keys.remote

    @property
    def discards(self) -> dict[enum.Enum, int]:
        """How many datagrams were thrown away, by reason."""
        return self._context.discards

    # -- commands -----------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin. The first check leaves with the next `datagrams_to_send` after everything it
        needs is known: a candidate of each side and the peer's credentials."""
        if self.state is IceState.NEW:
            self._become(Input.STARTED, now)
            self._generations.current.paths.start(now)

    def set_remote_credentials(
        self, credentials: IceCredentials, now: float, lite: bool = False
    ) -> None:
        """Take the peer's credentials; `lite` when its description says a=ice-lite.

        Raises `InvalidConfig` when they cannot be used, `InvalidState` when they changed without
        a restart.
        """
        if lite and self._context.config.lite:
            raise InvalidConfig("two lite agents cannot check each other: make one side full")
        generation = self._generations.current
        generation.keys.set_remote(credentials, lite)
        if lite and self._context.role is IceRole.CONTROLLED:
            self._generations.switch_role(now)  # RFC 8445 section 6.1.1: the full side controls
            self._settle(now)
        generation.paths.note_remote(now)

    def add_local_candidate(
        self, candidate: Candidate, now: float, *, base: Address | None = None
    ) -> None:
        """Take a candidate of ours, also in mid-call (a new network).

        `base` is the address that datagrams leave from (`Flow.local`); by default the related
        address of a reflexive candidate and the candidate itself otherwise.
        """
        if not candidate.is_usable or self.state is IceState.CLOSED:
            return
        if base is None and candidate.type in _REFLEXIVE:
            base = candidate.related_address
        base = base or candidate.address
        held = self._locals.get(base)
        if held is None or held.priority < candidate.priority:
            self._locals[base] = candidate
        self._generations.current.paths.add_local(candidate, base, now)

    def remove_local_address(self, host: str, now: float) -> None:
        """Forget an address of ours that went away; the controlling side nominates anew."""
        for base in [base for base in self._locals if base[0] == host]:
            del self._locals[base]
        for generation in self._generations.all():
            generation.paths.remove_local_host(host, now)
        self._settle(now)

    def add_remote_candidate(self, candidate: Candidate, now: float) -> None:
        """Take a candidate of the peer (RFC 8838 section 11). TCP, other components and
        unresolved names are passed over."""
        if not candidate.is_usable or self.state in _ENDED:
            return
        self._generations.current.paths.add_remote(candidate, now)

    def end_of_candidates(self, now: float) -> None:
        """The peer has no more candidates (RFC 8838 section 13).

        Failing still takes its time: a peer-reflexive candidate may yet appear (RFC 8863).
        """
        self._context.emit(now, "ice:end_of_candidates")

    def restart(self, local: IceCredentials, now: float) -> None:
        """Begin another generation with fresh credentials (RFC 8445 section 9).

        The peer's credentials and candidates are to be given anew; our candidates stay.
        """
        if self.state is IceState.CLOSED:
            raise InvalidState("the agent is closed: make another")
        if local.ufrag == self._generations.current.keys.local.ufrag:
            raise InvalidState("a restart needs a new ufrag and password (RFC 8445 section 9)")
        self._generations.restart(local)
        self._status = PathStatus.WAITING
        for base, candidate in self._locals.items():
            self._generations.current.paths.add_local(candidate, base, now)
        if self.state is not IceState.NEW:
            self._become(Input.RESTARTED, now)
            self._generations.current.paths.start(now)
        self._settle(now)

    def request_check(self, now: float, burst: int = 1) -> None:
        """Send `burst` checks at once on the best pair: a flight waits that rides in them."""
        self._generations.current.paths.request_check(now, burst)

    def check_flow(self, flow: Flow, now: float) -> None:
        """Check a flow from which *authenticated* media came unexpectedly (a NAT rebound).

        A lite agent that waits for a nomination uses it, if requests came from there before.
        """
        self._generations.current.paths.check_flow(flow, now)
        self._settle(now)

    def nominate(self, flow: Flow, now: float) -> None:
        """Nominate a valid pair by hand; raises `InvalidState` when that cannot be."""
        self._generations.current.paths.nominate(flow, now)

    def close(self, now: float) -> None:
        """Fall silent and forget everything."""
        self._become(Input.CLOSED, now)
        self._generations.close()
        self.settled_flow = None
        self._context.outbox.clear()
        self._locals.clear()

    # -- the five verbs -----------------------------------------------------------------

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        """Take in one STUN datagram."""
        try:
            if self.state in _ENDED:
                raise Discard(IceDiscard.NOT_RUNNING)
            message = parse_message(data)
            if message.method != BINDING:
                raise Discard(IceDiscard.NOT_BINDING)
            kind = message.message_class
            if kind is _REQUEST:
                receive_request(self._context, self._generations, message, flow, now)
            elif kind is _SUCCESS:
                receive_success(self._context, self._generations, message, flow, now)
            elif kind is MessageClass.ERROR:
                receive_error(self._context, self._generations, message, now)
            # an indication is a keepalive and asks for nothing (RFC 8445 section 11)
        except Discard as discard:
            self._context.count(discard.reason, now)
        self._settle(now)

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        """Drain responses and checks, those due at `now` included."""
        self.handle_timer(now)
        outbox = self._context.outbox
        if not outbox:
            return []
        self._context.outbox = []
        return outbox

    def get_timer(self) -> float | None:
        """Return the next deadline."""
        generations = self._generations
        due, previous = generations.current.paths.timers.due, generations.previous
        return due if previous is None else earliest(due, previous.paths.timers.due)

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        due = self.get_timer()
        if due is None or due > now:
            return
        for generation in self._generations.all():
            generation.paths.handle_timer(now)
        self._settle(now)

    def events(self) -> list[Event]:
        """Drain what has happened."""
        happened = self._context.happened
        if not happened:
            return []
        self._context.happened = []
        return happened

    # -- states -------------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        """Draw the conclusions from whatever has just changed."""
        context, generations = self._context, self._generations
        if generations.previous is not None:
            generations.retire()
        if context.fresh_flows:
            flows, context.fresh_flows = context.fresh_flows, []
            if context.rider is not None:
                for flow in flows:
                    context.rider.receive_path(flow, now)
        paths = generations.current.paths
        status = paths.status()
        if status is not self._status:
            self._status = status
            self._become(_STATUS_INPUTS[status], now)
        if generations.previous is not None:
            paths = generations.in_use.paths
        self.settled_flow = paths.flow

    def _become(self, why: Input, now: float) -> None:
        state = TRANSITIONS.get((self.state, why))
        if state is None or state is self.state:
            return
        self.state = state
        context = self._context
        if context.trace is not None:
            context.emit(now, "ice:state_changed", state=state.value, why=why.value)
        context.happened.append(_CHANGED[state])
        if state is IceState.FAILED:
            self._generations.close()
            lost = why is Input.CONSENT_LOST
            context.happened.append(
                Terminated(
                    ConsentLost("the peer has stopped answering consent checks")
                    if lost
                    else NoPath("no candidate pair works")
                )
            )
