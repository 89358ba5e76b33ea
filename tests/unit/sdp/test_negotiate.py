"""What both descriptions agree on, and what an answer must not do."""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.sdp import shapes
from tests.unit.sdp.build import OWN_INIT, PEER_INIT, capture, local, reparse, transport
from warp.sdp import (
    MID_URI,
    Direction,
    LocalAudio,
    LocalData,
    SdpError,
    SdpRule,
    Setup,
    check_answer,
    check_reoffer,
    compare,
    create_answer,
    create_offer,
    negotiate,
    parse_description,
)
from warp.sdp.negotiate import is_dtls_client

PEER = transport(ufrag="PEER", pwd="peer" * 6, fingerprints=(("sha-256", ":".join(["AA"] * 32)),))


def pair(offer_changes=None, answer_changes=None, **answer_arguments):
    """An offer of ours and the answer of a peer, as read from their texts."""
    offer = create_offer(local(**(offer_changes or {})), sctp_init=OWN_INIT)
    state = local(transport=PEER, **(answer_changes or {}))
    return offer, reparse(create_answer(reparse(offer), state, **answer_arguments))


def broken(answer, index: int = 0, **changes):
    media = list(answer.media)
    media[index] = media[index]._replace(**changes)
    return answer._replace(media=tuple(media))


def fails(offer, answer) -> SdpRule:
    with pytest.raises(SdpError) as caught:
        negotiate(offer, answer, is_offerer=True)
    return caught.value.rule


def test_both_sides_see_the_same_agreement() -> None:
    offer, answer = pair(sctp_init=PEER_INIT)
    ours = negotiate(offer, answer, is_offerer=True)
    theirs = negotiate(answer, offer, is_offerer=False)
    assert ours.transport.is_dtls_client and not theirs.transport.is_dtls_client
    assert (ours.transport.ufrag, theirs.transport.ufrag) == ("PEER", "OURS")
    assert ours.audio[0].send_codecs == theirs.audio[0].receive_codecs
    assert ours.audio[0].extension_id(MID_URI) == theirs.audio[0].extension_id(MID_URI) == 4
    assert ours.audio[0].extension_id("urn:none") is None
    assert ours.data is not None and theirs.data is not None
    assert (ours.data.local_init, ours.data.remote_init) == (OWN_INIT, PEER_INIT)
    assert (theirs.data.local_init, theirs.data.remote_init) == (PEER_INIT, OWN_INIT)


def test_real_chromium_pair() -> None:
    offer = parse_description(capture("chromium156_warp_offer"))
    answer = parse_description(capture("chromium156_warp_answer"))
    result = negotiate(offer, answer, is_offerer=True)
    assert not result.transport.is_dtls_client
    assert result.transport.ice_options == ("trickle", "sped", "googspedv1")
    (audio,) = result.audio
    assert audio.direction is Direction.SENDRECV
    assert audio.send_codec("opus", 48000) is not None
    assert audio.send_codec("opus", 8000) is None
    assert audio.remote_sources[0].cname == "00vGBlXJKskwEpvq"
    assert result.data is not None
    assert result.data.send_limit == 262144 and result.data.remote_init is not None


def test_real_aiortc_answer() -> None:
    """Fingerprints in three hashes, the same candidate in both sections."""
    offer = parse_description(capture("chromium156_aiortc116_offer"))
    answer = parse_description(capture("chromium156_aiortc116_answer"))
    result = negotiate(offer, answer, is_offerer=True)
    assert [name for name, _ in result.transport.fingerprints] == ["sha-256", "sha-384", "sha-512"]
    assert len(result.transport.candidates) == 1 and result.transport.end_of_candidates
    assert result.audio[0].direction is Direction.SENDONLY


def test_real_chromium_answer_to_aiortc() -> None:
    offer = parse_description(capture("aiortc116_chromium156_offer"))
    answer = parse_description(capture("aiortc116_chromium156_answer"))
    result = negotiate(offer, answer, is_offerer=True)
    assert not result.transport.is_dtls_client
    assert result.audio[0].send_codecs[0].payload_type == 96


def test_refused_sections_are_listed() -> None:
    offer = parse_description(shapes.VIDEO_FIRST)
    answer = create_answer(offer, local())
    result = negotiate(answer, offer, is_offerer=False)
    assert result.refused == (0,)
    assert result.transport.ufrag == "vvvv" and result.transport.ice_lite
    assert result.transport.candidates == ("candidate:1 1 udp 2122260223 192.0.2.7 40000 typ host",)
    assert result.data is not None
    assert (result.data.remote_port, result.data.send_limit) == (6001, None)


def test_ports_of_both_sides() -> None:
    offer, answer = pair(
        {"media": (LocalData(sctp_port=6001),)}, {"media": (LocalData(sctp_port=6002),)}
    )
    data = negotiate(offer, answer, is_offerer=True).data
    assert data is not None and (data.local_port, data.remote_port) == (6001, 6002)


@pytest.mark.parametrize(
    ("offered", "answered", "offerer_is_client"),
    [
        (Setup.ACTPASS, Setup.PASSIVE, True),
        (Setup.ACTPASS, Setup.ACTIVE, False),
        (Setup.ACTIVE, Setup.PASSIVE, True),
        (Setup.PASSIVE, Setup.ACTIVE, False),
        (Setup.ACTPASS, None, False),
        (Setup.ACTIVE, None, True),
        (None, Setup.PASSIVE, True),
    ],
)
def test_dtls_roles(offered: Setup, answered: Setup, offerer_is_client: bool) -> None:
    assert is_dtls_client(offered, answered, is_offerer=True) is offerer_is_client
    assert is_dtls_client(offered, answered, is_offerer=False) is not offerer_is_client


@pytest.mark.parametrize(
    ("offered", "answered"),
    [
        (Setup.ACTPASS, Setup.ACTPASS),
        (Setup.ACTIVE, Setup.ACTIVE),
        (Setup.PASSIVE, Setup.PASSIVE),
        (Setup.ACTIVE, Setup.ACTPASS),
    ],
)
def test_an_answer_must_complement_the_setup(offered: Setup, answered: Setup) -> None:
    with pytest.raises(SdpError) as caught:
        is_dtls_client(offered, answered, is_offerer=True)
    assert caught.value.rule is SdpRule.SETUP_ANSWER


def test_an_answer_mirrors_its_offer() -> None:
    offer, answer = pair()
    short = answer._replace(media=answer.media[:1], bundles=(("0",),))
    assert fails(offer, short) is SdpRule.ANSWER_SHAPE
    assert fails(offer, broken(answer, kind="video")) is SdpRule.ANSWER_SHAPE
    assert fails(offer, broken(answer, mid="9")) is SdpRule.ANSWER_SHAPE
    refused = broken(offer, 0, port=0)
    assert fails(refused, answer) is SdpRule.ANSWER_SHAPE


def test_an_answer_needs_mux_codecs_and_bundle() -> None:
    offer, answer = pair()
    assert fails(offer, broken(answer, rtcp_mux=False)) is SdpRule.RTCP_MUX
    assert fails(offer, broken(answer, codecs=())) is SdpRule.ANSWER_CODECS
    alone = answer._replace(bundles=(("0",),))
    assert fails(offer, alone) is SdpRule.NOT_BUNDLED
    more = answer._replace(bundles=(("0", "1", "2"),))
    assert fails(offer, more) is SdpRule.ANSWER_BUNDLE


def test_an_answer_needs_transport_attributes() -> None:
    offer, answer = pair({"media": (LocalData(),)})
    bare = answer.media[0].transport._replace(ufrag="")
    assert fails(offer, broken(answer, transport=bare)) is SdpRule.ICE_MISSING
    bare = answer.media[0].transport._replace(fingerprints=())
    assert fails(offer, broken(answer, transport=bare)) is SdpRule.FINGERPRINT_MISSING


def test_an_answer_that_refuses_everything_is_an_error() -> None:
    offer, answer = pair({"media": (LocalData(),)})
    assert fails(offer, broken(answer, port=0)) is SdpRule.NOTHING_LEFT


def test_an_answer_may_leave_out_mids_of_a_single_section() -> None:
    offer, answer = pair({"media": (LocalData(),)})
    check_answer(offer, broken(answer._replace(bundles=()), mid=None))


def test_a_reoffer_keeps_lines_in_place() -> None:
    first = create_offer(local())
    check_reoffer(first, create_offer(local(), previous=first))
    for bad in (
        first._replace(media=first.media[:1]),
        first._replace(media=first.media[::-1]),
        broken(first, mid="7"),
        broken(first, kind="video"),
    ):
        with pytest.raises(SdpError) as caught:
            check_reoffer(first, bad)
        assert caught.value.rule is SdpRule.ORDER_CHANGED


def test_a_reoffer_may_reuse_a_refused_line() -> None:
    first = broken(create_offer(local()), port=0)
    check_reoffer(first, broken(first, kind="video", mid="new"))


def test_a_reoffer_may_reuse_a_line_that_the_answer_has_refused() -> None:
    """The offer still has the line as it was; only the answer says that it came to naught."""
    first = create_offer(local())
    anew = broken(first, kind="video", mid="new")
    answer = first._replace(media=(first.media[0]._replace(port=0), *first.media[1:]))
    check_reoffer(first, anew, answer)
    with pytest.raises(SdpError):
        check_reoffer(first, anew, first)


def agreed(**changes):
    offer, answer = pair(None, None)
    state = PEER._replace(**changes)
    answer = reparse(create_answer(offer, local(transport=state)))
    return negotiate(offer, answer, is_offerer=True)


def test_changes_below_the_media() -> None:
    base = agreed()
    same = compare(base, base)
    assert not (same.ice_restarted or same.dtls_replaced or same.sctp_replaced or same.sctp_ended)
    restarted = compare(base, agreed(ufrag="RSTR", pwd="r" * 24))
    assert restarted.ice_restarted and not restarted.dtls_replaced and not restarted.sctp_replaced
    other = compare(base, agreed(fingerprints=(("sha-256", ":".join(["CC"] * 32)),)))
    assert other.dtls_replaced and other.sctp_replaced and not other.ice_restarted
    assert compare(base, agreed(tls_id="x" * 20)).dtls_replaced


def test_changes_of_the_data_section() -> None:
    base = agreed()
    assert base.data is not None
    gone = base._replace(data=None)
    assert compare(base, gone).sctp_ended
    assert not compare(gone, base).sctp_replaced
    moved = base._replace(data=dataclasses.replace(base.data, remote_port=6000))
    assert compare(base, moved).sctp_replaced
    anew = base._replace(data=dataclasses.replace(base.data, mid="5"))
    assert compare(base, anew).sctp_replaced


def test_direction_is_what_both_allow() -> None:
    hold = (LocalAudio(direction=Direction.SENDONLY), LocalData())
    offer, answer = pair({"media": hold})
    assert negotiate(offer, answer, is_offerer=True).audio[0].direction is Direction.SENDONLY
    assert negotiate(answer, offer, is_offerer=False).audio[0].direction is Direction.RECVONLY
