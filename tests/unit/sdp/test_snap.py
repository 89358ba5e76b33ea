"""The SNAP state of one generation (draft-hancke-tsvwg-snap sections 5 and 6)."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.sdp.build import OWN_INIT, PEER_INIT, local
from warp.errors import InvalidState
from warp.sdp import SdpError, SdpRule, SnapMode, SnapNegotiation, create_answer, create_offer
from warp.sdp.snap import TRANSITIONS, SnapInput, is_echo

OTHER_INIT = bytes.fromhex("0100001e99aabbcc00500000ffffffff00000001c000000480080006 82c0")


def offerer(answer: bytes | None) -> SnapNegotiation:
    snap = SnapNegotiation(OWN_INIT)
    assert snap.chunk_to_offer() == OWN_INIT
    snap.receive_answer(answer)
    return snap


def answerer(offer: bytes | None) -> SnapNegotiation:
    snap = SnapNegotiation(OWN_INIT)
    snap.receive_offer(offer)
    snap.chunk_to_answer()
    return snap


def test_both_sides_with_a_chunk_agree() -> None:
    for snap in (offerer(PEER_INIT), answerer(PEER_INIT)):
        assert (snap.mode, snap.remote, snap.local) == (SnapMode.SNAP, PEER_INIT, OWN_INIT)


def test_every_mode_and_input_has_a_meaning() -> None:
    missing = set(itertools.product(SnapMode, SnapInput)) - set(TRANSITIONS)
    # a SNAP association cannot lose its agreement: that offer or answer is refused before
    assert missing == {(SnapMode.SNAP, SnapInput.NOT_AGREED)}


def test_snap_7_the_same_chunk_is_offered_again_and_again() -> None:
    snap = SnapNegotiation(OWN_INIT)
    assert [snap.chunk_to_offer() for _ in range(3)] == [OWN_INIT] * 3
    snap.receive_answer(PEER_INIT)
    assert snap.chunk_to_offer() == OWN_INIT


def test_snap_7_the_same_chunk_is_answered_again_and_again() -> None:
    snap = answerer(PEER_INIT)
    assert [snap.chunk_to_answer() for _ in range(3)] == [OWN_INIT] * 3


def test_snap_8_answer_carries_a_chunk_only_to_an_offer_with_one() -> None:
    snap = SnapNegotiation(OWN_INIT)
    snap.receive_offer(None)
    assert snap.chunk_to_answer() is None
    assert snap.mode is SnapMode.CLASSIC


def test_snap_9_switched_off_means_classic_from_the_start() -> None:
    snap = SnapNegotiation(None)
    assert snap.mode is SnapMode.CLASSIC and snap.chunk_to_offer() is None
    snap.receive_offer(PEER_INIT)
    assert snap.chunk_to_answer() is None and snap.mode is SnapMode.CLASSIC


def test_snap_11_answer_without_a_chunk_is_classic_for_good() -> None:
    snap = offerer(None)
    assert (snap.mode, snap.remote) == (SnapMode.CLASSIC, None)
    assert snap.chunk_to_offer() is None


def test_snap_12_a_chunk_nobody_asked_for_is_ignored() -> None:
    snap = SnapNegotiation(OWN_INIT)
    snap.receive_answer(PEER_INIT)
    assert (snap.mode, snap.remote) == (SnapMode.CLASSIC, None)


@pytest.mark.parametrize(
    "echo", [OWN_INIT, OWN_INIT[:8] + b"\0\x10\0\0" + OWN_INIT[12:]], ids=["bytes", "tag"]
)
def test_snap_13_our_own_chunk_come_back_is_no_agreement(echo: bytes) -> None:
    assert is_echo(OWN_INIT, echo)
    assert offerer(echo).mode is SnapMode.CLASSIC
    assert answerer(echo).mode is SnapMode.CLASSIC
    assert not is_echo(OWN_INIT, PEER_INIT)


def test_snap_26_the_same_remote_chunk_goes_on() -> None:
    for snap in (offerer(PEER_INIT), answerer(PEER_INIT)):
        snap.receive_offer(PEER_INIT)
        assert snap.chunk_to_answer() == OWN_INIT
        snap.chunk_to_offer()
        snap.receive_answer(PEER_INIT)
        assert snap.mode is SnapMode.SNAP


@pytest.mark.parametrize("changed", [None, OTHER_INIT, OWN_INIT], ids=["gone", "other", "echo"])
def test_snap_26_a_changed_remote_chunk_is_refused_and_nothing_changes(changed) -> None:
    for snap in (offerer(PEER_INIT), answerer(PEER_INIT)):
        with pytest.raises(SdpError) as caught:
            snap.receive_offer(changed)
        assert caught.value.rule is SdpRule.SNAP_CHANGED
        snap.chunk_to_offer()
        with pytest.raises(SdpError):
            snap.receive_answer(changed)
        assert (snap.mode, snap.remote) == (SnapMode.SNAP, PEER_INIT)
        snap.receive_offer(PEER_INIT)
        assert snap.chunk_to_answer() == OWN_INIT


def test_snap_27_a_chunk_on_a_classic_association_is_ignored() -> None:
    snap = offerer(None)
    snap.receive_offer(PEER_INIT)
    assert snap.chunk_to_answer() is None
    assert (snap.mode, snap.remote) == (SnapMode.CLASSIC, None)


def test_snap_29_a_new_generation_starts_over() -> None:
    old = offerer(PEER_INIT)
    new = SnapNegotiation(OTHER_INIT)
    assert new.mode is SnapMode.UNDECIDED and new.chunk_to_offer() != old.local


def test_snap_33_our_chunk_in_a_local_description_must_be_ours() -> None:
    snap = SnapNegotiation(OWN_INIT)
    snap.check_local(OWN_INIT)
    snap.check_local(None)
    with pytest.raises(SdpError) as caught:
        snap.check_local(OTHER_INIT)
    assert caught.value.rule is SdpRule.SNAP_MUNGED


def test_snap_34_after_a_rollback_the_same_chunk_serves() -> None:
    snap = SnapNegotiation(OWN_INIT)
    snap.chunk_to_offer()
    snap.rollback()
    assert snap.mode is SnapMode.UNDECIDED
    assert snap.chunk_to_offer() == OWN_INIT
    snap.receive_answer(PEER_INIT)
    assert snap.mode is SnapMode.SNAP
    snap.chunk_to_offer()
    snap.rollback()
    assert (snap.mode, snap.remote) == (SnapMode.SNAP, PEER_INIT)


def test_snap_34_a_remote_offer_can_be_rolled_back() -> None:
    snap = SnapNegotiation(OWN_INIT)
    snap.receive_offer(PEER_INIT)
    snap.rollback()
    assert snap.mode is SnapMode.UNDECIDED
    assert snap.chunk_to_answer() is None


@pytest.mark.parametrize("offered", [PEER_INIT, None], ids=["agreed", "not agreed"])
def test_snap_34_a_made_answer_is_undone_with_its_offer(offered: bytes | None) -> None:
    snap = SnapNegotiation(OWN_INIT)
    snap.receive_offer(offered)
    snap.chunk_to_answer()
    assert snap.mode is not SnapMode.UNDECIDED
    snap.rollback()
    assert (snap.mode, snap.remote) == (SnapMode.UNDECIDED, None)
    snap.receive_offer(OTHER_INIT)
    assert snap.chunk_to_answer() == OWN_INIT and snap.remote == OTHER_INIT


def test_an_impossible_input_is_our_own_mistake() -> None:
    snap = offerer(PEER_INIT)
    snap.receive_offer(PEER_INIT)
    snap._heard = None
    with pytest.raises(InvalidState):
        snap._decide()


def test_snap_28_an_ice_restart_keeps_the_chunk() -> None:
    snap = offerer(PEER_INIT)
    first = create_offer(local(), sctp_init=snap.chunk_to_offer())
    transport = local().transport.__class__
    restarted = local(
        transport=transport(ufrag="NEWU", pwd="n" * 24, fingerprints=local().transport.fingerprints)
    )
    again = create_offer(restarted, previous=first, sctp_init=snap.chunk_to_offer())
    assert again.media[1].sctp == first.media[1].sctp
    answer = create_answer(again, local(), sctp_init=PEER_INIT)
    assert answer.media[1].sctp is not None
    snap.receive_answer(answer.media[1].sctp.init)
    assert snap.mode is SnapMode.SNAP
