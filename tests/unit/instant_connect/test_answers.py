"""Offers are answered without a session, alone or beside an attempt."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from instant_connect.admission import AdmissionConfig, Verdict
from instant_connect.answers import Answer, Stale, Status
from instant_connect.client import InstantCall, compose_call
from instant_connect.decisions import Answered, Arrived, Dropped
from instant_connect.host import Host, HostConfig
from instant_connect.keyring import Epoch
from instant_connect.reasons import InstantDiscard
from instant_connect.router import Roster
from instant_connect.sessions import Path
from instant_connect.tiers import Tier
from instant_connect.ufrag import open_ufrag
from tests.unit.instant_connect.door import (
    CONTROLLING,
    HELLO,
    NOW,
    PRIORITY,
    RING,
    SPED_HELLO,
    WALL,
    Knocker,
    flow,
    make_host,
)
from tests.unit.sdp.build import capture
from tests.vectors.instant_connect import CERTIFICATE
from warp.crypto import Certificate
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig, InvalidState
from warp.ice import IceCredentials
from warp.peer import PeerConfig, PeerConnection
from warp.sdp import SdpError, negotiate, parse_description

BROWSERS = ["chromium156_default", "chromium156_warp", "chromium156_snap_only"]
CLIENT = Certificate.generate(SeededEntropy(b"a client"), WALL)


def offer_of(name: str) -> str:
    return capture(f"{name}_offer")


def own_offer(seed: int = 1, *, snap: bool = True) -> str:
    peer = PeerConnection(PeerConfig(snap=snap), certificate=CLIENT, entropy=SeededEntropy(seed))
    peer.add_local_address(("192.0.2.1", 4000), 0.0)
    return peer.create_offer(0.0)


def ufrag_of(offer: str) -> str:
    """The client's part of the USERNAME."""
    found = re.search(r"a=ice-ufrag:(\S+)", offer)
    assert found is not None
    return found[1]


def attempt(host: Host, offer: str, seed: int = 1, *, policy: int = 0) -> InstantCall:
    bundle = host.bundle(NOW, policy=policy)
    return compose_call(bundle, bundle.tickets[0], offer, CLIENT, SeededEntropy(seed))


def knock(answer: Answer, client_ufrag: str = "abcd") -> Knocker:
    """Whoever takes up an answer."""
    knocker = Knocker(client_ufrag=client_ufrag)
    found = re.search(r"a=ice-pwd:(\S+)", answer.sdp)
    assert found is not None
    knocker.ufrag, knocker.password = answer.ufrag, found.group(1)
    return knocker


def transport_part(text: str) -> list[str]:
    kinds = "ice-ufrag|ice-pwd|fingerprint|setup|candidate|ice-lite|ice-options|sctp-init"
    return re.findall(rf"a=(?:{kinds})[^\r]*", text)


# -- an offer alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BROWSERS, "aiortc116_chromium156"])
def test_an_offer_is_answered_and_nothing_begins(name: str) -> None:
    host = make_host()
    offer = parse_description(offer_of(name))
    answer = host.answers.answer(offer, NOW)
    assert (answer.status, len(host.sessions), host.stats()["held_offers"]) == (Status.NEW, 0, 1)
    described = parse_description(answer.sdp)
    agreed = negotiate(offer, described, is_offerer=True)
    assert agreed.transport.ufrag == answer.ufrag
    assert agreed.transport.is_dtls_client
    assert agreed.transport.ice_lite
    opened = open_ufrag(answer.ufrag, RING, WALL)
    assert agreed.transport.pwd == opened.password
    assert opened.ticket.offer_is_held
    [fingerprint] = offer.transport_of(offer.media[0]).fingerprints[:1]
    assert opened.attempt.fingerprint.hex(":").upper() == fingerprint[1]
    assert IceCredentials(answer.ufrag, opened.password)


def test_all_that_the_stack_can_do_is_in_the_answer() -> None:
    """Unlike the profile's: what was agreed on is held, so that it need not fit a ticket."""
    text = make_host().answers.answer(parse_description(offer_of("chromium156_warp")), NOW).sdp
    for word in ("extmap", "red/", "telephone-event", "rtcp-fb", "a=ssrc", "sctp-init", "sped"):
        assert word in text


def test_its_first_datagram_begins_the_session() -> None:
    host = make_host()
    offer = parse_description(own_offer())
    answer = host.answers.answer(offer, NOW, policy=3, context={"voice": "x"})
    knocker = knock(answer, offer.media[0].transport.ufrag)
    assert isinstance(host.receive_unknown(knocker.check(), flow(), NOW + 1), Answered)
    decision = host.receive_unknown(HELLO, flow(), NOW + 1)
    assert isinstance(decision, Arrived)
    session = decision.session
    assert (session.path, session.policy) == (Path.SIGNALLED, 3)
    assert session.context == {"voice": "x"}
    assert session.offer == offer
    assert session.peer.remote_description == str(offer)
    assert host.stats()["held_offers"] == 0
    host.sessions.authenticated(session, NOW + 2)
    assert session.tier is Tier.CONFIRMED
    host.sessions.end(session)
    late = host.receive_unknown(knocker.check(), flow(), NOW + 3)
    assert late == Dropped(InstantDiscard.ENDED)


def test_an_answer_that_nobody_takes_up_in_time_is_void() -> None:
    host = make_host()
    answer = host.answers.answer(parse_description(own_offer()), NOW)
    assert host.get_timer() == NOW + 60
    assert host.overdue(NOW + 60) == []
    assert host.stats()["held_offers"] == 0
    late = host.receive_unknown(knock(answer).check(), flow(), NOW + 60)
    assert late == Dropped(InstantDiscard.OFFER_FORGOTTEN)


def test_whoever_has_seen_the_ufrag_alone_gets_nothing() -> None:
    host = make_host()
    answer = host.answers.answer(parse_description(own_offer()), NOW)
    thief = knock(answer)
    thief.password = "p" * 32
    decision = host.receive_unknown(thief.check(SPED_HELLO), flow(), NOW)
    assert decision == Dropped(InstantDiscard.WRONG_INTEGRITY)
    # nor its password by asking for the same again
    again = host.answers.attach(parse_description(own_offer(2)), answer.ufrag, "", NOW)
    assert again.status is Status.NEW
    assert again.ufrag != answer.ufrag
    assert host.answers.stale[Stale.UNPROVEN] == 1


@pytest.mark.parametrize("kind", ["video", "nothing"])
def test_an_offer_with_nothing_for_us_leaves_nothing(kind: str) -> None:
    host = make_host()
    offer = parse_description(own_offer())
    if kind == "video":
        media = offer.media[0]._replace(kind="video")
        offer = offer._replace(media=(media,), bundles=(("0",),))
    else:
        offer = offer._replace(media=tuple(m._replace(port=0) for m in offer.media))
    with pytest.raises(SdpError):
        host.answers.answer(offer, NOW)
    assert host.stats()["held_offers"] == 0


def test_an_offer_of_channels_alone_and_one_of_audio_alone() -> None:
    host = make_host()
    whole = parse_description(own_offer())
    for index, mid in ((0, "0"), (1, "1")):
        offer = whole._replace(media=(whole.media[index],), bundles=((mid,),))
        knocker = knock(host.answers.answer(offer, NOW))
        decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(index), NOW)
        assert isinstance(decision, Arrived)


def test_an_offer_with_a_strange_payload_type_or_fingerprint() -> None:
    """They need not fit the ticket: what is held says them."""
    host = make_host()
    text = own_offer()
    prints = CLIENT.fingerprint("sha-384")
    for changed in (
        text.replace("SAVPF 111", "SAVPF 35").replace(":111 ", ":35 ").replace("111/111", "35/35"),
        re.sub(r"fingerprint:sha-256 \S+", f"fingerprint:sha-384 {prints}", text),
    ):
        knocker = knock(host.answers.answer(parse_description(changed), NOW))
        decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(len(changed)), NOW)
        assert isinstance(decision, Arrived)


def test_a_server_that_takes_no_more_says_so() -> None:
    offer = parse_description(own_offer())
    host = make_host(limits=AdmissionConfig(max_held_offers=1))
    host.answers.answer(offer, NOW)
    with pytest.raises(InvalidState, match="not taken up"):
        host.answers.answer(offer, NOW)
    full = make_host(limits=AdmissionConfig(max_sessions=1))
    full.receive_unknown(Knocker().check(SPED_HELLO), flow(), NOW)
    with pytest.raises(InvalidState, match="already serves"):
        full.answers.answer(offer, NOW)
    draining = make_host()
    draining.entrance.roster = Roster.of(0, 1, draining=[0])
    with pytest.raises(InvalidState, match="no new sessions"):
        draining.answers.answer(offer, NOW)


# -- an offer beside an attempt ------------------------------------------------------------------


@pytest.mark.parametrize("first", ["datagram", "offer"])
def test_an_offer_joins_its_attempt_whichever_comes_first(first: str) -> None:
    host = make_host()
    offer = own_offer()
    call = attempt(host, offer, policy=8)
    knocker = knock(Answer(Status.NEW, call.answer, call.ufrag), ufrag_of(offer))
    description = parse_description(offer)

    def post() -> Answer:
        return host.answers.attach(description, call.ufrag, call.proof, NOW, context="ctx")

    def arrive() -> Arrived:
        decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
        assert isinstance(decision, Arrived)
        return decision

    if first == "offer":
        answer = post()
        assert len(host.sessions) == 0
        session = arrive().session
    else:
        session = arrive().session
        answer = post()
    assert (answer.status, answer.ufrag) == (Status.ATTACHED, call.ufrag)
    assert transport_part(answer.sdp) == transport_part(call.answer)
    assert (session.path, session.context, session.policy) == (Path.ATTACHED, "ctx", 8)
    assert session.peer.remote_description == str(description)
    assert host.stats()["stale"] == {}
    # asking again changes nothing
    again = host.answers.attach(description, call.ufrag, call.proof, NOW, context="ctx")
    assert again == answer
    assert len(host.sessions) == 1


@pytest.mark.parametrize("name", BROWSERS)
def test_a_browsers_offer_joins_an_attempt_of_another_connection(name: str) -> None:
    """Firefox needs two connections: the offer is of the one, the attempt of the other."""
    host = make_host()
    call = attempt(host, offer := own_offer())
    knocker = knock(Answer(Status.NEW, call.answer, call.ufrag), ufrag_of(offer))
    decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
    assert isinstance(decision, Arrived)
    other = parse_description(offer_of(name))
    answer = host.answers.attach(other, call.ufrag, call.proof, NOW)
    assert answer.status is Status.ATTACHED
    assert decision.session.offer == other
    assert decision.session.peer.remote_description != str(other)


def test_the_proof_is_what_joins() -> None:
    host = make_host()
    offer = own_offer()
    call = attempt(host, offer)
    for proof in ("", "x" * 32, call.proof[:-1], call.proof.lower()):
        answer = host.answers.attach(parse_description(offer), call.ufrag, proof, NOW)
        assert answer.status is Status.NEW
        assert answer.ufrag != call.ufrag
    assert host.answers.stale[Stale.UNPROVEN] == 4


def test_a_stale_attempt_is_answered_anew() -> None:
    host = make_host()
    offer = parse_description(own_offer())
    call = attempt(host, own_offer())
    for ufrag in ("", "abcd", call.ufrag[:100], call.ufrag[:60] + "AAAA" + call.ufrag[64:], "é"):
        assert host.answers.attach(offer, ufrag, call.proof, NOW).status is Status.NEW
    late = host.answers.attach(offer, call.ufrag, call.proof, NOW + 661)
    assert late.status is Status.NEW
    assert host.answers.stale[Stale.UNREADABLE] == 6
    rotated = RING.rotate(Epoch(3, b"n" * 32, CERTIFICATE)).rotate(Epoch(4, b"o" * 32, CERTIFICATE))
    host.entrance.keyring = rotated
    assert host.answers.attach(offer, call.ufrag, call.proof, NOW).status is Status.NEW


def test_an_attempt_that_is_over_is_answered_anew() -> None:
    host = make_host()
    offer = own_offer()
    call = attempt(host, offer)
    knocker = knock(Answer(Status.NEW, call.answer, call.ufrag))
    decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
    assert isinstance(decision, Arrived)
    host.sessions.end(decision.session)
    answer = host.answers.attach(parse_description(offer), call.ufrag, call.proof, NOW)
    assert answer.status is Status.NEW
    assert host.answers.stale[Stale.OVER] == 1


def test_what_the_application_does_not_admit_is_absorbed_when_it_comes_late() -> None:
    host = make_host(admit=lambda ticket, address: Verdict.DROP)
    offer = own_offer()
    call = attempt(host, offer)
    answer = host.answers.attach(parse_description(offer), call.ufrag, call.proof, NOW)
    assert answer.status is Status.NEW
    assert host.answers.stale[Stale.NOT_ADMITTED] == 1
    knocker = knock(Answer(Status.NEW, call.answer, call.ufrag))
    late = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
    assert late == Dropped(InstantDiscard.USED_UP)
    # the new answer is good: its ticket was issued to whoever sent the offer
    taken = host.receive_unknown(knock(answer).check(CONTROLLING, PRIORITY), flow(1), NOW)
    assert isinstance(taken, Answered)


def test_an_attempt_of_another_server_is_answered_there() -> None:
    one, two = make_host(), make_host(config=HostConfig(server=1))
    one.entrance.roster = two.entrance.roster = Roster.of(0, 1)
    offer = own_offer()
    call = attempt(two, offer)
    description = parse_description(offer)
    answer = one.answers.attach(description, call.ufrag, call.proof, NOW)
    assert (answer.status, answer.server) == (Status.ELSEWHERE, 1)
    assert one.stats()["held_offers"] == 0
    there = two.answers.attach(description, call.ufrag, call.proof, NOW, hops=1)
    assert there.status is Status.ATTACHED


def test_an_offer_that_the_profile_cannot_answer_is_refused() -> None:
    host = make_host()
    call = attempt(host, own_offer())
    offer = parse_description(own_offer())
    broken = offer._replace(media=tuple(m._replace(port=0) for m in offer.media))
    with pytest.raises(SdpError):
        host.answers.attach(broken, call.ufrag, call.proof, NOW)
    assert host.stats()["held_offers"] == 0


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (lambda text: re.sub(r"a=ice-pwd:\S+", "a=ice-pwd:" + "!" * 24, text), "ICE password"),
        (lambda text: re.sub(r"a=ice-ufrag:\S+", "a=ice-ufrag:a(b)", text), "ICE ufrag"),
        (lambda text: text.replace("m=", "a=ice-lite\r\nm=", 1), "two lite agents"),
    ],
)
def test_what_no_connection_can_use_is_refused_with_the_offer(
    spoilt: Callable[[str], str], why: str
) -> None:
    """And not by the first datagram, to which nobody could say so."""
    host = make_host()
    text = own_offer()
    bad = parse_description(spoilt(text))
    with pytest.raises(InvalidConfig, match=why):
        host.answers.answer(bad, NOW)
    assert host.stats()["held_offers"] == 0
    first = host.answers.answer(parse_description(text), NOW)
    with pytest.raises(InvalidConfig, match=why):
        host.answers.revise(first.ufrag, bad, NOW)
    assert isinstance(host.receive_unknown(knock(first).check(SPED_HELLO), flow(), NOW), Arrived)
    call = attempt(host, text)
    with pytest.raises(InvalidConfig, match=why):
        host.answers.attach(bad, call.ufrag, call.proof, NOW)
    joined = host.answers.attach(parse_description(text), call.ufrag, call.proof, NOW)
    assert joined.status is Status.ATTACHED


# -- another offer, or none, before the first datagram ---------------------------------------------


def credentials(text: str) -> list[str]:
    return re.findall(r"a=(?:ice-ufrag|ice-pwd|fingerprint)[^\r]*", text)


@pytest.mark.parametrize("joined", [False, True], ids=["signalled", "attached"])
def test_another_offer_of_the_same_client_keeps_its_credentials(joined: bool) -> None:
    host = make_host()
    text = own_offer()
    offer = parse_description(text)
    if joined:
        call = attempt(host, text)
        first = host.answers.attach(offer, call.ufrag, call.proof, NOW, context="one")
    else:
        first = host.answers.answer(offer, NOW, context="one")
    muted = parse_description(text.replace("a=sendrecv", "a=recvonly"))
    again = host.answers.revise(first.ufrag, muted, NOW + 1)
    assert (again.status, again.ufrag) == (first.status, first.ufrag)
    assert credentials(again.sdp) == credentials(first.sdp)
    assert "a=sendonly" in again.sdp
    assert re.findall(r"a=ssrc:\d+", again.sdp) == re.findall(r"a=ssrc:\d+", first.sdp)
    assert re.findall(r"o=- \d+", again.sdp) == re.findall(r"o=- \d+", first.sdp)
    assert re.findall(r"a=sctp-init:\S+", again.sdp) == re.findall(r"a=sctp-init:\S+", first.sdp)
    decision = host.receive_unknown(knock(again).check(SPED_HELLO), flow(), NOW + 2)
    assert isinstance(decision, Arrived)
    assert decision.session.context == "one"
    assert decision.session.offer == muted


def void(joined: bool) -> InstantDiscard:
    """What is said of a ufrag that nothing comes of any more."""
    return InstantDiscard.ENDED if joined else InstantDiscard.OFFER_FORGOTTEN


@pytest.mark.parametrize("joined", [False, True], ids=["signalled", "attached"])
def test_a_restart_before_the_first_datagram_leaves_the_first_answer_void(joined: bool) -> None:
    host = make_host()
    text = own_offer()
    offer = parse_description(text)
    if joined:
        call = attempt(host, text)
        first = host.answers.attach(offer, call.ufrag, call.proof, NOW)
    else:
        first = host.answers.answer(offer, NOW)
    fresh = parse_description(re.sub(r"a=ice-ufrag:\S+", "a=ice-ufrag:fresh", text))
    again = host.answers.revise(first.ufrag, fresh, NOW)
    assert again.status is Status.NEW
    assert again.ufrag != first.ufrag
    late = host.receive_unknown(knock(first).check(SPED_HELLO), flow(), NOW)
    assert late == Dropped(void(joined))
    assert isinstance(host.receive_unknown(knock(again).check(SPED_HELLO), flow(1), NOW), Arrived)


def test_an_offer_that_breaks_a_rule_changes_nothing() -> None:
    host = make_host()
    offer = parse_description(own_offer())
    first = host.answers.answer(offer, NOW)
    fewer = offer._replace(media=offer.media[:1], bundles=(("0",),))
    with pytest.raises(SdpError):
        host.answers.revise(first.ufrag, fewer, NOW)
    refused = offer._replace(media=tuple(m._replace(port=0) for m in offer.media))
    with pytest.raises(SdpError):
        host.answers.revise(first.ufrag, refused, NOW)
    assert isinstance(host.receive_unknown(knock(first).check(SPED_HELLO), flow(), NOW), Arrived)


def test_a_line_that_was_refused_may_be_offered_anew() -> None:
    """A page that adds a camera twice: its browser uses the line again under another name."""
    host = make_host()
    offer = parse_description(own_offer())
    camera = offer.media[0]._replace(kind="video", mid="7")
    filmed = offer._replace(media=(*offer.media, camera), bundles=(("0", "1", "7"),))
    first = host.answers.answer(filmed, NOW)
    assert parse_description(first.sdp).media[2].rejected
    anew = camera._replace(mid="8")
    again = offer._replace(media=(*offer.media, anew), bundles=(("0", "1", "8"),))
    assert host.answers.revise(first.ufrag, again, NOW).ufrag == first.ufrag
    decision = host.receive_unknown(knock(first).check(SPED_HELLO), flow(), NOW)
    assert isinstance(decision, Arrived)
    peer = decision.session.peer
    third = again._replace(media=(*offer.media, camera._replace(mid="9")), bundles=(("0", "1"),))
    peer.set_remote_description("offer", str(third), NOW)
    assert parse_description(peer.create_answer(NOW)).media[2].mid == "9"


def test_an_answer_that_is_void_cannot_be_revised() -> None:
    host = make_host()
    offer = parse_description(own_offer())
    first = host.answers.answer(offer, NOW)
    host.overdue(NOW + 60)
    for ufrag in (first.ufrag, "abcd"):
        with pytest.raises(InvalidState, match="not taken up"):
            host.answers.revise(ufrag, offer, NOW + 61)


@pytest.mark.parametrize("joined", [False, True], ids=["signalled", "attached"])
@pytest.mark.parametrize("waiting", [False, True], ids=["unseen", "at T0"])
def test_who_hangs_up_before_the_first_datagram_gets_no_session(
    joined: bool, waiting: bool
) -> None:
    host = make_host()
    text = own_offer()
    if joined:
        call = attempt(host, text)
        answer = host.answers.attach(parse_description(text), call.ufrag, call.proof, NOW)
    else:
        answer = host.answers.answer(parse_description(text), NOW)
    knocker = knock(answer)
    if waiting:
        assert isinstance(host.receive_unknown(knocker.check(), flow(), NOW), Answered)
    host.entrance.forget(answer.ufrag, NOW)
    host.entrance.forget(answer.ufrag, NOW)
    host.entrance.forget("abcd", NOW)
    assert (host.stats()["held_offers"], host.stats()["waiting"]) == (0, 0)
    late = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
    assert late == Dropped(void(joined))


def test_answers_that_are_replaced_again_and_again_take_no_place() -> None:
    """Restarts cost a client nothing: if they did the server, one client could fill its table."""
    host = make_host()
    text = own_offer()
    answer = host.answers.answer(parse_description(text), NOW)
    for turn in range(20):
        fresh = re.sub(r"a=ice-ufrag:\S+", f"a=ice-ufrag:turn{turn}", text)
        answer = host.answers.revise(answer.ufrag, parse_description(fresh), NOW)
    stats = host.stats()
    assert (stats["tickets_used"], stats["held_offers"]) == (0, 1)
    assert isinstance(host.receive_unknown(knock(answer).check(SPED_HELLO), flow(), NOW), Arrived)


def test_an_answer_that_expires_while_its_client_waits_is_void_as_well() -> None:
    """Checks alone keep a client at T0; the offer that it would start with is gone."""
    host = make_host(limits=AdmissionConfig(hello_s=120.0))
    answer = host.answers.answer(parse_description(own_offer()), NOW)
    knocker = knock(answer)
    for second in range(0, 64, 4):
        host.overdue(NOW + second)
        host.receive_unknown(knocker.check(), flow(), NOW + second)
    late = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW + 64)
    assert late == Dropped(InstantDiscard.OFFER_FORGOTTEN)


def test_a_client_that_insists_on_being_the_dtls_server_is_not_waited_for() -> None:
    """It never says hello: its first check begins the session, and the hello is ours."""
    host = make_host()
    offer = own_offer().replace("a=setup:actpass", "a=setup:passive")
    answer = host.answers.answer(parse_description(offer), NOW)
    assert "a=setup:active" in answer.sdp
    decision = host.receive_unknown(knock(answer).check(), flow(), NOW)
    assert isinstance(decision, Arrived)
