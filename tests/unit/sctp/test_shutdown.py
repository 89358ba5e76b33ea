"""The orderly end and the abrupt one (RFC 9260 sections 9.1, 9.2)."""

from __future__ import annotations

import pytest

from tests.unit.sctp.support import Script, chunk, classic_pair, exchange, kinds, snap_pair
from warp.errors import AssociationLost, InvalidState
from warp.sctp import PeerAborted, SctpConfig, State, Terminated
from warp.sctp.chunks import TAG_REFLECTED, ChunkType, encode_tsn
from warp.sctp.parameters import encode_causes, parse_causes

FIRST = 1000


def shutdown(tsn: int) -> bytes:
    return chunk(ChunkType.SHUTDOWN, encode_tsn(tsn))


def ended(script: Script) -> list[Terminated]:
    return [event for event in script.us.events() if isinstance(event, Terminated)]


def test_our_close_drains_first() -> None:
    script = Script()
    script.send(30 * 1160)
    script.us.close(0.0)
    with pytest.raises(InvalidState):
        script.send(1)
    assert set(kinds(script.hears())) == {ChunkType.DATA}
    assert script.us.state is State.SHUTDOWN_PENDING
    script.sacks(FIRST + 9)
    while script.us._transmission is not None and not script.us._transmission.is_idle:
        script.hears()
        script.sacks(script.us._transmission.next_tsn - 1)
    assert script.hears() == [(ChunkType.SHUTDOWN, 0, encode_tsn(0))]
    assert script.us.state is State.SHUTDOWN_SENT
    script.says(chunk(ChunkType.SHUTDOWN_ACK))
    assert script.hears() == [(ChunkType.SHUTDOWN_COMPLETE, 0, b"")]
    assert ended(script) == [Terminated(None)]
    assert script.us.get_timer() is None


def test_data_after_our_shutdown_is_acknowledged_and_it_is_repeated() -> None:
    script = Script()
    script.us.close(0.0)
    script.hears()
    script.says(script.data(b"late"))
    assert kinds(script.hears()) == [ChunkType.SHUTDOWN, ChunkType.SACK]
    assert script.us.messages() == [(0, 53, b"late")]


def test_the_peers_shutdown_drains_us() -> None:
    script = Script()
    script.send(1)
    script.hears()
    script.says(shutdown(FIRST - 1))
    assert script.us.state is State.SHUTDOWN_RECEIVED
    assert script.hears() == []
    with pytest.raises(InvalidState):
        script.send(1)
    script.says(shutdown(FIRST))  # it acknowledges as well
    assert kinds(script.hears()) == [ChunkType.SHUTDOWN_ACK]
    script.says(chunk(ChunkType.SHUTDOWN_COMPLETE))
    assert ended(script) == [Terminated(None)]


def test_shutdowns_that_cross() -> None:
    a, b = snap_pair()
    a.close(0.0)
    b.close(0.0)
    exchange(a, b)
    assert a.state is b.state is State.CLOSED


def test_both_drain_before_they_end() -> None:
    a, b = snap_pair()
    for side in (a, b):
        side.send_message(1, 53, bytes(50_000), 0.0)
        side.close(0.0)
    exchange(a, b)
    assert [len(m[2]) for m in a.messages() + b.messages()] == [50_000, 50_000]
    assert a.state is b.state is State.CLOSED


@pytest.mark.parametrize("ack", [False, True])
def test_unanswered_it_is_repeated_and_then_given_up(ack: bool) -> None:
    script = Script(SctpConfig(heartbeat_interval_s=None, shutdown_deadline_s=10.0))
    if ack:
        script.says(shutdown(FIRST - 1))
    else:
        script.us.close(0.0)
    expected = ChunkType.SHUTDOWN_ACK if ack else ChunkType.SHUTDOWN
    times = []
    now = 0.0
    while script.us.state is not State.CLOSED:
        if expected in kinds(script.hears(now)):
            times.append(now)
        due = script.us.get_timer()
        assert due is not None
        now = due
        script.us.handle_timer(now)
    assert times == pytest.approx([0.0, 0.5, 1.5, 3.5, 6.5, 9.5])
    assert now == 10.0
    assert kinds(script.hears(now)) == [ChunkType.ABORT]
    [end] = ended(script)
    assert isinstance(end.error, AssociationLost)


def test_limit_of_repetitions() -> None:
    script = Script(SctpConfig(heartbeat_interval_s=None, max_retransmissions=1))
    script.us.close(0.0)
    script.hears()
    script.us.handle_timer(0.5)
    script.us.handle_timer(1.5)
    assert script.us.state is State.CLOSED


def test_a_lost_shutdown_complete() -> None:
    script = Script()
    script.us.close(0.0)
    script.hears()
    script.says(chunk(ChunkType.SHUTDOWN_ACK))
    script.hears()
    script.says(chunk(ChunkType.SHUTDOWN_ACK))  # the peer asks again; we are gone
    assert script.hears() == [(ChunkType.SHUTDOWN_COMPLETE, TAG_REFLECTED, b"")]


def test_a_repeated_shutdown_repeats_the_answer() -> None:
    script = Script()
    script.says(shutdown(FIRST - 1))
    assert kinds(script.hears()) == [ChunkType.SHUTDOWN_ACK]
    script.says(shutdown(FIRST - 1))
    assert kinds(script.hears()) == [ChunkType.SHUTDOWN_ACK]
    script.says(
        chunk(ChunkType.SHUTDOWN_COMPLETE, flags=TAG_REFLECTED), tag=script.remote.initiate_tag
    )
    assert script.us.state is State.CLOSED


@pytest.mark.parametrize("kind", [ChunkType.SHUTDOWN_ACK, ChunkType.SHUTDOWN_COMPLETE])
def test_answers_to_what_was_not_asked(kind: int) -> None:
    script = Script()
    script.says(chunk(kind))
    assert script.us.state is State.ESTABLISHED


def test_a_truncated_shutdown() -> None:
    script = Script()
    script.says(chunk(ChunkType.SHUTDOWN, b"\0\0"))
    assert script.us.state is State.ESTABLISHED


def test_closing_before_anything_began() -> None:
    a, _ = classic_pair()
    a.close(0.0)
    a.close(0.0)
    assert a.events() == [Terminated(None)]
    assert a.datagrams_to_send(0.0) == []


def test_closing_twice() -> None:
    script = Script()
    script.us.close(0.0)
    script.us.close(0.0)
    assert kinds(script.hears()) == [ChunkType.SHUTDOWN]


# -- ABORT


def test_our_abort() -> None:
    script = Script()
    script.send(5000)
    script.us.abort(0.0, "enough")
    [(kind, flags, body)] = script.hears()
    assert (kind, flags, parse_causes(body)) == (ChunkType.ABORT, 0, [(12, b"enough")])
    [end] = ended(script)
    assert isinstance(end.error, AssociationLost)
    assert script.us.get_timer() is None
    script.us.abort(1.0)
    assert script.hears(1.0) == []
    with pytest.raises(InvalidState):
        script.send(1)


@pytest.mark.parametrize(
    ("body", "cause", "detail"),
    [
        (b"", None, ""),
        (encode_causes([(12, b"bye")]), 12, "bye"),
        (encode_causes([(4242, b"\xff\xfe")]), 4242, "\ufffd\ufffd"),
        (encode_causes([(13, b""), (12, b"x")]), 13, ""),
        (b"\0\x0c\0\x02", None, ""),
        (b"\0\x0c\0\xff", None, ""),
        (b"\0", None, ""),
    ],
)
def test_the_peers_abort(body: bytes, cause: int | None, detail: str) -> None:
    script = Script()
    script.says(script.data(b"last words"))
    script.send(10)
    script.says(chunk(ChunkType.ABORT, body))
    [end] = ended(script)
    assert isinstance(end.error, PeerAborted)
    assert (end.error.cause, end.error.detail) == (cause, detail)
    assert script.us.state is State.CLOSED
    assert script.hears() == []
    assert script.us.messages() == [(0, 53, b"last words")]
    with pytest.raises(InvalidState):
        script.send(1)


def test_abort_with_a_reflected_tag() -> None:
    script = Script()
    script.says(chunk(ChunkType.ABORT, flags=TAG_REFLECTED), tag=script.remote.initiate_tag)
    assert script.us.state is State.CLOSED


def test_abort_ends_a_shutdown() -> None:
    script = Script()
    script.us.close(0.0)
    script.hears()
    script.us.abort(0.1)
    assert script.us.state is State.CLOSED
    assert kinds(script.hears(0.1)) == [ChunkType.ABORT]


def test_what_stands_behind_an_abort_is_not_read() -> None:
    script = Script()
    script.says(chunk(ChunkType.ABORT), script.data())
    assert script.us.messages() == []
