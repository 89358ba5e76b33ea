"""The calling side: one's own answer, tickets for later, and the race of two ways."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from instant_connect.bundle import Bundle
from instant_connect.client import (
    RACE,
    InstantCall,
    Race,
    RaceInput,
    RaceState,
    Wallet,
    compose_call,
    parse_wallet,
)
from instant_connect.ufrag import attach_proof, open_ufrag, server_sctp
from tests.unit.instant_connect.door import NOW, RING, WALL, make_host
from tests.unit.sdp.build import capture
from warp.crypto import Certificate
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig
from warp.peer import PeerConfig, PeerConnection
from warp.sctp import parse_init
from warp.sdp import negotiate, parse_description

CLIENT = Certificate.generate(SeededEntropy(b"a client"), WALL)


def bundle(**options: Any) -> Bundle:
    return make_host().bundle(NOW, **options)


def own_offer(*, snap: bool = True) -> str:
    peer = PeerConnection(PeerConfig(snap=snap), certificate=CLIENT, entropy=SeededEntropy(1))
    peer.add_local_address(("192.0.2.1", 4000), 0.0)
    return peer.create_offer(0.0)


def call(offer: str) -> InstantCall:
    made = bundle()
    return compose_call(made, made.tickets[0], offer, CLIENT, SeededEntropy(2))


def test_the_answer_fits_the_offer_and_names_the_server() -> None:
    offer = own_offer()
    made = call(offer)
    agreed = negotiate(parse_description(offer), parse_description(made.answer), is_offerer=True)
    assert agreed.transport.ufrag == made.ufrag
    assert agreed.transport.is_dtls_client
    assert agreed.transport.ice_lite
    assert agreed.transport.fingerprints == (("sha-256", RING.current.certificate.fingerprint()),)
    assert "sped" in agreed.transport.ice_options
    opened = open_ufrag(made.ufrag, RING, WALL)
    assert agreed.transport.pwd == opened.password
    assert opened.attempt.fingerprint.hex(":").upper() == CLIENT.fingerprint()
    assert agreed.data is not None
    theirs = parse_init(agreed.data.remote_init or b"")
    assert (theirs.initiate_tag, theirs.initial_tsn) == server_sctp(opened.password, made.ufrag)
    ours = parse_init(agreed.data.local_init or b"")
    assert opened.attempt.sctp == (ours.initiate_tag, ours.initial_tsn)


def test_what_is_said_beside_the_offer() -> None:
    made = call(own_offer())
    headers = made.headers()
    opened = open_ufrag(made.ufrag, RING, WALL)
    assert headers == {
        "Instant-Ufrag": made.ufrag,
        "Instant-Proof": attach_proof(opened.password, made.ufrag),
    }
    assert opened.password not in str(headers)
    assert made.ufrag not in repr(made)


def test_a_client_without_snap_says_none() -> None:
    made = call(own_offer(snap=False))
    assert open_ufrag(made.ufrag, RING, WALL).attempt.sctp is None
    assert "sctp-init" not in made.answer


@pytest.mark.parametrize(
    ("name", "snap"), [("chromium156_default", False), ("chromium156_warp", True)]
)
def test_a_browsers_offer(name: str, snap: bool) -> None:
    made = call(capture(f"{name}_offer"))
    opened = open_ufrag(made.ufrag, RING, WALL)
    assert (opened.attempt.sctp is not None) is snap
    assert opened.attempt.payload_type == 111
    assert len(made.ufrag) == (151 if snap else 140)


def test_an_offer_without_opus_goes_by_signalling() -> None:
    with pytest.raises(InvalidConfig, match="Opus"):
        call(own_offer().replace("opus/48000", "pcma/8000"))


# -- the wallet ----------------------------------------------------------------------------------


def test_a_ticket_for_each_call_until_there_are_none() -> None:
    wallet = Wallet()
    assert wallet.take(NOW) is None
    assert wallet.wants_refresh(NOW)
    made = bundle()
    wallet.put(made, NOW)
    assert not wallet.wants_refresh(NOW)
    taken = [wallet.take(NOW) for _ in range(4)]
    assert taken[3] is None
    assert {ticket for kept in taken[:3] if kept for ticket in [kept[1]]} == set(made.tickets)
    assert wallet.wants_refresh(NOW)


def test_how_long_a_bundle_lasts_is_counted_from_its_own_times() -> None:
    """The client's wall clock may say anything."""
    wallet = Wallet()
    wallet.put(bundle(), NOW, age_s=100.0)
    assert not wallet.wants_refresh(NOW + 249)
    assert wallet.wants_refresh(NOW + 250)
    assert wallet.has_ticket(NOW + 497)
    assert wallet.take(NOW + 497) is not None
    assert not wallet.has_ticket(NOW + 498)
    assert wallet.take(NOW + 498) is None
    assert len(wallet) == 2


def test_tickets_are_thrown_away_with_the_network_they_were_for() -> None:
    wallet = Wallet()
    wallet.put(bundle(), NOW)
    wallet.expire()
    assert len(wallet) == 0
    assert wallet.take(NOW) is None
    assert wallet.wants_refresh(NOW)


def test_a_wallet_survives_a_launch_with_certificate_and_round_trip_time() -> None:
    wallet = Wallet()
    wallet.put(bundle(), NOW)
    wallet.rtt_s = 0.08
    kept = wallet.take(NOW)
    text = wallet.to_text(NOW, WALL, CLIENT)
    again, certificate = parse_wallet(text, 5.0, WALL + 60)
    assert certificate.der == CLIENT.der
    assert again.rtt_s == 0.08
    assert len(again) == 2
    assert again.take(5.0 + 500) is not None
    assert again.take(5.0 + 539) is None
    assert kept is not None
    assert kept[1] not in [ticket for ticket in again._left]


def test_a_wall_clock_that_was_set_makes_no_ticket_younger() -> None:
    wallet = Wallet()
    wallet.put(bundle(), NOW)
    text = wallet.to_text(NOW, WALL, CLIENT)
    back, _ = parse_wallet(text, 0.0, WALL - 10_000)
    assert back.take(599.0) is None
    ahead, _ = parse_wallet(text, 0.0, WALL + 10_000)
    assert ahead.take(0.0) is None


def test_an_empty_wallet_survives_too() -> None:
    again, _ = parse_wallet(Wallet().to_text(NOW, WALL, CLIENT), NOW, WALL)
    assert len(again) == 0
    assert again.rtt_s is None


def damaged(**changes: Any) -> str:
    wallet = Wallet()
    wallet.put(bundle(), NOW)
    return json.dumps({**json.loads(wallet.to_text(NOW, WALL, CLIENT)), **changes})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "JSON"),
        ("5", '"v": 1'),
        (damaged(v=0), '"v": 1'),
        (damaged(certificate="x"), "PEM"),
        (damaged(private_key=5), "PEM"),
        (damaged(rtt_s="fast"), "rtt_s"),
        (damaged(rtt_s=-1), "rtt_s"),
        (damaged(left=4), "left"),
        (damaged(left=True), "left"),
        (damaged(expires_at=None), "expires_at"),
        (damaged(bundle="{}"), '"v": 1'),
    ],
)
def test_a_text_that_is_no_wallet_is_refused_by_name(text: str, names: str) -> None:
    with pytest.raises(InvalidConfig, match=names) as caught:
        parse_wallet(text, NOW, WALL)
    assert "PRIVATE KEY" not in str(caught.value)


# -- the race ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "state"),
    [
        ([RaceInput.CONNECTED, RaceInput.ATTACHED], RaceState.INSTANT),
        ([RaceInput.ATTACHED, RaceInput.CONNECTED], RaceState.INSTANT),
        ([RaceInput.NEW], RaceState.SIGNALLED),
        ([RaceInput.CONNECTED, RaceInput.NEW], RaceState.INSTANT),
        ([RaceInput.NEW, RaceInput.CONNECTED], RaceState.SIGNALLED),
        ([RaceInput.NO_ANSWER, RaceInput.CONNECTED], RaceState.INSTANT),
        ([RaceInput.NO_ANSWER, RaceInput.NEW], RaceState.SIGNALLED),
        ([RaceInput.NO_ANSWER, RaceInput.ENDED], RaceState.LOST),
        ([RaceInput.ENDED, RaceInput.NEW], RaceState.SIGNALLED),
        ([RaceInput.ENDED, RaceInput.NO_ANSWER], RaceState.LOST),
        ([RaceInput.ENDED, RaceInput.ATTACHED], RaceState.LOST),
    ],
)
def test_races(inputs: list[RaceInput], state: RaceState) -> None:
    race = Race()
    for why in inputs:
        race.receive(why)
    assert race.state is state


def test_a_way_that_is_decided_is_never_changed() -> None:
    decided = {RaceState.INSTANT, RaceState.SIGNALLED, RaceState.LOST}
    assert not decided & {state for state, _ in RACE}
    for order in itertools.permutations(RaceInput):
        race = Race()
        first = None
        for why in order:
            race.receive(why)
            first = first or (race.state if race.state in decided else None)
            assert first is None or race.state is first
