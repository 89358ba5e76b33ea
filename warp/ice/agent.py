"""The ICE agent: authenticates STUN, answers checks, and leaves paths to `checks_full` or `lite`.

    datagram ─▶ parse ─▶ request ─▶ USERNAME, MESSAGE-INTEGRITY ─▶ role conflict? ─▶ Paths
                  │                                     ─▶ rider ─▶ response ─▶ outbox
                  └────▶ answer ──▶ open check, MESSAGE-INTEGRITY ─▶ Paths ─▶ rider
    Paths ─▶ checks ─▶ outbox ─▶ datagrams_to_send

RFC 8445 (ICE), 8838 (trickle), 7675 (consent), 8863 (patience). Called by `warp.peer`. During an
ICE restart two generations live side by side: the earlier one carries media and answers checks
until the new one has selected a pair.
"""

from __future__ import annotations

import enum

from warp.contract import Address, Datagram, Event, Flow
from warp.entropy import Entropy
from warp.errors import ConsentLost, Discard, InternalError, InvalidConfig, InvalidState, NoPath
from warp.ice.candidate import Candidate, CandidateType
from warp.ice.check import (
    CheckRequest,
    build_error,
    build_success,
    has_unknown_required,
)
from warp.ice.config import IceConfig, IceRole
from warp.ice.context import IceContext, IceDiscard
from warp.ice.credentials import IceCredentials
from warp.ice.events import IceState, StateChanged, Terminated
from warp.ice.generation import Generation
from warp.ice.paths import PathStatus
from warp.ice.rider import Rider
from warp.ice.states import TRANSITIONS, Input
from warp.ice.transactions import Transaction
from warp.stun import (
    BINDING,
    Attribute,
    Message,
    MessageClass,
    decode_error_code,
    decode_xor_address,
    parse_message,
)
from warp.trace import Trace

_STATUS_INPUTS = {
    PathStatus.WAITING: Input.PATH_GONE,
    PathStatus.USABLE: Input.PATH_USABLE,
    PathStatus.SELECTED: Input.PATH_SELECTED,
    PathStatus.QUIET: Input.PATH_QUIET,
    PathStatus.CONSENT_LOST: Input.CONSENT_LOST,
    PathStatus.EXHAUSTED: Input.EXHAUSTED,
}
_ENDED = (IceState.FAILED, IceState.CLOSED)
_ROLE_CONFLICT = 487
_PASSING_ERRORS = frozenset({401, 420, 430, 438, 500})
"""Errors that may pass by themselves: the next check tries again. All others end the pair."""


class IceAgent:
    """One side's agent for one transport (BUNDLE: a single component)."""

    __slots__ = ("_context", "_current", "_locals", "_previous", "_status", "state")

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
        self._current = Generation(self._context, local)
        self._previous: Generation | None = None
        self._locals: dict[Address, Candidate] = {}
        self._status = PathStatus.WAITING
        self.state = IceState.NEW

    # -- what it knows ------------------------------------------------------------------

    @property
    def flow(self) -> Flow | None:
        """Where to send now: the selected pair, else a valid one, else the flow of the last
        authenticated request, else None. While restarting: the earlier generation's, if alive."""
        previous = self._previous
        if previous is not None and previous.paths.flow is not None:
            current = self._current.paths
            if current.flow is None or previous.paths.status() is not PathStatus.QUIET:
                return previous.paths.flow
        return self._current.paths.flow

    @property
    def is_validated(self) -> bool:
        """Whether a check of ours was answered on the path in use (lite: a request came)."""
        return self._current.paths.is_validated

    @property
    def selected_flow(self) -> Flow | None:
        """The nominated flow of the present generation, or None."""
        return self._current.paths.selected_flow

    @property
    def rtt_s(self) -> float | None:
        """Smoothed round-trip time of the path in use; None before an answer, and when lite."""
        rtt_s = self._current.paths.rtt_s
        if rtt_s is None and self._previous is not None:
            return self._previous.paths.rtt_s
        return rtt_s

    @property
    def role(self) -> IceRole:
        """Who nominates; a role conflict may change it."""
        return self._context.role

    @property
    def local_credentials(self) -> IceCredentials:
        """Our credentials of the present generation."""
        return self._current.keys.local

    @property
    def remote_credentials(self) -> IceCredentials | None:
        """The peer's credentials of the present generation, if they are known."""
        return self._current.keys.remote

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
            self._current.paths.start(now)
            self._settle(now)

    def set_remote_credentials(
        self, credentials: IceCredentials, now: float, lite: bool = False
    ) -> None:
        """Take the peer's credentials; `lite` when its description says a=ice-lite.

        Raises `InvalidConfig` when they cannot be used, `InvalidState` when they changed without
        a restart.
        """
        if lite and self._context.config.lite:
            raise InvalidConfig("two lite agents cannot check each other: make one side full")
        self._current.keys.set_remote(credentials, lite)
        if lite and self._context.role is IceRole.CONTROLLED:
            self._switch_role(now)  # RFC 8445 section 6.1.1: the full side controls
        self._current.paths.note_remote(now)
        self._settle(now)

    def add_local_candidate(
        self, candidate: Candidate, now: float, *, base: Address | None = None
    ) -> None:
        """Take a candidate of ours, also in mid-call (a new network).

        `base` is the address that datagrams leave from (`Flow.local`); by default the related
        address of a reflexive candidate and the candidate itself otherwise.
        """
        if not candidate.is_usable or self.state is IceState.CLOSED:
            return
        reflexive = (CandidateType.SERVER_REFLEXIVE, CandidateType.PEER_REFLEXIVE)
        if base is None and candidate.type in reflexive:
            base = candidate.related_address
        base = base or candidate.address
        held = self._locals.get(base)
        if held is None or held.priority < candidate.priority:
            self._locals[base] = candidate
        self._current.paths.add_local(candidate, base, now)
        self._settle(now)

    def remove_local_address(self, host: str, now: float) -> None:
        """Forget an address of ours that went away; the controlling side nominates anew."""
        for base in [base for base in self._locals if base[0] == host]:
            del self._locals[base]
        for generation in self._generations():
            generation.paths.remove_local_host(host, now)
        self._settle(now)

    def add_remote_candidate(self, candidate: Candidate, now: float) -> None:
        """Take a candidate of the peer (RFC 8838 section 11). TCP, other components and
        unresolved names are passed over."""
        if not candidate.is_usable or self.state in _ENDED:
            return
        self._current.paths.add_remote(candidate, now)
        self._settle(now)

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
        if local.ufrag == self._current.keys.local.ufrag:
            raise InvalidState("a restart needs a new ufrag and password (RFC 8445 section 9)")
        if self._previous is not None and self._previous.paths.flow is not None:
            self._current.paths.close()
        else:
            self._previous = self._current
        self._current = Generation(self._context, local)
        self._status = PathStatus.WAITING
        for base, candidate in self._locals.items():
            self._current.paths.add_local(candidate, base, now)
        if self.state is not IceState.NEW:
            self._become(Input.RESTARTED, now)
            self._current.paths.start(now)
        self._settle(now)

    def request_check(self, now: float, burst: int = 1) -> None:
        """Send `burst` checks at once on the best pair: a flight waits that rides in them."""
        self._current.paths.request_check(now, burst)

    def check_flow(self, flow: Flow, now: float) -> None:
        """Check a flow from which *authenticated* media came unexpectedly (a NAT rebound)."""
        self._current.paths.check_flow(flow, now)
        self._settle(now)

    def nominate(self, flow: Flow, now: float) -> None:
        """Nominate a valid pair by hand; raises `InvalidState` when that cannot be."""
        self._current.paths.nominate(flow, now)

    def close(self, now: float) -> None:
        """Fall silent and forget everything."""
        self._become(Input.CLOSED, now)
        self._close_paths()
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
            if kind is MessageClass.REQUEST:
                self._receive_request(message, flow, now)
            elif kind is MessageClass.SUCCESS:
                self._receive_success(message, flow, now)
            elif kind is MessageClass.ERROR:
                self._receive_error(message, now)
            # an indication is a keepalive and asks for nothing (RFC 8445 section 11)
        except Discard as discard:
            self._context.count(discard.reason, now)

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
        deadline = self._current.paths.get_timer()
        if self._previous is None:
            return deadline
        earlier = self._previous.paths.get_timer()
        if deadline is None or (earlier is not None and earlier < deadline):
            return earlier
        return deadline

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        deadline = self.get_timer()
        if deadline is None or deadline > now:
            return
        for generation in self._generations():
            generation.paths.handle_timer(now)
        self._settle(now)

    def events(self) -> list[Event]:
        """Drain what has happened."""
        happened = self._context.happened
        if not happened:
            return []
        self._context.happened = []
        return happened

    # -- requests -----------------------------------------------------------------------

    def _receive_request(self, message: Message, flow: Flow, now: float) -> None:
        """Authenticate, then act, then let the rider act, then answer."""
        request = CheckRequest(message)
        if request.username is None:
            raise Discard(IceDiscard.NO_USERNAME)
        generation = self._admit(request.username)
        key = generation.keys.local_key
        # nothing is answered before this point: no oracle, no amplifier, no state
        if not message.verify_integrity(key):
            raise Discard(IceDiscard.WRONG_INTEGRITY)
        context = self._context
        if request.unknown is not None:
            answer = build_error(key, message, 420, "Unknown Attribute", request.unknown)
            context.outbox.append((answer, flow))
            return
        if self._loses_conflict(request, now):
            answer = build_error(key, message, _ROLE_CONFLICT, "Role Conflict")
            context.outbox.append((answer, flow))
            return
        generation.paths.receive_request(request, flow, now)
        if context.rider is not None:
            context.rider.receive_attributes(message, flow, now)
        context.outbox.append((build_success(context, key, message, flow, now), flow))
        self._settle(now)

    def _admit(self, username: bytes) -> Generation:
        if self._current.keys.admit(username):
            return self._current
        if self._previous is not None and self._previous.keys.admit(username):
            return self._previous
        raise Discard(IceDiscard.UNKNOWN_USERNAME)

    def _loses_conflict(self, request: CheckRequest, now: float) -> bool:
        """Repair a role conflict (RFC 8445 section 7.3.1.1); tell whether the peer must switch."""
        context = self._context
        if context.role is IceRole.CONTROLLING:
            if request.controlling is None:
                return False
            if context.tie_breaker >= request.controlling:
                return True
        else:
            if request.controlled is None:
                return False
            # a lite agent cannot control: the peer has to
            if context.config.lite or context.tie_breaker < request.controlled:
                return True
        self._switch_role(now)
        return False

    def _switch_role(self, now: float) -> None:
        self._context.role = self._context.role.opposite
        self._context.emit(now, "ice:role_switched", role=self._context.role.value)
        for generation in self._generations():
            generation.paths.set_role(self._context.role, now)

    # -- answers ------------------------------------------------------------------------

    def _open_check(self, message: Message) -> tuple[Generation, Transaction]:
        """Return the authenticated answer's check."""
        for generation in self._generations():
            check = generation.paths.find(message.transaction_id)
            if check is None:
                continue
            key = generation.keys.remote_key
            if key is None:
                raise InternalError("a check was sent without the peer's password")
            if not message.verify_integrity(key):
                raise Discard(IceDiscard.WRONG_INTEGRITY)
            if has_unknown_required(message):
                raise Discard(IceDiscard.UNKNOWN_REQUIRED_ATTRIBUTE)
            return generation, check
        raise Discard(IceDiscard.UNKNOWN_TRANSACTION)

    def _receive_success(self, message: Message, flow: Flow, now: float) -> None:
        generation, check = self._open_check(message)
        if flow != check.pair.flow:
            generation.paths.receive_refusal(message.transaction_id, check, now)
            self._settle(now)
            raise Discard(IceDiscard.ASYMMETRIC_ANSWER)  # RFC 8445 section 7.2.5.2.1
        value = message.get(Attribute.XOR_MAPPED_ADDRESS)
        mapped = None if value is None else decode_xor_address(value, message.transaction_id)
        generation.paths.receive_success(message.transaction_id, check, mapped, now)
        if self._context.rider is not None:
            self._context.rider.receive_attributes(message, flow, now)
        self._settle(now)

    def _receive_error(self, message: Message, now: float) -> None:
        generation, check = self._open_check(message)
        code, _ = decode_error_code(message.get(Attribute.ERROR_CODE) or b"")
        if code == _ROLE_CONFLICT:
            if self._context.role is check.role and not generation.keys.remote_is_lite:
                self._switch_role(now)
                self._context.draw_tie_breaker()
            generation.paths.receive_conflict(message.transaction_id, check, now)
        elif code not in _PASSING_ERRORS:
            generation.paths.receive_refusal(message.transaction_id, check, now)
        self._settle(now)

    # -- states -------------------------------------------------------------------------

    def _generations(self) -> tuple[Generation, ...]:
        if self._previous is None:
            return (self._current,)
        return self._current, self._previous

    def _settle(self, now: float) -> None:
        """Draw the conclusions from whatever has just changed."""
        context = self._context
        if self._previous is not None:
            self._retire_previous()
        if context.fresh_flows:
            flows, context.fresh_flows = context.fresh_flows, []
            if context.rider is not None:
                for flow in flows:
                    context.rider.receive_path(flow, now)
        status = self._current.paths.status()
        if status is not self._status:
            self._status = status
            self._become(_STATUS_INPUTS[status], now)

    def _retire_previous(self) -> None:
        previous = self._previous
        if previous is None:
            return
        over = previous.paths.status() in (PathStatus.CONSENT_LOST, PathStatus.EXHAUSTED)
        if over or self._current.paths.selected_flow is not None:
            previous.paths.close()
            self._previous = None

    def _become(self, why: Input, now: float) -> None:
        state = TRANSITIONS.get((self.state, why), self.state)
        if state is self.state:
            return
        self.state = state
        self._context.emit(now, "ice:state_changed", state=state.value, why=why.value)
        self._context.happened.append(StateChanged(state))
        if state is IceState.FAILED:
            self._close_paths()
            lost = why is Input.CONSENT_LOST
            self._context.happened.append(
                Terminated(
                    ConsentLost("the peer has stopped answering consent checks")
                    if lost
                    else NoPath("no candidate pair works")
                )
            )

    def _close_paths(self) -> None:
        for generation in self._generations():
            generation.paths.close()
        self._previous = None
