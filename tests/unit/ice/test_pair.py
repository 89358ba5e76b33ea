"""Pairs: priority, states, round-trip time (RFC 8445 section 6.1.2)."""

from __future__ import annotations

import pytest

from tests.unit.ice.helpers import FLOW, LOCAL, REMOTE, host
from warp.contract import Flow
from warp.errors import InternalError
from warp.ice import CandidateType, IceRole, make_candidate
from warp.ice.pair import (
    TRANSITIONS,
    CandidatePair,
    PairInput,
    PairState,
    pair_priority,
)

G, D = 2130706431, 1694498815


def make_pair() -> CandidatePair:
    return CandidatePair(FLOW, host(LOCAL), host(REMOTE), IceRole.CONTROLLING)


def test_priority_formula() -> None:
    # RFC 8445 section 6.1.2.3: 2^32 x MIN(G,D) + 2 x MAX(G,D) + (G > D ? 1 : 0)
    assert pair_priority(G, D, IceRole.CONTROLLING) == 2**32 * D + 2 * G + 1
    assert pair_priority(D, G, IceRole.CONTROLLING) == 2**32 * D + 2 * G


def test_both_agents_compute_the_same_priority() -> None:
    assert pair_priority(G, D, IceRole.CONTROLLING) == pair_priority(D, G, IceRole.CONTROLLED)


def test_an_answer_makes_any_pair_valid() -> None:
    assert {TRANSITIONS[state, PairInput.ANSWERED] for state in PairState} == {PairState.SUCCEEDED}


def test_a_valid_pair_stays_valid_through_checks_and_requests() -> None:
    pair = make_pair()
    pair.become(PairInput.ANSWERED)
    for cause in (PairInput.TRIGGERED, PairInput.CHECK_SENT, PairInput.PARKED, PairInput.UNFROZEN):
        pair.become(cause)
        assert pair.state is PairState.SUCCEEDED


def test_states_of_an_ordinary_life() -> None:
    pair = make_pair()
    seen = [pair.state]
    for cause in (PairInput.UNFROZEN, PairInput.CHECK_SENT, PairInput.REFUSED, PairInput.TRIGGERED):
        pair.become(cause)
        seen.append(pair.state)
    assert seen == [
        PairState.FROZEN,
        PairState.WAITING,
        PairState.IN_PROGRESS,
        PairState.FAILED,
        PairState.WAITING,
    ]


def test_rtt_is_smoothed() -> None:
    pair = make_pair()
    pair.note_rtt(0.1)
    assert pair.rtt_s == 0.1
    pair.note_rtt(0.18)
    assert pair.rtt_s == pytest.approx(0.11)


def test_relayed_on_either_side() -> None:
    relay = make_candidate(CandidateType.RELAYED, ("198.51.100.9", 1))
    assert not make_pair().is_relayed
    assert CandidatePair(
        Flow(LOCAL, relay.address), host(LOCAL), relay, IceRole.CONTROLLING
    ).is_relayed


def test_a_pair_keeps_its_addresses() -> None:
    with pytest.raises(InternalError):
        make_pair().replace_remote(host(("198.51.100.9", 1)), IceRole.CONTROLLING)
