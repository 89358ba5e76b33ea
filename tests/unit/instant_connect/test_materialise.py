"""A connection out of a ufrag: deterministic, passive, and for one certificate only."""

from __future__ import annotations

import pytest

from instant_connect.decisions import Arrived
from instant_connect.host import HostConfig
from instant_connect.materialise import Materialiser
from instant_connect.profile import Terms, make_terms
from instant_connect.ticket import Route
from instant_connect.ufrag import Opened, open_ufrag, peek_ufrag_route, server_sctp
from tests.unit.instant_connect.door import (
    CELL,
    LOCAL,
    NOW,
    RING,
    SPED_HELLO,
    WALL,
    Knocker,
    flow,
    make_host,
)
from warp.entropy import SeededEntropy
from warp.ice import IceCredentials
from warp.peer import ConnectionState, PeerConfig, PeerConnection
from warp.sctp import parse_init
from warp.sdp import parse_description

CONFIG = PeerConfig(early_data=True)
TERMS: Terms = make_terms((LOCAL,), CONFIG.sctp())


def opened(knocker: Knocker) -> Opened:
    return open_ufrag(knocker.ufrag, RING, WALL)


def made(knocker: Knocker, seed: int = 1) -> PeerConnection:
    materialiser = Materialiser(CONFIG, TERMS, SeededEntropy(seed))
    return materialiser.materialise(opened(knocker), knocker.ufrag, "abcd", 0.0)


def test_it_waits_for_its_first_check() -> None:
    knocker = Knocker()
    peer = made(knocker)
    assert peer.state is ConnectionState.CONNECTING
    assert peer.local_ufrags == (knocker.ufrag,)
    assert peer.datagrams_to_send(0.0) == []
    assert peer.stats()["ice_lite"]
    assert peer.stats()["snap"] == "snap"


def test_the_same_ufrag_and_entropy_make_the_same_connection() -> None:
    knocker = Knocker()
    check = knocker.check()
    answers = []
    for seed in (1, 1, 2):
        peer = made(knocker, seed)
        peer.receive_datagram(check, flow(), 0.1)
        answers.append(peer.datagrams_to_send(0.1))
    assert answers[0] == answers[1]
    [(data, on)] = answers[0]
    assert on == flow()
    assert data[:2] == b"\x01\x01"


def test_only_who_knows_the_password_is_heard() -> None:
    knocker, other = Knocker(), Knocker(password="p" * 32)
    peer = made(knocker)
    peer.receive_datagram(other.check(), flow(), 0.1)
    assert peer.datagrams_to_send(0.1) == []


def test_its_init_is_the_one_that_the_client_computes() -> None:
    knocker = Knocker()
    whole = opened(knocker)
    agreed = Materialiser(CONFIG, TERMS, SeededEntropy(1)).agree(whole, knocker.ufrag, "abcd")
    init = agreed.local_init
    assert init is not None
    expected = server_sctp(knocker.password, knocker.ufrag)
    assert (init.initiate_tag, init.initial_tsn) == expected
    assert agreed.negotiated.data is not None
    theirs = parse_init(agreed.negotiated.data.remote_init or b"")
    assert (theirs.initiate_tag, theirs.initial_tsn) == (5, 6)
    assert agreed.credentials == IceCredentials(knocker.ufrag, knocker.password)
    assert agreed.negotiated.transport.pwd == ""


def test_its_restarts_take_credentials_that_lead_home() -> None:
    host, knocker = make_host(config=HostConfig(server=7)), Knocker()
    decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
    assert isinstance(decision, Arrived)
    peer = decision.session.peer
    text = peer.remote_description.replace("a=ice-ufrag:abcd", "a=ice-ufrag:fresh")
    peer.set_remote_description("offer", text.replace("a=ice-pwd:-", "a=ice-pwd:x"), NOW)
    peer.set_local_description("answer", peer.create_answer(NOW), NOW)
    assert len(peer.local_ufrags) == 2
    assert peek_ufrag_route(peer.local_ufrag, RING)[0] == Route(CELL, 7)


def test_a_full_agent_in_the_configuration_is_made_lite() -> None:
    materialiser = Materialiser(PeerConfig(passive=False, audio=False), TERMS, SeededEntropy(1))
    assert materialiser.config.lite
    assert materialiser.config.passive
    assert materialiser.config.audio


def test_the_description_of_the_client_is_a_stand_in() -> None:
    knocker = Knocker()
    description = parse_description(made(knocker).remote_description)
    assert [section.mid for section in description.media] == ["0", "1"]
    assert knocker.password not in made(knocker).remote_description


@pytest.mark.parametrize("client_ufrag", ["abcd", "x" * 256, "+/+/", "-=#_"])
def test_any_ufrag_of_the_client(client_ufrag: str) -> None:
    knocker = Knocker(client_ufrag=client_ufrag)
    materialiser = Materialiser(CONFIG, TERMS, SeededEntropy(1))
    peer = materialiser.materialise(opened(knocker), knocker.ufrag, client_ufrag, 0.0)
    peer.receive_datagram(knocker.check(), flow(), 0.1)
    assert len(peer.datagrams_to_send(0.1)) == 1
