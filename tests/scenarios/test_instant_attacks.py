"""What strangers can do with what they see on the way: nothing that costs anybody anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from instant_connect.client import RaceState, compose_call
from instant_connect.reasons import InstantDiscard
from instant_connect.sessions import Path
from instant_connect.tiers import Tier
from tests.scenarios.instant import CHANNEL, SERVER, Caller, Stage
from tests.scenarios.start import CERTIFICATES, WARP, Start
from tests.sim.pair import Step
from warp.contract import Address
from warp.entropy import SeededEntropy
from warp.sdp import parse_description

VICTIM: Address = ("198.51.100.66", 7777)
BROWSER = replace(WARP, sped=False, snap=False, server_sped=True, server_snap=True)


class Bystander:
    """Somebody who is sent things that he never asked for."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def receive_datagram(self, data: bytes, flow: object, now: float) -> None:
        self.received.append(data)

    def datagrams_to_send(self, now: float) -> list[object]:
        return []

    def get_timer(self) -> float | None:
        return None

    def handle_timer(self, now: float) -> None:
        """Never."""

    def events(self) -> list[object]:
        return []


def up(stage: Stage, caller: Caller) -> bool:
    return stage.run(lambda: caller.up and bool(stage.server.billed))


def first_datagram(stage: Stage, caller: Caller) -> bytes:
    [step, *_] = stage.sim.sent(caller.node.name)
    return step.data


def victim(stage: Stage) -> Bystander:
    bystander = Bystander()
    stage.sim.add("victim", bystander, VICTIM)
    return bystander


@pytest.mark.parametrize("start", [WARP, BROWSER], ids=["hello inside", "plain check"])
@pytest.mark.parametrize("when", ["at once", "in mid-call", "after the end"])
def test_a_first_datagram_again_from_another_address(start: Start, when: str) -> None:
    """One response, no more than three times the bytes, no media, no second session."""
    stage = Stage(start=start)
    caller = stage.call()
    bystander = victim(stage)
    if when == "at once":
        stage.run_for(0.001)
    else:
        assert up(stage, caller)
        stage.run_for(1.0)
    if when == "after the end":
        caller.peer.close(stage.now)
        stage.run_for(1.0)
        assert stage.server.live() == []
    data = first_datagram(stage, caller)
    for _ in range(5):
        stage.sim.inject(data, VICTIM, SERVER)
        stage.run_for(0.05)
    stage.run_for(2.0)
    assert len(stage.begun()) == 1
    assert sum(map(len, bystander.received)) <= 5 * 3 * len(data)
    kinds = {received[0] for received in bystander.received}
    assert all(first < 64 for first in kinds)  # STUN or DTLS, never media
    if when == "after the end":
        assert bystander.received == []
        assert stage.server.host.stats()["dropped"][InstantDiscard.ENDED.value] == 5
    else:
        assert up(stage, caller)
        assert caller.peer.state.value == "connected"
        # the call stays where its client is heard
        session = stage.server.live()[0]
        assert session.peer.stats()["flow"].remote == caller.node.address


def test_a_first_datagram_that_never_arrived_and_comes_from_another_address() -> None:
    """Whoever holds it back and sends it himself gets a shell that lasts five seconds."""
    stage = Stage()
    stage.sim.network.link("client", "server").down = True
    caller = stage.call(post=False)
    bystander = victim(stage)
    stage.run_for(0.01)
    data = first_datagram(stage, caller)
    stage.sim.inject(data, VICTIM, SERVER)
    stage.run_for(4.0)
    [session] = stage.begun()
    assert session.tier is Tier.SHAKING
    assert sum(map(len, bystander.received)) <= 3 * len(data)
    stage.run_for(2.0)
    stats = stage.server.host.stats()
    assert (stats["sessions"], stats["half_open"]) == (0, 0)
    assert stage.server.billed == []


def test_the_client_itself_still_gets_the_session_that_another_began() -> None:
    """The copy overtakes the original: the session is the client's all the same."""
    stage = Stage()
    caller = stage.call()
    victim(stage)
    stage.run_for(0.001)
    for step in stage.sim.sent("client"):
        stage.sim.inject(step.data, VICTIM, SERVER)
    assert up(stage, caller)
    assert len(stage.begun()) == 1
    assert caller.session.path is Path.ATTACHED


def test_a_ticket_that_was_seen_is_worth_nothing_without_its_password() -> None:
    stage = Stage()
    bundle = stage.bundle()
    seen = bundle.tickets[-1]
    thief = stage.peer("thief", CERTIFICATES["stranger"])
    thief.add_local_address(("198.51.100.5", 50_000), stage.now)
    offer = thief.create_offer(stage.now)
    thief.set_local_description("offer", offer, stage.now)
    guess = seen._replace(password="p" * 32)
    call = compose_call(bundle, guess, offer, CERTIFICATES["stranger"], SeededEntropy(3))
    thief.set_remote_description("answer", call.answer, stage.now)
    stage.sim.add("thief", thief, ("198.51.100.5", 50_000))
    stage.run_for(3.0)
    assert stage.begun() == []
    assert stage.sim.sent("server") == []
    assert set(stage.server.host.stats()["dropped"]) == {InstantDiscard.WRONG_INTEGRITY.value}
    # nor does signalling tell it
    answer = stage.server.host.answers.attach(
        parse_description(offer), call.ufrag, call.proof, stage.now
    )
    assert seen.password not in answer.sdp
    # and its owner can use it
    caller = stage.call(bundle)
    assert up(stage, caller)
    assert caller.session.path is Path.ATTACHED


def test_a_stolen_bundle_makes_one_session_a_ticket() -> None:
    """As bad as a stolen key of few minutes, and no worse."""
    stage = Stage()
    bundle = stage.bundle()
    thief = stage.call(
        bundle, name="thief", host="198.51.100.5", certificate=CERTIFICATES["stranger"]
    )
    assert up(stage, thief)
    caller = stage.call(bundle)  # takes the same ticket
    assert stage.run(lambda: caller.up)
    assert caller.race.state is RaceState.SIGNALLED
    assert stage.server.host.stats()["dropped"][InstantDiscard.USED_UP.value] >= 1


def test_whoever_holds_the_password_but_not_the_certificates_key_gets_no_further_than_t1() -> None:
    """The ufrag names the certificate: another one fails DTLS."""
    stage = Stage()
    bundle = stage.bundle()
    now = stage.now
    peer = stage.peer("impostor", CERTIFICATES["stranger"])
    address = ("198.51.100.5", 50_000)
    peer.add_local_address(address, now)
    offer = peer.create_offer(now)
    peer.set_local_description("offer", offer, now)
    call = compose_call(bundle, bundle.tickets[-1], offer, CERTIFICATES["client"], SeededEntropy(1))
    peer.set_remote_description("answer", call.answer, now)
    peer.create_channel(CHANNEL, now)
    stage.sim.add("impostor", peer, address)
    stage.run_for(6.0)
    [session] = stage.begun()
    assert session.tier is Tier.SHAKING
    assert stage.server.billed == []
    assert stage.server.host.stats()["sessions"] == 0


def test_two_tabs_with_one_ticket_are_two_sessions() -> None:
    stage = Stage()
    bundle = stage.bundle()
    one = stage.call(bundle, name="one", host="192.0.2.10")
    two = stage.call(bundle, name="two", host="192.0.2.11")
    assert stage.run(lambda: one.up and two.up)
    assert len(stage.begun()) == 2
    assert sorted(c.race.state.name for c in (one, two)) == ["INSTANT", "SIGNALLED"]


def test_a_hello_that_overtakes_its_check() -> None:
    stage = Stage(start=BROWSER)
    stage.call()
    stage.run_for(0.12)  # check and answer are through
    [check, *_] = stage.sim.sent("client", "stun")
    [hello, *_] = stage.sim.sent("client", "dtls")
    fresh = Stage(start=BROWSER)
    source = ("192.0.2.1", 50_000)
    bystander = Bystander()
    fresh.sim.add("client", bystander, source)
    fresh.sim.inject(hello.data, source, SERVER)
    fresh.run_for(0.03)
    fresh.sim.inject(check.data, source, SERVER)
    fresh.run_for(0.2)
    assert len(fresh.begun()) == 1
    assert any(data[0] == 22 for data in bystander.received)


def test_media_from_an_address_that_nobody_authenticated_is_not_listened_to() -> None:
    stage = Stage()
    caller = stage.call()
    assert up(stage, caller)
    rtp: list[Step] = stage.sim.sent("client", "rtp")
    before = stage.server.host.stats()["dropped"].get(InstantDiscard.NOT_FOR_US.value, 0)
    stage.sim.inject(rtp[-1].data, VICTIM, SERVER)
    stage.run_for(0.2)
    after = stage.server.host.stats()["dropped"][InstantDiscard.NOT_FOR_US.value]
    assert after == before + 1
