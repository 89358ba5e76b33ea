"""The checklist: forming, pruning, freezing, order, limits (RFC 8445 section 6.1.2 and 6.1.4)."""

from __future__ import annotations

from typing import Any

from tests.unit.ice.helpers import FLOW, LOCAL, REMOTE, host
from warp.contract import Flow
from warp.ice import Candidate, CandidateType, IceConfig, IceRole, host_candidate, make_candidate
from warp.ice.checklist import TRIGGER_SPACING_S, Checklist
from warp.ice.pair import CandidatePair, PairInput, PairState

NOW = 1000.0


def make_list(role: IceRole = IceRole.CONTROLLING, **config: Any) -> Checklist:
    checklist = Checklist(IceConfig(**config), role)
    checklist.add_local(host(LOCAL), LOCAL)
    return checklist


def remote(
    last: int, *, foundation: str = "", preference: int = 65535, port: int = 443
) -> Candidate:
    made = host((f"203.0.113.{last}", port), preference)
    return Candidate(
        foundation or made.foundation,
        1,
        "udp",
        made.priority,
        made.host,
        made.port,
        CandidateType.HOST,
    )


def send(pair: CandidatePair, now: float) -> None:
    pair.become(PairInput.CHECK_SENT)
    pair.checks += 1
    pair.started_at = pair.started_at or now
    pair.checked_at, pair.due_at = now, now + 0.05


def test_every_local_meets_every_remote() -> None:
    checklist = make_list()
    checklist.add_local(host(("192.0.2.2", 50001)), ("192.0.2.2", 50001))
    checklist.add_remote(remote(1))
    checklist.add_remote(remote(2))
    assert len(checklist.pairs) == 4


def test_families_do_not_mix_and_link_local_stays_among_itself() -> None:
    checklist = make_list()
    for address in (("2001:db8::1", 1), ("fe80::1", 1)):
        checklist.add_local(host(address), address)
    for address in (("2001:db8::2", 2), ("fe80::2", 2), REMOTE):
        checklist.add_remote(host(address))
    assert {(f.local[0], f.remote[0]) for f in checklist.pairs} == {
        (LOCAL[0], REMOTE[0]),
        ("2001:db8::1", "2001:db8::2"),
        ("fe80::1", "fe80::2"),
    }


def test_a_reflexive_candidate_is_checked_from_its_base_and_pruned() -> None:
    checklist = make_list()
    reflexive = make_candidate(CandidateType.SERVER_REFLEXIVE, ("198.51.100.1", 9), base=LOCAL)
    checklist.add_local(reflexive, LOCAL)
    checklist.add_remote(host(REMOTE))
    (pair,) = checklist.pairs.values()
    assert pair.flow == FLOW
    assert pair.local.type is CandidateType.HOST


def test_of_two_candidates_with_one_base_the_better_stays() -> None:
    checklist = Checklist(IceConfig(), IceRole.CONTROLLING)
    reflexive = make_candidate(CandidateType.SERVER_REFLEXIVE, ("198.51.100.1", 9), base=LOCAL)
    checklist.add_local(reflexive, LOCAL)
    checklist.add_remote(host(REMOTE))
    before = checklist.pairs[FLOW].priority
    checklist.add_local(host_candidate(LOCAL), LOCAL)
    assert len(checklist.pairs) == 1
    assert checklist.pairs[FLOW].priority > before


def test_a_repeated_remote_candidate_is_redundant() -> None:
    checklist = make_list()
    assert checklist.add_remote(host(REMOTE))
    assert not checklist.add_remote(host(REMOTE, 1))


def test_one_pair_of_a_foundation_waits_the_others_are_frozen() -> None:
    checklist = make_list()
    checklist.add_remote(remote(1, foundation="f", preference=10))
    checklist.add_remote(remote(2, foundation="f", preference=30))
    checklist.add_remote(remote(3, foundation="f", preference=20))
    checklist.add_remote(remote(4, foundation="g", preference=5))
    states = {flow.remote[0][-1]: p.state for flow, p in checklist.pairs.items()}
    assert states == {
        "1": PairState.FROZEN,
        "2": PairState.WAITING,
        "3": PairState.FROZEN,
        "4": PairState.WAITING,
    }


def test_success_unfreezes_the_kin() -> None:
    checklist = make_list()
    checklist.add_remote(remote(1, foundation="f"))
    checklist.add_remote(remote(2, foundation="f", preference=1))
    first, second = checklist.pairs.values()
    first.become(PairInput.ANSWERED)
    checklist.unfreeze(first.foundation)
    assert second.state is PairState.WAITING


def test_ordinary_checks_go_by_priority() -> None:
    checklist = make_list()
    for last, preference in ((1, 10), (2, 30), (3, 20)):
        checklist.add_remote(remote(last, preference=preference))
    order = []
    for _ in range(3):
        pair = checklist.next_ordinary(NOW)
        assert pair is not None
        order.append(pair.flow.remote[0][-1])
        send(pair, NOW)
    assert order == ["2", "3", "1"]
    assert checklist.next_ordinary(NOW) is None
    again = checklist.next_ordinary(NOW + 0.05)
    assert again is not None
    assert again.flow.remote[0][-1] == "2"


def test_a_frozen_pair_need_not_wait_until_its_kin_fails() -> None:
    """A firewalled port must not hold up the other port of the same host for 39.5 s."""
    checklist = make_list()
    checklist.add_remote(remote(1, foundation="f", port=1))
    checklist.add_remote(remote(1, foundation="f", port=2))
    first, second = checklist.pairs.values()
    moment = NOW
    for _ in range(3):
        assert checklist.next_ordinary(moment) is first
        send(first, moment)
        moment += 0.05
    assert checklist.next_ordinary(moment) is second


def test_a_pair_fails_when_its_time_is_over() -> None:
    checklist = make_list()
    checklist.add_remote(host(REMOTE))
    pair = checklist.pairs[FLOW]
    send(pair, NOW)
    checklist.fail_overdue(NOW + 39.4)
    assert pair.state is PairState.IN_PROGRESS
    checklist.fail_overdue(NOW + 39.5)
    assert pair.state is PairState.FAILED
    assert checklist.ordinary_due(NOW) is None


def test_triggered_checks_come_first_and_are_spaced_per_pair() -> None:
    checklist = make_list()
    checklist.add_remote(host(REMOTE))
    pair = checklist.pairs[FLOW]
    checklist.trigger(pair)
    checklist.trigger(pair)
    assert checklist.pop_triggered(NOW) is pair
    assert checklist.pop_triggered(NOW) is None
    send(pair, NOW)
    checklist.trigger(pair)
    assert checklist.pop_triggered(NOW) is None
    due = checklist.triggered_due()
    assert due == NOW + TRIGGER_SPACING_S
    assert checklist.pop_triggered(due) is pair


def test_a_failed_pair_gets_another_life_when_triggered() -> None:
    checklist = make_list()
    checklist.add_remote(host(REMOTE))
    pair = checklist.pairs[FLOW]
    send(pair, NOW)
    checklist.fail_overdue(NOW + 40)
    checklist.trigger(pair)
    assert pair.state is PairState.WAITING
    assert pair.started_at is None


def test_the_number_of_pairs_is_limited_and_the_least_go() -> None:
    checklist = make_list(max_pairs=3, max_remote_candidates=10)
    for last, preference in ((1, 10), (2, 30), (3, 20), (4, 40), (5, 5)):
        checklist.add_remote(remote(last, preference=preference))
    assert sorted(f.remote[0][-1] for f in checklist.pairs) == ["2", "3", "4"]


def test_valid_pairs_survive_the_limit() -> None:
    checklist = make_list(max_pairs=1)
    checklist.add_remote(remote(1, preference=1))
    next(iter(checklist.pairs.values())).become(PairInput.ANSWERED)
    checklist.add_remote(remote(2, preference=60000))
    assert [f.remote[0][-1] for f in checklist.pairs] == ["1"]


def test_the_number_of_remote_candidates_is_limited() -> None:
    checklist = make_list(max_remote_candidates=2)
    assert checklist.add_remote(remote(1))
    assert checklist.add_remote(remote(2))
    assert not checklist.add_remote(remote(3))


def test_learned_candidates_are_bounded_and_the_oldest_go() -> None:
    checklist = make_list(max_learned_candidates=2)
    pairs = []
    for port in (1, 2, 3):
        address = ("198.51.100.1", port)
        learned = checklist.learn_remote(address, 1, pairs[0] if pairs else None)
        assert learned.type is CandidateType.PEER_REFLEXIVE
        pairs.append(checklist.pair_for(Flow(LOCAL, address), learned))
    # the one in use is spared
    assert [f.remote[1] for f in checklist.pairs] == [1, 3]
    assert len({p.foundation for p in pairs}) == 3


def test_the_signalled_candidate_replaces_the_learned_one() -> None:
    checklist = make_list()
    learned = checklist.learn_remote(REMOTE, 7, None)
    pair = checklist.pair_for(FLOW, learned)
    before = pair.priority
    assert checklist.add_remote(host(REMOTE))
    assert checklist.pairs[FLOW] is pair
    assert pair.remote.type is CandidateType.HOST
    assert pair.priority > before
    assert not checklist.add_remote(host(REMOTE))


def test_an_unannounced_local_address_is_ours_all_the_same() -> None:
    checklist = make_list()
    flow = Flow(("192.0.2.9", 1), REMOTE)
    pair = checklist.pair_for(flow, host(REMOTE))
    assert pair.local.type is CandidateType.HOST
    assert ("192.0.2.9", 1) in checklist.locals


def test_removing_an_address_removes_its_pairs() -> None:
    checklist = make_list()
    checklist.add_local(host(("192.0.2.2", 1)), ("192.0.2.2", 1))
    checklist.add_remote(host(REMOTE))
    checklist.trigger(checklist.pairs[FLOW])
    gone = checklist.remove_local_host(LOCAL[0])
    assert [p.flow for p in gone] == [FLOW]
    assert checklist.pop_triggered(NOW) is None
    assert [f.local[0] for f in checklist.pairs] == ["192.0.2.2"]


def test_parking_ends_all_checks_and_reviving_begins_them_again() -> None:
    checklist = make_list()
    checklist.add_remote(remote(1))
    checklist.add_remote(remote(2, preference=1))
    first, second = checklist.pairs.values()
    first.become(PairInput.ANSWERED)
    checklist.trigger(second)
    checklist.park()
    assert checklist.pop_triggered(NOW) is None
    assert checklist.ordinary_due(NOW) is None
    checklist.revive(first)
    assert checklist.pop_triggered(NOW) is second


def test_roles_change_priorities() -> None:
    checklist = make_list()
    checklist.add_remote(remote(1, preference=1))
    (pair,) = checklist.pairs.values()
    before = pair.priority
    checklist.set_role(IceRole.CONTROLLED)
    assert pair.priority == before - 1


def test_the_best_pair_for_an_extra_check() -> None:
    checklist = make_list()
    assert checklist.best_to_check() is None
    for last, preference in ((1, 30), (2, 20), (3, 10)):
        checklist.add_remote(remote(last, preference=preference))
    best, heard, valid = checklist.pairs.values()
    assert checklist.best_to_check() is best
    heard.last_request_at = NOW
    assert checklist.best_to_check() is heard
    valid.become(PairInput.ANSWERED)
    assert checklist.best_to_check() is valid
