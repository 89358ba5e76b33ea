"""What rides in checks: order, room, bursts, bytes under way (RFC 8445 appendix B.1)."""

from __future__ import annotations

from tests.unit.ice.helpers import (
    FLOW,
    REMOTE,
    START,
    Diary,
    HandPeer,
    connected_agent,
    error_code,
    host,
    make_agent,
    ready_agent,
)
from warp.contract import Flow
from warp.ice import IceRole
from warp.ice.rider import BODY_LIMIT_BYTES
from warp.stun import MessageClass, parse_message

ACK, DATA = 0xC071, 0xC070
FLIGHT = [(ACK, b""), (DATA, bytes([22]) * 900)]


def test_the_first_check_carries_what_rides_before_integrity() -> None:
    diary = Diary(FLIGHT)
    agent = ready_agent(rider=diary)
    ((data, flow),) = agent.datagrams_to_send(START)
    check = parse_message(data)
    assert flow == FLOW
    kinds = [kind for kind, _ in check.attributes]
    assert kinds[-2:] == [ACK, DATA]
    assert check.get(DATA) == FLIGHT[1][1]
    assert data.index(FLIGHT[1][1]) < check.integrity_at


def test_what_is_captured_after_start_still_rides_in_the_first_check() -> None:
    """DTLS may begin after ICE in the same moment: checks are built when drained."""
    diary = Diary()
    agent = ready_agent(rider=diary)
    diary.load = FLIGHT
    ((data, _),) = agent.datagrams_to_send(START)
    assert parse_message(data).get(DATA) is not None


def test_the_room_fills_the_message_exactly() -> None:
    for options in ({}, {"role": IceRole.CONTROLLED}):
        diary = Diary()
        agent = ready_agent(rider=diary, **options)
        agent.datagrams_to_send(START)
        ((_, room),) = diary.rooms
        full = Diary([(DATA, bytes(room - 4))])
        agent = ready_agent(rider=full, **options)
        ((data, _),) = agent.datagrams_to_send(START)
        assert parse_message(data).get(DATA) is not None
        # header 20, body, MESSAGE-INTEGRITY 24, FINGERPRINT 8
        assert len(data) == 20 + BODY_LIMIT_BYTES + 32 == 1220


def test_the_room_of_a_nominating_check_is_four_bytes_smaller() -> None:
    diary = Diary()
    peer = HandPeer(ready_agent(rider=diary))
    peer.answer_all(START, START + 0.1)
    peer.checks(START + 0.1)
    plain, nominating = (room for _, room in diary.rooms)
    assert plain - nominating == 4


def test_the_room_of_a_response() -> None:
    diary = Diary()
    HandPeer(make_agent(lite=True, rider=diary)).ask(START, role=IceRole.CONTROLLING)
    assert diary.rooms == [(MessageClass.SUCCESS, BODY_LIMIT_BYTES - 12)]


def test_a_request_is_handed_over_before_its_response_is_built() -> None:
    diary = Diary(FLIGHT)
    agent = make_agent(lite=True, rider=diary)
    (response,) = HandPeer(agent).ask(START, role=IceRole.CONTROLLING, extra=[(ACK, b"")])
    assert diary.log == ["receive", "send", "path"]
    assert response.get(DATA) == FLIGHT[1][1]


def test_the_rider_sees_the_flow_already_usable() -> None:
    class Sender(Diary):
        def receive_attributes(self, message, flow, now):
            self.usable = agent.flow
            super().receive_attributes(message, flow, now)

    sender = Sender()
    agent = make_agent(lite=True, rider=sender)
    HandPeer(agent).ask(START, role=IceRole.CONTROLLING)
    assert sender.usable == FLOW


def test_answers_are_handed_over_and_the_path_is_told() -> None:
    diary = Diary()
    peer = HandPeer(ready_agent(rider=diary))
    peer.answer_all(START, START + 0.1)
    assert diary.received == [(MessageClass.SUCCESS, FLOW)]
    assert diary.paths == [FLOW]
    assert diary.log == ["send", "receive", "path"]


def test_nothing_of_a_stranger_reaches_the_rider() -> None:
    diary = Diary(FLIGHT)
    peer = HandPeer(make_agent(lite=True, rider=diary))
    peer.ask(START, password="not-the-password-at-all-", extra=[(ACK, b"")])
    peer.ask(START, username="nobody:peer", extra=[(ACK, b"")])
    assert diary.log == []


def test_errors_carry_nothing_and_leave_the_rider_alone() -> None:
    diary = Diary(FLIGHT)
    peer = HandPeer(ready_agent(rider=diary))
    peer.checks(START)
    diary.log.clear()
    response = peer.ask(START + 0.01, role=IceRole.CONTROLLING, extra=[(ACK, b"")])[0]
    assert error_code(response) == 487
    response = peer.ask(START + 0.02, extra=[(0x7FFE, b""), (ACK, b"")])[0]
    assert error_code(response) == 420
    assert response.get(DATA) is None
    assert diary.received == []


def test_an_error_response_does_not_reach_the_rider() -> None:
    diary = Diary(FLIGHT)
    peer = HandPeer(ready_agent(rider=diary))
    ((check, _),) = peer.checks(START)
    peer.answer(check, START + 0.1, error=487, extra=[(ACK, b"")])
    peer.answer(check, START + 0.1, error=500, extra=[(ACK, b"")])
    assert diary.received == []


def test_a_client_hello_of_two_datagrams_leaves_in_one_burst() -> None:
    diary = Diary(FLIGHT, wanted=2)
    agent = ready_agent(rider=diary)
    checks = HandPeer(agent).checks(START)
    assert len(checks) == 2
    assert checks[0][0].transaction_id != checks[1][0].transaction_id
    assert {flow for _, flow in checks} == {FLOW}


def test_a_burst_is_bounded() -> None:
    assert len(HandPeer(ready_agent(rider=Diary(FLIGHT, wanted=99))).checks(START)) == 4
    assert len(HandPeer(ready_agent(rider=Diary(FLIGHT, wanted=0))).checks(START)) == 1


def test_a_triggered_check_bursts_too_until_the_pair_is_valid() -> None:
    diary = Diary(FLIGHT, wanted=2)
    agent = make_agent(rider=diary)
    peer = HandPeer(agent)
    agent.set_remote_credentials(peer.own, START)
    agent.start(START)
    answers = peer.ask(START)
    assert [m.message_class for m in answers] == [
        MessageClass.SUCCESS,
        MessageClass.REQUEST,
        MessageClass.REQUEST,
    ]
    peer.answer(answers[1], START + 0.1)
    assert len(peer.checks(START + 0.1)) == 1


def test_bytes_under_way_are_limited_and_the_checks_go_on() -> None:
    diary = Diary(FLIGHT, wanted=4)
    agent = ready_agent(rider=diary)
    moment, sizes = START, []
    for _ in range(10):
        sizes += [len(data) for data, _ in agent.datagrams_to_send(moment)]
        moment += 0.05
    large = [size for size in sizes if size > 500]
    assert sum(large) <= 14_600
    assert len(large) == 14
    assert len(sizes) == 40
    # what is left still lets an acknowledgement ride
    assert all(room >= 24 for _, room in diary.rooms)
    # unanswered checks are given up for lost after a second
    later = [len(d) for d, _ in agent.datagrams_to_send(moment + 1.0)]
    assert max(later) > 500


def test_an_answer_frees_the_bytes_of_its_check() -> None:
    diary = Diary(FLIGHT, wanted=4)
    agent = ready_agent(rider=diary)
    peer = HandPeer(agent)
    checks = []
    for step in range(4):
        checks += peer.checks(START + step * 0.05)
    assert [room for _, room in diary.rooms][-1] == 24
    for check, _ in checks[:8]:
        peer.answer(check, START + 0.2)
    agent.request_check(START + 0.2)
    peer.checks(START + 0.2)
    assert diary.rooms[-1][1] > 900


def test_a_path_is_told_again_when_the_selection_moves() -> None:
    diary = Diary()
    agent, _, now = connected_agent(rider=diary)
    cellular = ("198.51.100.7", 40000)

    agent.add_local_candidate(host(cellular), now)
    agent.remove_local_address(FLOW.local[0], now)
    peer = HandPeer(agent, Flow(cellular, REMOTE))
    peer.answer_all(now, now + 0.1)
    assert diary.paths[-1] == Flow(cellular, REMOTE)
