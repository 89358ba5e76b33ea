"""Queues, turns and fragments (RFC 9260 section 6.9, RFC 8260 section 2, RFC 8831 section 6.6)."""

from __future__ import annotations

import pytest

from tests.unit.sctp.support import exchange, snap_pair
from warp.sctp import SctpConfig
from warp.sctp.chunks import (
    BEGIN,
    END,
    IMMEDIATE,
    UNORDERED,
    Data,
    IData,
    parse_data,
    parse_i_data,
    split_chunks,
)
from warp.sctp.outbound import Fragment, SendQueue


def queue(*, interleaving: bool = False) -> SendQueue:
    made = SendQueue()
    made.set_interleaving(interleaving)
    return made


def put(to: SendQueue, stream: int, data: bytes, *, ordered: bool = True, ppid: int = 53) -> None:
    to.put(stream, ppid, data, ordered=ordered, transmissions=None, expires_at=None)


def data_of(fragment: Fragment) -> Data:
    [(_, flags, body)] = split_chunks(bytes(12) + fragment.chunk)
    return parse_data(flags, body)


def i_data_of(fragment: Fragment) -> IData:
    [(_, flags, body)] = split_chunks(bytes(12) + fragment.chunk)
    return parse_i_data(flags, body)


def test_a_message_in_one_piece() -> None:
    out = queue()
    put(out, 5, b"hello", ppid=51)
    assert data_of(out.take(9, 5, immediate=True)) == Data(
        BEGIN | END | IMMEDIATE, 9, 5, 0, 51, b"hello"
    )
    assert out.peek() is None
    assert out.messages == 0


def test_fragments() -> None:
    out = queue()
    put(out, 5, b"abcdefghij", ordered=False)
    parts = [
        data_of(out.take(0xFFFFFFFF + n, 4 if n < 2 else 2, immediate=False)) for n in (0, 1, 2)
    ]
    assert [(p.flags, p.tsn, p.payload) for p in parts] == [
        (BEGIN | UNORDERED, 0xFFFFFFFF, b"abcd"),
        (UNORDERED, 0, b"efgh"),
        (END | UNORDERED, 1, b"ij"),
    ]


def test_only_ordered_messages_use_up_sequence_numbers() -> None:
    out = queue()
    for ordered in (True, False, True):
        put(out, 1, b"x", ordered=ordered)
    assert [data_of(out.take(n, 1, immediate=False)).stream_seq for n in range(3)] == [0, 0, 1]


def test_sequence_numbers_wrap() -> None:
    out = queue()
    seen = []
    for n in range(65_537):
        put(out, 1, b"x")
        seen.append(data_of(out.take(n, 1, immediate=False)).stream_seq)
    assert seen[-2:] == [65535, 0]


def test_streams_take_turns_message_by_message() -> None:
    out = queue()
    for stream in (1, 1, 2, 3, 2):
        put(out, stream, b"xy")
    order = []
    for n in range(10):
        order.append(data_of(out.take(n, 1, immediate=False)).stream_id)
    assert order == [1, 1, 2, 2, 3, 3, 1, 1, 2, 2]


def test_with_interleaving_fragment_by_fragment() -> None:
    out = queue(interleaving=True)
    put(out, 1, b"abc", ppid=51)
    put(out, 2, b"de", ppid=52)
    put(out, 1, b"z", ordered=False, ppid=54)
    seen = [i_data_of(out.take(n, 1, immediate=False)) for n in range(6)]
    assert [(p.stream_id, p.message_id, p.word, p.payload) for p in seen] == [
        (1, 0, 51, b"a"),
        (2, 0, 52, b"d"),
        (1, 0, 1, b"b"),
        (2, 0, 1, b"e"),
        (1, 0, 2, b"c"),
        (1, 0, 54, b"z"),
    ]


def test_buffered_amount_falls_as_fragments_leave() -> None:
    out = queue()
    put(out, 1, bytes(10))
    put(out, 1, bytes(5))
    put(out, 2, bytes(3))
    assert [out.buffered_amount(n) for n in range(3)] == [0, 15, 3]
    assert out.drained_streams() == set()
    out.take(0, 4, immediate=False)
    assert out.buffered_amount(1) == 11
    assert out.drained_streams() == {1}
    assert out.drained_streams() == set()


def test_dropping_the_rest_of_a_message() -> None:
    out = queue()
    put(out, 1, bytes(10))
    put(out, 2, bytes(3))
    put(out, 1, b"next")
    first = out.peek()
    assert first is not None
    out.take(0, 4, immediate=False)
    assert out.drop(first)
    assert not out.drop(first)
    assert out.buffered_amount(1) == 4
    assert [data_of(out.take(n, n, immediate=False)).stream_id for n in (3, 4)] == [2, 1]


def test_a_paused_stream_holds_what_comes_later() -> None:
    out = queue()
    put(out, 1, b"old")
    out.pause(1)
    put(out, 1, b"new")
    assert out.buffered_amount(1) == 6
    assert not out.is_settled(1, 100)
    assert data_of(out.take(7, 3, immediate=False)).payload == b"old"
    assert out.peek() is None
    assert not out.is_settled(1, 6)
    assert out.is_settled(1, 7)
    out.resume(1, restart=True)
    assert data_of(out.take(8, 3, immediate=False)) == Data(3, 8, 1, 0, 53, b"new")


def test_a_refused_reset_goes_on_counting() -> None:
    out = queue()
    put(out, 1, b"a")
    out.take(7, 1, immediate=False)
    out.pause(1)
    put(out, 1, b"b")
    out.resume(1, restart=False)
    assert data_of(out.take(8, 1, immediate=False)).stream_seq == 1


def test_a_reset_stream_leaves_nothing_behind() -> None:
    out = queue()
    out.pause(9)
    assert out.is_settled(9, 0)
    out.resume(9, restart=True)
    assert out._streams == {}


def test_restart_sends_unfinished_messages_from_their_beginning() -> None:
    out = queue()
    put(out, 1, b"abcd")
    out.take(1, 2, immediate=False)
    out.restart(out.unfinished_fronts())
    assert out.buffered_amount(1) == 4
    assert data_of(out.take(9, 4, immediate=False)) == Data(3, 9, 1, 0, 53, b"abcd")


BOUNDARIES = [1, 2, 3, 4, 5, 1159, 1160, 1161, 1163, 1164, 2319, 2320, 2321, 16384, 65536, 262144]


@pytest.mark.parametrize("size", BOUNDARIES)
@pytest.mark.parametrize("interleaving", [False, True])
def test_messages_around_every_boundary(size: int, interleaving: bool) -> None:
    a, b = snap_pair(SctpConfig(interleaving=interleaving))
    payload = bytes(n * 7 & 0xFF for n in range(size))
    a.send_message(3, 53, payload, 0.0)
    a.send_message(3, 51, b"after", 0.0)
    exchange(a, b)
    assert b.messages() == [(3, 53, payload), (3, 51, b"after")]


@pytest.mark.parametrize("mtu", [512, 513, 1191, 1192, 1200, 1201, 1452])
def test_no_packet_exceeds_the_mtu(mtu: int) -> None:
    a, b = snap_pair(SctpConfig(mtu=mtu))
    for size in (1, 50, mtu - 29, mtu - 28, mtu - 27, 7, 3 * mtu, 13, 20_000):
        a.send_message(size % 5, 53, bytes(size), 0.0)
        b.send_message(size % 5, 53, bytes(size), 0.0)
    sizes = []
    for _ in range(50):
        for sender, receiver in ((a, b), (b, a)):
            for packet in sender.datagrams_to_send(0.0):
                sizes.append(len(packet))
                assert len(packet) % 4 == 0
                receiver.receive_datagram(packet, 0.0)
    assert max(sizes) <= mtu
    assert max(sizes) > mtu - 4  # and none is wasted
    assert len(b.messages()) == 9


def test_small_messages_share_a_packet() -> None:
    a, b = snap_pair()
    for n in range(100):
        a.send_message(n % 7, 51, bytes(40), 0.0)
    packets = a.datagrams_to_send(0.0)
    assert len(packets) <= 6
    assert [len(list(split_chunks(p))) for p in packets[:-1]] == [21] * (len(packets) - 1)
    for packet in packets:
        b.receive_datagram(packet, 0.0)
    assert len(b.messages()) == 100


def test_tsns_leave_in_order() -> None:
    a, b = snap_pair()
    tsns = []
    for n in range(300):
        a.send_message(n % 7, 51, bytes(1 + n * 37 % 3000), 0.0)
    for _ in range(100):
        for packet in a.datagrams_to_send(0.0):
            tsns += [parse_data(f, body).tsn for k, f, body in split_chunks(packet) if k == 0]
            b.receive_datagram(packet, 0.0)
        for packet in b.datagrams_to_send(0.0):
            a.receive_datagram(packet, 0.0)
    assert len(b.messages()) == 300
    assert [(n - tsns[0]) & 0xFFFFFFFF for n in tsns] == list(range(len(tsns)))
