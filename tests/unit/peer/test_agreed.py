"""Connections that begin with descriptions which were exchanged before they existed."""

from __future__ import annotations

import pytest

from tests.scenarios.start import CERTIFICATES, WARP, Call, Start, open_channel, peer
from tests.sim.network import LinkConfig
from tests.sim.pair import CLIENT, SERVER, Pair
from warp.entropy import SeededEntropy
from warp.errors import InvalidState
from warp.ice import CandidateType, IceCredentials, make_candidate
from warp.peer import AgreedDescriptions, PeerConnection, agree
from warp.sctp import SctpConfig, local_init
from warp.sdp import (
    LocalAudio,
    LocalData,
    LocalDescriptionState,
    LocalTransport,
    SdpError,
    SessionDescription,
    create_answer,
    parse_description,
)
from warp.sped import SPED_OPTIONS

SERVER_CREDENTIALS = IceCredentials("server/ufrag", "password-of-the-server")
HOST = make_candidate(CandidateType.HOST, SERVER)


def answered(offer: SessionDescription, *, snap: bool = True) -> SessionDescription:
    """The answer of a server that has no connection."""
    state = LocalDescriptionState(
        transport=LocalTransport(
            ufrag=SERVER_CREDENTIALS.ufrag,
            pwd=SERVER_CREDENTIALS.pwd,
            fingerprints=(("sha-256", CERTIFICATES["server"].fingerprint()),),
            candidates=(str(HOST),),
            answer_options=SPED_OPTIONS,
            ice_lite=True,
            address=SERVER,
        ),
        media=(LocalAudio(ssrc=77, cname="known"), LocalData()),
        session_id=4711,
    )
    init = local_init(SctpConfig(), SeededEntropy(9)).to_bytes() if snap else None
    return create_answer(offer, state, sctp_init=init)


def forgetting(agreed: AgreedDescriptions) -> AgreedDescriptions:
    """The same without the client's password."""
    transport = agreed.negotiated.transport._replace(pwd="")
    return agreed._replace(negotiated=agreed.negotiated._replace(transport=transport))


class Met:
    """A client that has its answer, and a server made of it."""

    def __init__(self, start: Start = WARP, *, snap: bool = True, stand_in: bool = False) -> None:
        client = peer(start, "client")
        client.add_local_address(CLIENT, 0.0)
        offer = client.create_offer(0.0)
        client.set_local_description("offer", offer, 0.0)
        self.offer = parse_description(offer)
        self.answer = answered(self.offer, snap=snap)
        agreed = agree(self.answer, self.offer)
        self.server = PeerConnection(
            start.config(server=True),
            certificate=CERTIFICATES["server"],
            entropy=SeededEntropy(5),
            agreed=forgetting(agreed) if stand_in else agreed,
        )
        self.pair = Pair(client, self.server, config=LinkConfig(delay_s=start.rtt_s / 2))
        self.server.add_local_candidate(HOST, self.pair.now)
        self.server.accept_agreed(forgetting(agreed) if stand_in else agreed, self.pair.now)
        client.set_remote_description("answer", str(self.answer), self.pair.now)
        open_channel(start, self.pair)
        self.call = Call(start, self.pair)


@pytest.mark.parametrize("snap", [True, False], ids=["snap", "classic"])
@pytest.mark.parametrize("stand_in", [False, True], ids=["offer", "stand-in"])
def test_a_call_comes_of_it(snap: bool, stand_in: bool) -> None:
    met = Met(snap=snap, stand_in=stand_in)
    assert met.call.until_up()
    assert met.call.works()
    assert met.server.stats()["snap"] == ("snap" if snap else "classic")


def test_all_that_the_answer_names_is_taken_from_it() -> None:
    met = Met()
    server = met.server
    assert server.local_ufrags == (SERVER_CREDENTIALS.ufrag,)
    assert server.remote_description == str(met.offer)
    assert met.call.until_up()
    section = parse_description(server.remote_description).media[0]
    assert section.transport.ufrag == "clie"
    # the answer to the next offer goes on where the one from elsewhere ended
    offer = met.call.client.create_offer(met.pair.now)
    server.set_remote_description("offer", offer, met.pair.now)
    again = parse_description(server.create_answer(met.pair.now))
    assert again.origin.session_id == 4711
    assert again.media[0].sources == met.answer.media[0].sources
    assert again.media[1].sctp == met.answer.media[1].sctp
    assert [m.transport for m in again.media] == [m.transport for m in met.answer.media]


def test_only_a_fresh_connection_can_begin_so() -> None:
    met = Met()
    with pytest.raises(InvalidState, match="has begun"):
        met.server.accept_agreed(agree(met.answer, met.offer), met.pair.now)


def test_an_answer_that_does_not_fit_is_no_agreement() -> None:
    met = Met()
    with pytest.raises(SdpError):
        agree(met.answer._replace(media=met.answer.media[:1]), met.offer)


def restart(met: Met) -> None:
    """ICE restarts in mid-call, by offer and answer."""
    client, server, now = met.call.client, met.server, met.pair.now
    offer = client.create_offer(now, ice_restart=True)
    client.set_local_description("offer", offer, now)
    server.set_remote_description("offer", offer, now)
    answer = server.create_answer(now)
    server.set_local_description("answer", answer, now)
    client.set_remote_description("answer", answer, now)


@pytest.mark.parametrize("stand_in", [False, True], ids=["offer", "stand-in"])
def test_such_a_connection_is_renegotiated_as_any_other(stand_in: bool) -> None:
    met = Met(stand_in=stand_in)
    assert met.call.until_up()
    restart(met)
    met.pair.run_for(1.0)
    assert met.call.works()
    assert len(met.server.local_ufrags) == 2


def test_the_offer_behind_a_stand_in_may_come_later() -> None:
    met = Met(stand_in=True)
    assert met.call.until_up()
    assert met.server.amend_remote(met.offer, met.pair.now)
    assert met.call.works()
    assert not met.server.amend_remote(met.offer, met.pair.now)  # it is known already
    restart(met)
    met.pair.run_for(1.0)
    assert met.call.works()


def test_another_offer_is_not_taken_for_it() -> None:
    met = Met(stand_in=True)
    now = met.pair.now
    media = met.offer.media
    others = [
        met.offer._replace(media=media[:1], bundles=(("0",),)),
        met.offer._replace(media=(media[0]._replace(mid="9"), media[1])),
        met.offer._replace(ice_lite=True),
        parse_description(str(met.offer).replace("ice-ufrag:clie", "ice-ufrag:else")),
        parse_description(
            str(met.offer).replace(
                CERTIFICATES["client"].fingerprint(), CERTIFICATES["stranger"].fingerprint()
            )
        ),
        parse_description(str(met.offer).replace("opus/48000", "pcma/48000")),
    ]
    assert [met.server.amend_remote(other, now) for other in others] == [False] * len(others)
    assert met.call.until_up()
    met.server.close(met.pair.now)
    assert not met.server.amend_remote(met.offer, now)
