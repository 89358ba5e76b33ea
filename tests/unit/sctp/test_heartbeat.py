"""Heartbeats and the count of errors (RFC 9260 sections 8.1-8.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.sctp.support import Script, chunk, kinds
from warp.errors import AssociationLost
from warp.sctp import SctpConfig, SctpDiscard, State, Terminated
from warp.sctp.chunks import ChunkType
from warp.sctp.parameters import encode_parameter

FIRST = 1000


AT_ONCE = SctpConfig(first_heartbeat_s=0.0)


def heartbeats(script: Script, now: float) -> list[bytes]:
    return [body for kind, _, body in script.hears(now) if kind == ChunkType.HEARTBEAT]


def test_echoed_unchanged() -> None:
    script = Script()
    for info in (b"", b"\0\x01\0\x05z", bytes(900)):
        script.says(chunk(ChunkType.HEARTBEAT, info))
        assert script.hears() == [(ChunkType.HEARTBEAT_ACK, 0, info)]


def test_one_larger_than_our_packets_is_dropped() -> None:
    script = Script()
    script.says(chunk(ChunkType.HEARTBEAT, bytes(1191 - 12 - 4)))
    assert [len(body) for _, _, body in script.hears()] == [1175]
    script.says(chunk(ChunkType.HEARTBEAT, bytes(1191 - 12 - 3)))
    assert script.hears() == []


def test_right_after_a_start_without_handshake() -> None:
    script = Script(AT_ONCE)
    assert script.us.get_timer() == 0.0
    script.us.handle_timer(0.0)
    [probe] = heartbeats(script, 0.0)
    script.says(chunk(ChunkType.HEARTBEAT_ACK, probe), now=0.08)
    assert script.us.rtt_s == pytest.approx(0.08)
    assert script.us.get_timer() == pytest.approx(0.08 + 30 + 0.24)


def test_not_when_data_leaves_at_once() -> None:
    script = Script(AT_ONCE)
    script.send(1)
    assert kinds(script.hears()) == [ChunkType.DATA]
    script.us.handle_timer(0.0)
    assert script.hears() == []


def test_not_when_data_waits() -> None:
    script = Script(AT_ONCE)
    script.send(1)
    script.us.handle_timer(0.0)
    assert kinds(script.hears()) == [ChunkType.DATA]


def test_only_after_silence() -> None:
    script = Script(AT_ONCE)
    script.send(1)
    script.hears()
    script.us.handle_timer(0.0)
    script.sacks(FIRST, now=0.1)
    due = script.us.get_timer()
    assert due is not None
    assert due > 30
    script.us.handle_timer(due)
    assert len(heartbeats(script, due)) == 1


def test_an_unanswered_one_counts_and_is_repeated() -> None:
    script = Script(AT_ONCE)
    nonces = set()
    waits = []
    now = 0.0
    for _ in range(6):
        due = script.us.get_timer()
        assert due is not None
        waits.append(due - now)
        now = due
        script.us.handle_timer(now)
        nonces |= set(heartbeats(script, now))
    assert waits == pytest.approx([0.0, 0.5, 1.0, 2.0, 3.0, 3.0])
    assert len(nonces) == 6
    assert script.us._path.errors == 5
    assert script.us.state is State.ESTABLISHED


def test_a_peer_that_is_not_there_is_given_up_at_the_limit() -> None:
    script = Script(replace(AT_ONCE, max_retransmissions=2))
    for _ in range(4):
        due = script.us.get_timer()
        assert due is not None
        script.us.handle_timer(due)
    [ended] = [event for event in script.us.events() if isinstance(event, Terminated)]
    assert isinstance(ended.error, AssociationLost)
    assert script.us.get_timer() is None


def test_an_answer_resets_the_count() -> None:
    script = Script(AT_ONCE)
    now = 0.0
    for _ in range(3):
        now = script.us.get_timer() or now
        script.us.handle_timer(now)
    [*_, probe] = heartbeats(script, now)
    assert script.us._path.errors == 2
    script.says(chunk(ChunkType.HEARTBEAT_ACK, probe), now=now)
    assert script.us._path.errors == 0


def test_an_answer_to_another_question_changes_nothing() -> None:
    script = Script(AT_ONCE)
    script.us.handle_timer(0.0)
    [probe] = heartbeats(script, 0.0)
    before = script.us.get_timer()
    for wrong in (b"", probe[:-1], encode_parameter(1, bytes(8)), bytes(12)):
        script.says(chunk(ChunkType.HEARTBEAT_ACK, wrong), now=0.1)
    assert script.us.get_timer() == before
    assert script.us.rtt_s is None
    assert script.us.discards == {SctpDiscard.UNEXPECTED_CHUNK: 4}
    script.says(chunk(ChunkType.HEARTBEAT_ACK, probe), now=0.1)
    script.says(chunk(ChunkType.HEARTBEAT_ACK, probe), now=0.2)  # a second answer
    assert script.us.rtt_s == pytest.approx(0.1)


def test_none_are_sent_when_switched_off() -> None:
    script = Script()
    assert script.us.get_timer() is None


def test_a_flood_is_answered_in_bounds() -> None:
    script = Script()
    for _ in range(100):
        script.says(*(chunk(ChunkType.HEARTBEAT) for _ in range(250)))
    assert len(script.hears()) <= 128


def test_by_default_not_before_a_second() -> None:
    script = Script(SctpConfig())
    assert script.us.get_timer() == 1.0
    script.us.handle_timer(0.5)
    assert script.hears() == []
    script.us.handle_timer(1.0)
    assert len(heartbeats(script, 1.0)) == 1
