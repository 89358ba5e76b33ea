"""Offers whose sessions begin elsewhere: calls with a name before there is anything behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from instant_connect.answers import Status
from instant_connect.calls import Call
from instant_connect.config import SignallingConfig
from instant_connect.exchange import SDP, SDP_FRAGMENT, Ask, AttemptNames, Refusal, Reply
from instant_connect.offers import Kind
from instant_connect.profile import UNKNOWN_PASSWORD
from instant_connect.sessions import Path
from instant_connect.signalling import Elsewhere, PromisedSession, Signalling
from tests.unit.instant_connect.doubles import DoubleServer, DoubleSession
from tests.unit.sdp import shapes
from tests.unit.sdp.build import capture
from warp.entropy import SeededEntropy
from warp.errors import InvalidState

OFFER = capture("chromium156_warp_offer")
ATTEMPT = AttemptNames(ufrag="the-attempts-name", proof="its proof")
CANDIDATE = "candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host"


class Promised(DoubleSession):
    """A session that is promised; its attempt has begun or not."""

    def __init__(self, number: int, offer: str, status: Status) -> None:
        super().__init__(number, offer)
        self.status = status
        self.path = Path.SIGNALLED if status is Status.NEW else Path.ATTACHED
        self.has_begun = status is not Status.NEW


class InstantDouble:
    """Joins the attempts that it is told of."""

    def __init__(self) -> None:
        self.joined: dict[str, Promised] = {}
        self.withdrawn: list[PromisedSession] = []
        self.asked: list[tuple[Ask, int | None]] = []
        self.elsewhere = False

    def answer_offer(self, sdp: str, ask: Ask, dcid: int | None) -> Promised:
        self.asked.append((ask, dcid))
        if self.elsewhere:
            raise Elsewhere(3, settled=True)
        if sdp == "full":
            raise InvalidState("the server already serves 9 sessions")
        number = len(self.asked)
        known = self.joined.get(ask.attempt.ufrag) if ask.attempt is not None else None
        if known is None:
            return Promised(number, sdp, Status.NEW)
        if known.remote_description == "":
            known.accept_offer(sdp)
        return known

    def withdraw(self, session: PromisedSession) -> None:
        self.withdrawn.append(session)


class Site:
    def __init__(self, **config: Any) -> None:
        self.instant = InstantDouble()
        self.welcomed: list[Call] = []
        self.signalling = Signalling(
            DoubleServer(),
            SignallingConfig(**config),
            entropy=SeededEntropy(1),
            welcome=self.welcomed.append,
            instant=self.instant,
        )

    def attempt(self, name: str = ATTEMPT.ufrag) -> Promised:
        """A session that an offer will find."""
        self.instant.joined[name] = Promised(100, OFFER, Status.ATTACHED)
        return self.instant.joined[name]

    def open(self, offer: str = OFFER, kind: Kind = Kind.REALTIME, **fields: Any) -> Reply:
        ask = Ask(content_type=SDP, body=offer.encode(), **fields)
        return self.signalling.open(ask, kind, lambda: 1.0)

    def patch(self, call_id: str, fragment: str, if_match: str = "*") -> Reply:
        ask = Ask(content_type=SDP_FRAGMENT, body=fragment.encode(), if_match=if_match)
        return self.signalling.patch(ask, call_id)


def headers(reply: Reply) -> dict[str, str]:
    return dict(reply.headers)


def name_of(reply: Reply) -> str:
    return headers(reply)["Location"].rpartition("/")[2]


def test_an_offer_is_answered_and_nobody_is_called() -> None:
    site = Site()
    reply = site.open(query={"dcid": "3"}, policy=7)
    assert reply.status == 201
    assert "Instant-Status" not in headers(reply)
    assert site.welcomed == []
    [(ask, dcid)] = site.instant.asked
    assert (ask.policy, dcid) == (7, 3)
    assert site.signalling.calls.get(name_of(reply)).info.path is Path.SIGNALLED


def test_an_attempt_that_is_joined_and_one_that_is_not() -> None:
    site = Site()
    site.attempt()
    assert headers(site.open(attempt=ATTEMPT))["Instant-Status"] == "attached"
    stale = AttemptNames(ufrag="unknown")
    assert headers(site.open(shapes.FIREFOX, attempt=stale))["Instant-Status"] == "new"


def test_an_offer_finds_the_call_that_began_without_it() -> None:
    """And so does another offer of the same attempt: a second connection, or a third."""
    site = Site()
    session = site.attempt()
    met = site.signalling.meet(session, 5, None)
    assert (met.info.kind, met.info.policy, met.info.path) == (Kind.INSTANT, 5, Path.ATTACHED)
    first = site.open(attempt=ATTEMPT, client="192.0.2.9")
    second = site.open(shapes.FIREFOX, attempt=ATTEMPT)
    assert name_of(first) == name_of(second) == met.info.id
    assert len(site.signalling.calls) == 1
    info = site.signalling.calls.get(met.info.id).info
    assert (info.kind, info.policy) == (Kind.REALTIME, 5)
    # the offer that came last is the one that a retry is known by
    assert site.open(shapes.FIREFOX, attempt=ATTEMPT).body == second.body


def test_a_call_is_met_once_its_client_is_proven() -> None:
    site = Site()
    site.attempt()
    reply = site.open(attempt=ATTEMPT)
    call = site.signalling.meet(site.instant.joined[ATTEMPT.ufrag], 2, None)
    assert call.info.id == name_of(reply)
    assert call.info.kind is Kind.REALTIME


def test_a_full_house_takes_back_what_it_has_promised() -> None:
    site = Site(max_calls=1)
    site.open()
    for attempt in (None, AttemptNames(ufrag="unknown")):
        with pytest.raises(Refusal) as caught:
            site.open(shapes.FIREFOX, attempt=attempt)
        assert caught.value.status == 503
    assert len(site.instant.withdrawn) == 2
    # one that waits for its first datagram is a call more, and one that has begun is not
    session = site.attempt()
    session.has_begun = False
    with pytest.raises(Refusal):
        site.open(shapes.FIREFOX, attempt=ATTEMPT)
    session.has_begun = True
    assert site.open(shapes.FIREFOX, attempt=ATTEMPT).status == 201


def test_an_attempt_that_is_elsewhere_is_not_answered_here() -> None:
    site = Site()
    site.instant.elsewhere = True
    with pytest.raises(Elsewhere) as caught:
        site.open(attempt=ATTEMPT)
    assert (caught.value.server, caught.value.settled) == (3, True)
    assert len(site.signalling.calls) == 0


def test_a_request_without_its_attempt_says_that_it_is_new() -> None:
    site = Site()
    ask = Ask(content_type=SDP, body=OFFER.encode(), attempt=ATTEMPT, hops=1, policy=4).alone()
    reply = site.signalling.open(ask, Kind.WHIP, lambda: 1.0)
    assert headers(reply)["Instant-Status"] == "new"
    assert (ask.attempt, ask.policy) == (AttemptNames(ufrag=""), 4)


def test_a_password_that_was_never_told_is_no_restart() -> None:
    """A stand-in for the offer has the client's ufrag; its candidates come with both."""
    site = Site()
    session = site.attempt()
    session.remote_description = session.remote_description.replace(
        "YfaXBybTLrDss7COhKwflRSq", UNKNOWN_PASSWORD
    )
    call_id = name_of(site.open(attempt=ATTEMPT))
    own = "a=ice-ufrag:sWwm\r\na=ice-pwd:YfaXBybTLrDss7COhKwflRSq\r\n"
    reply = site.patch(call_id, f"{own}a={CANDIDATE}\r\n")
    assert reply.status == 204
    assert session.candidates == [CANDIDATE]
    restarted = site.patch(call_id, own.replace("sWwm", "fresh"))
    assert restarted.status == 200


def test_a_call_is_hung_up_whatever_it_is() -> None:
    site = Site()
    session = site.attempt()
    call_id = name_of(site.open(attempt=ATTEMPT))
    assert asyncio.run(site.signalling.hang_up(call_id)).status == 200
    assert session.has_ended
    assert site.signalling.calls.of(session) is None


def test_what_an_attempt_says_is_in_no_representation() -> None:
    shown = repr(Ask(attempt=ATTEMPT))
    assert ATTEMPT.ufrag not in shown
    assert ATTEMPT.proof not in shown
