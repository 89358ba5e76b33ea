"""Offers become calls: the rules of WHIP (RFC 9725) and of `/v1/realtime/calls`, without HTTP.

    POST   offer ─▶ open ──▶ 201, answer, Location, ETag     the same offer again: the same answer
    PATCH  fragment ─▶ patch ─┬ candidates ──────────▶ 204
                              └ other credentials ───▶ 200, fragment, ETag      (an ICE restart)
    PUT    offer ─▶ reoffer ─▶ 200, answer, ETag             media changes in mid-call; not in WHIP
    DELETE, POST .../hangup ─▶ hang_up ─▶ 200                and 404 from then on

An offer that comes beside an attempt joins it (`Instant-Status: attached`). An answer is ready at
once, nothing is gathered. Sections that a voice server cannot carry (video,
a second audio) are refused inside the answer. Called by `io.asgi`, by tests with a double of the
server; whatever is not granted is a `Refusal`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from instant_connect.answers import Status
from instant_connect.calls import Call, CallInfo, Calls, CallSession
from instant_connect.config import SignallingConfig
from instant_connect.exchange import (
    SDP,
    SDP_FRAGMENT,
    Ask,
    Headers,
    Refusal,
    Reply,
    refuse_sdp,
    require_type,
    text_of,
)
from instant_connect.offers import Kind, Offer, described, read_offer
from instant_connect.profile import UNKNOWN_PASSWORD
from instant_connect.sdpfrag import (
    Fragment,
    credentials_of,
    fragment_of,
    parse_sdpfrag,
    restarted_offer,
)
from instant_connect.sessions import Path
from warp.entropy import Entropy
from warp.errors import InvalidConfig, InvalidState
from warp.sdp import SdpError

if TYPE_CHECKING:
    from warp.io import Channel

T = TypeVar("T")
PATHS: Final = {Kind.WHIP: "/whip", Kind.REALTIME: "/v1/realtime/calls"}
STATUS_HEADER: Final = "Instant-Status"
_ACCEPT_PATCH: Final = ("Accept-Patch", SDP_FRAGMENT)
_MAX_FRAGMENT_BYTES: Final = 32_768


class Answerer(Protocol):
    """What makes sessions (`warp.io.Server`)."""

    def accept_offer(self, sdp: str) -> CallSession:
        """Answer an offer at once; raises `SdpError`, or `InvalidState` when full."""


class PromisedSession(CallSession, Protocol):
    """A session that begins with its client's first datagram, or has begun by one."""

    @property
    def status(self) -> Status:
        """What the last offer has come to: a session of its own, or that of an attempt."""

    @property
    def path(self) -> Path:
        """Which way the session came, as far as is known."""

    @property
    def has_begun(self) -> bool:
        """Whether the server has it already: then it is no more for the offer."""


class Elsewhere(Exception):
    """The session of an attempt is another server's: the request goes on to that as it is."""

    def __init__(self, server: int, *, settled: bool) -> None:
        super().__init__("the session of this attempt is another server's")
        self.server = server
        self.settled = settled


class InstantAnswerer(Protocol):
    """What answers offers and makes no sessions of them (`instant_connect.io.InstantServer`)."""

    def answer_offer(self, sdp: str, ask: Ask, dcid: int | None) -> PromisedSession:
        """Answer the offer of a request; of an attempt that can be joined, return the session.

        `dcid` is the stream id of the client's events channel, if that is negotiated. Raises
        `SdpError`, `Elsewhere`, and `InvalidState` when full or draining.
        """

    def withdraw(self, session: PromisedSession) -> None:
        """Let no session come of an answer that is not given after all."""


class Signalling:
    """The calls of one server. `welcome` introduces each new one to whoever answers it.

    With `instant` an offer makes no session: its client's first datagram does, and whoever answers
    calls hears of it when that client is proven, from elsewhere.
    """

    __slots__ = ("_answerer", "_config", "_instant", "_welcome", "calls")

    def __init__(
        self,
        answerer: Answerer,
        config: SignallingConfig,
        *,
        entropy: Entropy,
        welcome: Callable[[Call], None],
        instant: InstantAnswerer | None = None,
        server: int = 0,
    ) -> None:
        self._answerer = answerer
        self._instant = instant
        self._config = config
        self._welcome = welcome
        self.calls = Calls(
            entropy,
            limit=config.max_calls,
            retry_after_s=config.retry_after_s,
            server=server,
        )

    # -- a call begins ------------------------------------------------------------------------

    def open(self, ask: Ask, kind: Kind, clock: Callable[[], float]) -> Reply:
        """Answer an offer (RFC 9725 section 4.2), or repeat the answer that it was given."""
        call = self.begin(ask, kind, read_offer(ask, kind, self._config), clock)
        return Reply(
            status=201,
            body=call.session.answer,
            content_type=SDP,
            headers=(
                ("Location", f"{ask.base}{PATHS[kind]}/{call.info.id}"),
                ("ETag", call.etag),
                _ACCEPT_PATCH,
                *status_headers(call, ask),
                *self._links(),
            ),
        )

    def begin(self, ask: Ask, kind: Kind, offer: Offer, clock: Callable[[], float]) -> Call:
        """Return the call of an offer, which is answered; a new one unless the offer is known."""
        call = self.calls.find(offer.key) if offer.key is not None else None
        if call is None:
            call = self._begin(ask, kind, offer)
            call.answered_at = clock()
        return call

    def _begin(self, ask: Ask, kind: Kind, offer: Offer) -> Call:
        if self._instant is not None:
            return self._promise(self._instant, ask, kind, offer)
        self.calls.admit()
        session = self._answered(lambda: self._answerer.accept_offer(offer.sdp))
        call = Call(
            info=_info(self.calls.new_id(), ask, kind, offer, None),
            session=session,
            key=offer.key,
            asked_at=ask.now,
        )
        self.calls.add(call)
        try:
            self._welcome(call)
        except Refusal:
            self.calls.remove(call)
            raise
        return call

    def _promise(self, instant: InstantAnswerer, ask: Ask, kind: Kind, offer: Offer) -> Call:
        """Answer an offer whose session begins, or has begun, with its first datagram."""
        session = self._answered(lambda: instant.answer_offer(offer.sdp, ask, offer.dcid))
        call = self.calls.of(session)
        if call is None:
            if not session.has_begun:
                try:
                    self.calls.admit()
                except Refusal:
                    instant.withdraw(session)
                    raise
            info = _info(self.calls.new_id(), ask, kind, offer, session.path)
            call = Call(info=info, session=session, key=offer.key)
            self.calls.add(call)
        else:
            before = call.info
            info = _info(before.id, ask, kind, offer, session.path)
            call.info = replace(info, events=before.events, policy=before.policy)
            self.calls.name_offer(call, offer.key)
        call.status, call.asked_at = session.status, ask.now
        return call

    def meet(self, session: PromisedSession, policy: int, events: Channel | None) -> Call:
        """Return the call of a session whose client is proven; a new one where no offer came yet.

        `events` is the channel for events, where it is negotiated.
        """
        call = self.calls.of(session)
        if call is None:
            info = CallInfo(id=self.calls.new_id(), kind=Kind.INSTANT)
            call = Call(info=info, session=session, key=None)
            self.calls.add(call)
        dcid = None if events is None else events.stream_id
        call.info = replace(call.info, path=session.path, policy=policy, events=events, dcid=dcid)
        return call

    def _answered(self, answer: Callable[[], T]) -> T:
        """Return the answer; raise `Refusal` for what is wrong with the offer or the moment."""
        try:
            return answer()
        except SdpError as error:
            raise refuse_sdp(error) from error
        except InvalidConfig as error:
            raise Refusal(400, "invalid_offer", str(error)) from error
        except InvalidState as error:
            raise self.calls.full(str(error)) from error

    def _links(self) -> Headers:
        return tuple([("Link", server.link()) for server in self._config.ice_servers])

    # -- in mid-call --------------------------------------------------------------------------

    def reoffer(self, ask: Ask, call_id: str) -> Reply:
        """Answer another offer of the same peer: tracks come and go, ICE restarts with it."""
        call = self.calls.get(call_id)
        require_type(ask, SDP, header="Accept")
        if ask.if_match is not None:
            require_match(ask.if_match, call.etag)
        offer = text_of(ask.body, "the offer", limit=self._config.max_sdp_bytes)
        described(offer)
        answer = self.renegotiate(call, offer)
        return Reply(
            status=200, body=answer, content_type=SDP, headers=(("ETag", call.etag), _ACCEPT_PATCH)
        )

    def patch(self, ask: Ask, call_id: str) -> Reply:
        """Take in candidates or restart ICE (RFC 9725 section 4.3)."""
        call = self.calls.get(call_id)
        require_type(ask, SDP_FRAGMENT, header="Accept-Patch")
        if ask.if_match is None:
            raise Refusal(
                428,
                "precondition_required",
                'If-Match is needed: the ETag of the last answer, or "*" to restart ICE',
            )
        require_match(ask.if_match, call.etag)
        text = text_of(ask.body, "the fragment", limit=_MAX_FRAGMENT_BYTES)
        try:
            fragment = parse_sdpfrag(text)
            restarts = _restarts(call.session, fragment)
        except SdpError as error:
            raise refuse_sdp(error) from error
        if restarts:
            offer = restarted_offer(call.session.remote_description, fragment)
            self.renegotiate(call, offer)
            call.restarted = True
            return _restarted(call)
        for line in fragment.candidates:
            self.trickle(call, line)
        if fragment.end_of_candidates:
            self.trickle(call, None)
        # a restart that is asked for again, because its answer was lost
        is_repeated = call.restarted and fragment.pwd and is_any(ask.if_match)
        return _restarted(call) if is_repeated else Reply(status=204)

    def trickle(self, call: Call, line: str | None) -> None:
        """Take in one candidate, or None: no more come."""
        try:
            call.session.add_remote_candidate(line)
        except InvalidConfig:
            # a transport or an address that we do not know is left out (RFC 9725 section 4.3.2)
            return
        except InvalidState as error:
            raise Refusal(404, "call_not_found", str(error)) from error

    def renegotiate(self, call: Call, offer: str) -> str:
        """Answer another offer of a call; what cannot be is a `Refusal`, and changes nothing."""
        try:
            answer = call.session.accept_offer(offer)
        except SdpError as error:
            raise refuse_sdp(error) from error
        except InvalidConfig as error:
            raise Refusal(400, "invalid_offer", str(error)) from error
        except InvalidState as error:
            raise Refusal(409, "not_renegotiable", str(error)) from error
        self.calls.forget_offer(call)
        call.restarted = False
        return answer

    # -- the end ------------------------------------------------------------------------------

    async def hang_up(self, call_id: str) -> Reply:
        """End a call; whoever asks again finds none."""
        call = self.calls.get(call_id)
        self.calls.remove(call)
        await call.session.close()
        return Reply(status=200)

    async def close(self) -> None:
        """End every call."""
        for call in self.calls.list():
            self.calls.remove(call)
            await call.session.close()


def _info(call_id: str, ask: Ask, kind: Kind, offer: Offer, path: Path | None) -> CallInfo:
    return CallInfo(
        id=call_id,
        kind=kind,
        client=ask.client,
        config=offer.session,
        dcid=offer.dcid,
        path=path,
        policy=ask.policy,
    )


def status_headers(call: Call, ask: Ask) -> Headers:
    """Tell whoever names an attempt what became of it; a server that knows none has a new call."""
    if ask.attempt is None:
        return ()
    return ((STATUS_HEADER, (call.status or Status.NEW).value),)


def _restarts(session: CallSession, fragment: Fragment) -> bool:
    """Whether the fragment begins another ICE session."""
    if not fragment.ufrag:
        return False
    ufrag, pwd = credentials_of(session.remote_description)
    if fragment.ufrag == ufrag and (fragment.pwd in ("", pwd) or pwd == UNKNOWN_PASSWORD):
        return False
    if not fragment.pwd:
        raise Refusal(
            400,
            "unknown_ice_session",
            "the ice-ufrag is not that of the offer; a restart needs its ice-pwd too",
        )
    return True


def _restarted(call: Call) -> Reply:
    return Reply(
        status=200,
        body=fragment_of(call.session.answer),
        content_type=SDP_FRAGMENT,
        headers=(("ETag", call.etag), _ACCEPT_PATCH),
    )


def require_match(if_match: str, etag: str) -> None:
    """Raise `Refusal` (412) unless the condition names this ICE session (RFC 9110 13.1.1).

    The comparison is strong: a weak tag never matches.
    """
    if is_any(if_match) or etag in [tag.strip() for tag in if_match.split(",")]:
        return
    raise Refusal(
        412,
        "precondition_failed",
        "the ICE session has been replaced since: use the ETag of the last answer",
    )


def is_any(if_match: str) -> bool:
    """Whether a condition holds for every ICE session; RFC 9725 shows the star in quotes."""
    return if_match.strip() in ("*", '"*"')
