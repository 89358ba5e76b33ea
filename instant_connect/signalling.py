"""Offers become calls: the rules of WHIP (RFC 9725) and of `/v1/realtime/calls`, without HTTP.

    POST   offer ─▶ open ──▶ 201, answer, Location, ETag     the same offer again: the same answer
    PATCH  fragment ─▶ patch ─┬ candidates ──────────▶ 204
                              └ other credentials ───▶ 200, fragment, ETag      (an ICE restart)
    PUT    offer ─▶ reoffer ─▶ 200, answer, ETag             media changes in mid-call; not in WHIP
    DELETE, POST .../hangup ─▶ hang_up ─▶ 200                and 404 from then on

An answer is ready at once, nothing is gathered. Sections that a voice server cannot carry (video,
a second audio) are refused inside the answer. Called by `io.asgi`, by tests with a double of the
server; whatever is not granted is a `Refusal`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from instant_connect.calls import Call, CallInfo, Calls, CallSession, full
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
from instant_connect.offers import Kind, described, read_offer
from instant_connect.sdpfrag import (
    Fragment,
    credentials_of,
    fragment_of,
    parse_sdpfrag,
    restarted_offer,
)
from warp.entropy import Entropy
from warp.errors import InvalidConfig, InvalidState
from warp.sdp import SdpError

T = TypeVar("T")
PATHS: Final = {Kind.WHIP: "/whip", Kind.REALTIME: "/v1/realtime/calls"}
_ACCEPT_PATCH: Final = ("Accept-Patch", SDP_FRAGMENT)
_MAX_FRAGMENT_BYTES: Final = 32_768


class Answerer(Protocol):
    """What makes sessions (`warp.io.Server`)."""

    def accept_offer(self, sdp: str) -> CallSession:
        """Answer an offer at once; raises `SdpError`, or `InvalidState` when full."""


class Signalling:
    """The calls of one server. `welcome` introduces each new one to whoever answers it."""

    __slots__ = ("_answerer", "_config", "_welcome", "calls")

    def __init__(
        self,
        answerer: Answerer,
        config: SignallingConfig,
        *,
        entropy: Entropy,
        welcome: Callable[[Call], None],
    ) -> None:
        self._answerer = answerer
        self._config = config
        self._welcome = welcome
        self.calls = Calls(entropy, limit=config.max_calls, retry_after_s=config.retry_after_s)

    # -- a call begins ------------------------------------------------------------------------

    def open(self, ask: Ask, kind: Kind, clock: Callable[[], float]) -> Reply:
        """Answer an offer (RFC 9725 section 4.2), or repeat the answer that it was given."""
        offer = read_offer(ask, kind, self._config)
        call = self.calls.find(offer.key) if offer.key is not None else None
        if call is None:
            self.calls.admit()
            session = self._answered(lambda: self._answerer.accept_offer(offer.sdp))
            info = CallInfo(
                id=self.calls.new_id(),
                kind=kind,
                client=ask.client,
                config=offer.session,
                dcid=offer.dcid,
            )
            call = Call(info=info, session=session, key=offer.key, asked_at=ask.now)
            self.calls.add(call)
            try:
                self._welcome(call)
            except Refusal:
                self.calls.remove(call)
                raise
            call.answered_at = clock()
        return Reply(
            status=201,
            body=call.session.answer,
            content_type=SDP,
            headers=(
                ("Location", f"{ask.base}{PATHS[kind]}/{call.info.id}"),
                ("ETag", call.etag),
                _ACCEPT_PATCH,
                *self._links(),
            ),
        )

    def _answered(self, answer: Callable[[], T]) -> T:
        """Return the answer; raise `Refusal` for what is wrong with the offer or the moment."""
        try:
            return answer()
        except SdpError as error:
            raise refuse_sdp(error) from error
        except InvalidConfig as error:
            raise Refusal(400, "invalid_offer", str(error)) from error
        except InvalidState as error:
            raise full(str(error), self._config.retry_after_s) from error

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
        answer = self._renegotiated(call, offer)
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
            self._renegotiated(call, offer)
            call.restarted = True
            return _restarted(call)
        for line in fragment.candidates:
            _trickle(call, line)
        if fragment.end_of_candidates:
            _trickle(call, None)
        # a restart that is asked for again, because its answer was lost
        is_repeated = call.restarted and fragment.pwd and is_any(ask.if_match)
        return _restarted(call) if is_repeated else Reply(status=204)

    def _renegotiated(self, call: Call, offer: str) -> str:
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


def _restarts(session: CallSession, fragment: Fragment) -> bool:
    """Whether the fragment begins another ICE session."""
    if not fragment.ufrag:
        return False
    ufrag, pwd = credentials_of(session.remote_description)
    if fragment.ufrag == ufrag and fragment.pwd in ("", pwd):
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


def _trickle(call: Call, line: str | None) -> None:
    try:
        call.session.add_remote_candidate(line)
    except InvalidConfig:
        # a transport or an address that we do not know is left out (RFC 9725 section 4.3.2)
        return
    except InvalidState as error:
        raise Refusal(404, "call_not_found", str(error)) from error


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
