"""The rules of WHIP and of renegotiation, told by a server without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from instant_connect.calls import Call
from instant_connect.config import IceServer, SignallingConfig
from instant_connect.exchange import SDP, SDP_FRAGMENT, Ask, Refusal, Reply
from instant_connect.offers import Kind
from instant_connect.sdpfrag import parse_sdpfrag
from instant_connect.signalling import Signalling, is_any, require_match
from tests.unit.instant_connect.doubles import DoubleServer, DoubleSession
from tests.unit.sdp import shapes
from tests.unit.sdp.build import capture
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig, InvalidState
from warp.sdp import parse_description

OFFER = capture("chromium156_warp_offer")
CANDIDATE = "candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host"
FRESH = "a=ice-ufrag:fresh\r\na=ice-pwd:" + "f" * 24 + "\r\n"
OWN = "a=ice-ufrag:sWwm\r\na=ice-pwd:YfaXBybTLrDss7COhKwflRSq\r\n"


class Site:
    """Signalling over the double, and short ways to ask it."""

    def __init__(self, welcome: Callable[[Call], None] | None = None, **config: Any) -> None:
        self.server = DoubleServer()
        self.welcomed: list[Call] = []
        self.signalling = Signalling(
            self.server,
            SignallingConfig(**config),
            entropy=SeededEntropy(1),
            welcome=welcome or self.welcomed.append,
        )

    def open(self, offer: str = OFFER, kind: Kind = Kind.WHIP, **fields: Any) -> Reply:
        ask = Ask(content_type=SDP, body=offer.encode(), now=10.0, **fields)
        return self.signalling.open(ask, kind, lambda: 10.002)

    def put(self, call_id: str, offer: str, if_match: str | None = None) -> Reply:
        ask = Ask(content_type=SDP, body=offer.encode(), if_match=if_match)
        return self.signalling.reoffer(ask, call_id)

    def patch(self, call_id: str, fragment: str, if_match: str | None) -> Reply:
        ask = Ask(content_type=SDP_FRAGMENT, body=fragment.encode(), if_match=if_match)
        return self.signalling.patch(ask, call_id)

    @property
    def session(self) -> DoubleSession:
        return self.server.sessions[-1]

    @property
    def id(self) -> str:
        return self.welcomed[-1].info.id


def header(reply: Reply, name: str) -> str:
    [value] = [value for key, value in reply.headers if key == name]
    return value


def refused(ask: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        ask()
    return caught.value.status, caught.value.code


# -- a call begins -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "place"), [(Kind.WHIP, "/whip/"), (Kind.REALTIME, "/v1/realtime/calls/")]
)
def test_an_offer_is_answered_at_once(kind: Kind, place: str) -> None:
    site = Site()
    reply = site.open(kind=kind, base="/voice", client="192.0.2.1")
    assert (reply.status, reply.content_type) == (201, SDP)
    assert reply.body == site.session.answer
    assert header(reply, "Location") == f"/voice{place}{site.id}"
    assert header(reply, "ETag") == site.welcomed[0].etag
    assert header(reply, "Accept-Patch") == SDP_FRAGMENT
    [call] = site.welcomed
    assert (call.info.kind, call.info.client, call.session) == (kind, "192.0.2.1", site.session)
    assert (call.asked_at, call.answered_at) == (10.0, 10.002)


def test_ice_servers_are_told_with_the_answer() -> None:
    servers = (IceServer(url="stun:a.example"), IceServer(url="turn:b.example", username="u"))
    reply = Site(ice_servers=servers).open()
    links = [value for name, value in reply.headers if name == "Link"]
    assert links == [server.link() for server in servers]


def test_the_same_offer_again_is_the_same_call() -> None:
    site = Site()
    first, again = site.open(), site.open()
    assert first == again
    assert len(site.server.sessions) == len(site.welcomed) == 1
    # through the other door it is another call
    site.open(kind=Kind.REALTIME)
    assert len(site.server.sessions) == 2


def test_a_retry_is_answered_even_when_the_house_is_full() -> None:
    site = Site(max_calls=1)
    first = site.open()
    assert site.open() == first
    assert refused(lambda: site.open(shapes.FIREFOX)) == (503, "server_full")


def test_an_offer_of_a_call_that_has_ended_makes_a_new_one() -> None:
    site = Site()
    first = site.open()
    asyncio.run(site.signalling.hang_up(site.id))
    again = site.open()
    assert header(again, "Location") != header(first, "Location")
    assert again.body != first.body


def test_the_offer_of_a_call_that_has_moved_on_is_not_its_answer() -> None:
    site = Site()
    site.open()
    site.patch(site.id, FRESH, "*")
    site.open()
    assert len(site.server.sessions) == 2


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (InvalidState("the server already serves 10000 sessions"), (503, "server_full")),
        (InvalidConfig("two lite agents cannot check each other"), (400, "invalid_offer")),
    ],
)
def test_what_the_stack_refuses_leaves_nothing_behind(
    fault: Exception, expected: tuple[int, str]
) -> None:
    site = Site()
    site.server.fault = fault
    assert refused(site.open) == expected
    assert len(site.signalling.calls) == 0
    assert site.open().status == 201


def test_a_description_that_breaks_a_rule_is_told_where() -> None:
    with pytest.raises(Refusal) as caught:
        Site().open(OFFER.replace("a=ice-pwd:", "a=ice-pwd:short\r\na=x:", 1))
    told = json.loads(caught.value.reply().body)["error"]
    assert (told["rule"], told["line"]) == ("ice_pwd", 13)


def test_an_application_that_refuses_leaves_nothing_behind() -> None:
    def welcome(call: Call) -> None:
        raise Refusal(500, "internal_error", "no")

    site = Site(welcome)
    assert refused(site.open) == (500, "internal_error")
    assert len(site.signalling.calls) == 0


def test_the_clock_is_read_after_the_application_was_told() -> None:
    told: list[float] = []
    site = Site(lambda call: told.append(call.answered_at))
    site.open()
    assert told == [0.0]


# -- trickle (RFC 9725 section 4.3.2) ----------------------------------------------------------


def test_candidates_reach_the_session() -> None:
    site = Site()
    tag = header(site.open(), "ETag")
    reply = site.patch(site.id, f"{OWN}m=audio 9 X 0\r\na=mid:0\r\na={CANDIDATE}\r\n", tag)
    assert reply == Reply(status=204)
    assert site.session.candidates == [CANDIDATE]
    site.patch(site.id, "a=end-of-candidates\r\n", tag)
    assert site.session.candidates == [CANDIDATE, None]


def test_a_candidate_that_nobody_knows_is_left_out() -> None:
    site = Site()
    site.open()
    fragment = f"a=candidate:x y z\r\na={CANDIDATE}\r\n"
    assert site.patch(site.id, fragment, "*").status == 204
    assert site.session.candidates == [CANDIDATE]


@pytest.mark.parametrize(
    ("if_match", "expected"),
    [
        (None, (428, "precondition_required")),
        ('"other"', (412, "precondition_failed")),
        ("", (412, "precondition_failed")),
    ],
)
def test_a_fragment_says_which_ice_session_it_means(
    if_match: str | None, expected: tuple[int, str]
) -> None:
    site = Site()
    site.open()
    assert refused(lambda: site.patch(site.id, FRESH, if_match)) == expected
    assert site.session.candidates == []


@pytest.mark.parametrize(
    ("fragment", "code"),
    [
        ("", "empty_body"),
        ("v=0", "invalid_sdp"),
        ("a=ice-ufrag:else\r\n", "unknown_ice_session"),
        ("a=ice-pwd:" + "f" * 24, "invalid_sdp"),
    ],
)
def test_a_malformed_fragment_changes_nothing(fragment: str, code: str) -> None:
    site = Site()
    before = site.open()
    assert refused(lambda: site.patch(site.id, fragment, "*")) == (400, code)
    assert site.open() == before


def test_a_fragment_has_its_own_type_and_size() -> None:
    site = Site()
    site.open()
    wrong = Ask(content_type=SDP, body=FRESH.encode(), if_match="*")
    assert refused(lambda: site.signalling.patch(wrong, site.id)) == (415, "unsupported_media_type")
    assert refused(lambda: site.patch(site.id, "a=x\r\n" * 10_000, "*")) == (413, "too_large")


@pytest.mark.parametrize(
    ("given", "matches"),
    [
        ('"tag"', True),
        ('"a", "tag"', True),
        ("*", True),
        ('"*"', True),
        (' "tag" ', True),
        ('W/"tag"', False),
        ("tag", False),
        ('"tag', False),
        ("", False),
    ],
)
def test_conditions_are_strong(given: str, matches: bool) -> None:
    """RFC 9110 section 13.1.1."""
    if matches:
        require_match(given, '"tag"')
    else:
        assert refused(lambda: require_match(given, '"tag"')) == (412, "precondition_failed")
    assert is_any(given) is ("*" in given)


# -- ICE restart (RFC 9725 section 4.3.3) ------------------------------------------------------


def test_other_credentials_restart_ice() -> None:
    site = Site()
    before = site.open()
    reply = site.patch(site.id, f"{FRESH}a={CANDIDATE}\r\n", "*")
    assert (reply.status, reply.content_type) == (200, SDP_FRAGMENT)
    assert header(reply, "ETag") != header(before, "ETag")
    told = parse_sdpfrag(reply.body)
    [ours] = {m.transport.ufrag for m in parse_description(site.session.answer).media}
    assert told.ufrag == ours
    assert "a=ice-lite" in reply.body
    remote = parse_description(site.session.remote_description).media[0].transport
    assert (remote.ufrag, remote.candidates) == ("fresh", (CANDIDATE,))
    # what was known of the old one counts no more
    old = header(before, "ETag")
    assert refused(lambda: site.patch(site.id, f"a={CANDIDATE}\r\n", old))[0] == 412
    assert site.patch(site.id, f"{FRESH}a={CANDIDATE}\r\n", header(reply, "ETag")).status == 204


def test_a_restart_asked_for_twice_is_one_restart() -> None:
    """Its answer was lost; the second is the same."""
    site = Site()
    site.open()
    first = site.patch(site.id, FRESH, "*")
    assert site.patch(site.id, FRESH, "*") == first


def test_a_client_that_never_restarted_gets_no_restart() -> None:
    site = Site()
    site.open()
    assert site.patch(site.id, OWN, "*").status == 204


def test_a_restart_that_cannot_be_leaves_the_session_alone() -> None:
    site = Site()
    before = site.open()

    def fail(_: str) -> str:
        raise InvalidState("the description asks for another DTLS association")

    site.session.accept_offer = fail  # type: ignore[method-assign]
    assert refused(lambda: site.patch(site.id, FRESH, "*")) == (409, "not_renegotiable")
    assert site.open() == before


# -- renegotiation ------------------------------------------------------------------------------


def test_another_offer_of_the_same_peer_is_answered() -> None:
    site = Site()
    before = site.open()
    without_audio = OFFER.replace("m=audio 58108", "m=audio 0")
    reply = site.put(site.id, without_audio)
    assert (reply.status, reply.content_type, reply.body) == (200, SDP, site.session.answer)
    assert header(reply, "ETag") == header(before, "ETag")
    assert parse_description(reply.body).media[0].rejected


def test_another_offer_may_restart_ice() -> None:
    site = Site()
    before = site.open()
    reply = site.put(site.id, OFFER.replace("sWwm", "else"), header(before, "ETag"))
    assert header(reply, "ETag") != header(before, "ETag")
    stale = header(before, "ETag")
    assert refused(lambda: site.put(site.id, OFFER, stale)) == (412, "precondition_failed")


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        ("", (400, "empty_body")),
        ("nonsense", (400, "invalid_sdp")),
        (OFFER + "m=audio 9 X 0\r\n" * 70, (400, "too_many_lines")),
        ("x" * 70_000, (413, "too_large")),
    ],
)
def test_an_offer_in_mid_call_is_read_with_the_same_care(
    offer: str, expected: tuple[int, str]
) -> None:
    site = Site()
    site.open()
    assert refused(lambda: site.put(site.id, offer)) == expected


# -- the end -------------------------------------------------------------------------------------


def test_a_call_is_ended_once() -> None:
    site = Site()
    site.open()
    assert asyncio.run(site.signalling.hang_up(site.id)) == Reply(status=200)
    assert site.session.has_ended
    for ask in (
        lambda: asyncio.run(site.signalling.hang_up(site.id)),
        lambda: site.patch(site.id, FRESH, "*"),
        lambda: site.put(site.id, OFFER),
    ):
        assert refused(ask) == (404, "call_not_found")


def test_a_session_that_ended_in_between_is_gone() -> None:
    site = Site()
    site.open()
    site.session.has_ended = True
    assert refused(lambda: site.patch(site.id, f"a={CANDIDATE}\r\n", "*"))[0] == 404


def test_closing_ends_every_call() -> None:
    site = Site()
    site.open()
    site.open(shapes.FIREFOX)
    asyncio.run(site.signalling.close())
    assert all(session.has_ended for session in site.server.sessions)
    assert len(site.signalling.calls) == 0
