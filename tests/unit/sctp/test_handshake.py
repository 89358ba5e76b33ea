"""INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 sections 5.1, 5.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.sctp.support import chunk, classic_pair, exchange, init_chunk, kinds
from warp.entropy import SeededEntropy
from warp.errors import AssociationLost, InvalidState
from warp.sctp import (
    Association,
    Established,
    InitChunk,
    SctpConfig,
    SctpDiscard,
    SctpRule,
    State,
    Terminated,
)
from warp.sctp.chunks import ChunkType, split_chunks
from warp.sctp.handshake import EarlyPackets
from warp.sctp.init_chunk import parse_init_body
from warp.sctp.packet import build_packet, checksum_matches, parse_header
from warp.sctp.parameters import PADS, encode_causes, parse_causes

STEP = 0.05


def chunks(packets: list[bytes]) -> list[tuple[int, int, bytes]]:
    return [chunk_ for packet in packets for chunk_ in split_chunks(packet)]


def parsed(packet: bytes) -> InitChunk:
    [(_, _, body)] = split_chunks(packet)
    return parse_init_body(body)


def padded(init: InitChunk, kind: int = ChunkType.INIT) -> bytes:
    raw = init.to_chunk(kind)
    return raw + PADS[len(raw) & 3]


def run(a: Association, b: Association, drop: Callable[[int, bytes], bool], *, end: float) -> None:
    """Carry packets with a delay of one step; `drop(n, packet)` loses the n-th one."""
    now, count = 0.0, 0
    under_way: list[tuple[Association, bytes]] = []
    while now < end:
        for receiver, packet in under_way:
            receiver.receive_datagram(packet, now)
        under_way = []
        for sender, receiver in ((a, b), (b, a)):
            sender.handle_timer(now)
            for packet in sender.datagrams_to_send(now):
                if not drop(count, packet):
                    under_way.append((receiver, packet))
                count += 1
        now += STEP


def check_up(a: Association, b: Association) -> None:
    assert a.established
    assert b.established
    for sender, receiver in ((a, b), (b, a)):
        sender.send_message(7, 51, b"over", 100.0)
        exchange(a, b, 100.0)
        assert receiver.messages() == [(7, 51, b"over")]
        ups = [event for event in sender.events() if isinstance(event, Established)]
        assert ups == [Established(65535, 65535)]


def test_both_start_at_once() -> None:
    a, b = classic_pair()
    a.start(0.0)
    b.start(0.0)
    run(a, b, lambda n, p: False, end=0.3)
    check_up(a, b)


def test_one_starts_later() -> None:
    a, b = classic_pair()
    a.start(0.0)
    run(a, b, lambda n, p: False, end=0.3)
    assert a.state is State.COOKIE_WAIT
    b.start(0.3)  # the INIT that came early was kept
    exchange(a, b, 0.3)
    check_up(a, b)


@pytest.mark.parametrize("lost", range(8))
def test_any_one_packet_lost(lost: int) -> None:
    a, b = classic_pair()
    a.start(0.0)
    b.start(0.0)
    run(a, b, lambda n, p: n == lost, end=4.0)
    check_up(a, b)


@pytest.mark.parametrize("kind", [1, 2, 10, 11])
@pytest.mark.parametrize("sender", ["a", "b", "both"])
def test_any_kind_of_packet_lost_for_a_second(kind: int, sender: str) -> None:
    a, b = classic_pair()
    a.start(0.0)
    b.start(0.0)
    seen: list[int] = []

    def drop(n: int, packet: bytes) -> bool:
        first = next(iter(split_chunks(packet)))[0]
        if first != kind or len(seen) >= 4:
            return False
        seen.append(n)
        return sender == "both" or (n % 2 == 0) is (sender == "a")

    run(a, b, drop, end=12.0)
    check_up(a, b)


def test_messages_wait_for_the_association() -> None:
    a, b = classic_pair()
    a.send_message(0, 51, b"early", 0.0)
    a.start(0.0)
    assert kinds(chunks(a.datagrams_to_send(0.0))) == [ChunkType.INIT]
    b.start(0.0)
    a.send_message(0, 51, b"later", 0.0)
    for packet in b.datagrams_to_send(0.0):
        a.receive_datagram(packet, 0.0)
    assert kinds(chunks(a.datagrams_to_send(0.0))) == [ChunkType.INIT_ACK]
    exchange(a, b)
    a.handle_timer(1.0)
    exchange(a, b, 1.0)
    assert b.messages() == [(0, 51, b"early"), (0, 51, b"later")]


class Half:
    """Our side of an ordinary handshake; the peer's packets are made by hand."""

    def __init__(self, config: SctpConfig | None = None) -> None:
        self.us = Association(
            config or SctpConfig(heartbeat_interval_s=None),
            local_init=None,
            entropy=SeededEntropy(5),
        )
        self.us.start(0.0)
        [packet] = self.us.datagrams_to_send(0.0)
        self.init_packet = packet
        self.init = parsed(packet)

    def says(self, raw: bytes, tag: int | None = None, now: float = 0.0) -> list[bytes]:
        tag = self.init.initiate_tag if tag is None else tag
        self.us.receive_datagram(build_packet(5000, 5000, tag, raw), now)
        return self.us.datagrams_to_send(now)

    def acks(self, cookie: bytes = b"cookie", **fields: int) -> list[bytes]:
        init = init_chunk(**fields)  # type: ignore[arg-type]
        parameters = (*init.parameters, (7, cookie)) if cookie else init.parameters
        ack = InitChunk(
            init.initiate_tag,
            init.a_rwnd,
            init.outbound_streams,
            init.inbound_streams,
            init.initial_tsn,
            parameters,
        )
        return self.says(padded(ack, ChunkType.INIT_ACK))


def test_init_has_tag_0_a_checksum_and_stands_alone() -> None:
    half = Half()
    assert parse_header(half.init_packet).verification_tag == 0
    assert checksum_matches(half.init_packet)
    assert half.init_packet[8:12] != bytes(4)
    assert len(chunks([half.init_packet])) == 1


def test_cookie_echo_has_the_peers_tag_a_checksum_and_the_cookie_as_it_came() -> None:
    for size in (1, 2, 3, 4, 300, 900):
        half = Half()
        [packet] = half.acks(bytes(size), zero_checksum=True)
        assert parse_header(packet).verification_tag == 0x55667788
        assert packet[8:12] != bytes(4)
        assert checksum_matches(packet)
        assert list(split_chunks(packet)) == [(ChunkType.COOKIE_ECHO, 0, bytes(size))]


def test_init_is_repeated_unchanged() -> None:
    half = Half()
    for due in (0.5, 1.5, 3.5, 6.5, 9.5):
        assert half.us.get_timer() == due
        half.us.handle_timer(due)
        assert half.us.datagrams_to_send(due) == [half.init_packet]


def test_cookie_echo_is_repeated() -> None:
    half = Half()
    first = half.acks()
    due = half.us.get_timer()
    assert due == 0.5
    half.us.handle_timer(due)
    assert half.us.datagrams_to_send(due) == first


@pytest.mark.parametrize("echoed", [False, True])
def test_no_answer_up_to_a_limit(echoed: bool) -> None:
    half = Half(SctpConfig(max_init_retransmissions=3))
    if echoed:
        half.acks()
    for _ in range(3):
        due = half.us.get_timer()
        assert due is not None
        half.us.handle_timer(due)
        assert len(half.us.datagrams_to_send(due)) == 1
    due = half.us.get_timer()
    assert due is not None
    half.us.handle_timer(due)
    [ended] = half.us.events()
    assert isinstance(ended, Terminated)
    assert isinstance(ended.error, AssociationLost)


def test_no_limit_by_default() -> None:
    half = Half()
    for _ in range(300):
        due = half.us.get_timer()
        assert due is not None
        half.us.handle_timer(due)
        assert len(half.us.datagrams_to_send(due)) == 1


def test_an_init_ack_without_cookie_aborts() -> None:
    half = Half()
    [packet] = half.acks(b"")
    [(kind, _, body)] = split_chunks(packet)
    assert kind == ChunkType.ABORT
    assert parse_header(packet).verification_tag == 0x55667788
    assert parse_causes(body) == [(2, b"\0\0\0\x01\0\x07")]
    [ended] = half.us.events()
    assert isinstance(ended, Terminated)
    assert getattr(ended.error, "rule", None) is SctpRule.MISSING_COOKIE


def test_the_second_of_two_init_acks_is_ignored() -> None:
    half = Half()
    assert len(half.acks(b"one", tag=1)) == 1
    assert half.acks(b"two", tag=2) == []
    assert half.us.discards == {SctpDiscard.UNEXPECTED_CHUNK: 1}


def test_a_broken_init_ack_is_ignored() -> None:
    half = Half()
    assert half.says(chunk(ChunkType.INIT_ACK, bytes(16))) == []
    assert half.us.state is State.COOKIE_WAIT


def test_windows_come_from_init_ack() -> None:
    half = Half()
    half.acks(a_rwnd=3000)
    half.says(chunk(ChunkType.COOKIE_ACK))
    transmission = half.us._transmission
    assert transmission is not None
    assert transmission.peer_rwnd == 3000
    half.us.send_message(0, 53, bytes(20_000), 0.0)
    sent = sum(len(body) - 12 for _, _, body in chunks(half.us.datagrams_to_send(0.0)))
    assert 2000 < sent <= 3000


def test_windows_come_from_init_for_the_answering_side() -> None:
    half = Half()
    [answer] = half.says(padded(init_chunk(a_rwnd=3000)), tag=0)
    cookie = parsed(answer).parameter(7)
    assert cookie is not None
    half.says(chunk(ChunkType.COOKIE_ECHO, cookie))
    transmission = half.us._transmission
    assert transmission is not None
    assert transmission.peer_rwnd == 3000
    assert transmission.congestion.ssthresh >= 3000


def test_init_while_starting_is_answered_with_our_own_numbers() -> None:
    """RFC 9260 section 5.2.1, in COOKIE-WAIT and in COOKIE-ECHOED."""
    half = Half()
    for _ in range(2):
        [answer] = half.says(padded(init_chunk()), tag=0)
        assert parse_header(answer).verification_tag == 0x55667788
        ack = parsed(answer)
        assert (ack.initiate_tag, ack.initial_tsn) == (
            half.init.initiate_tag,
            half.init.initial_tsn,
        )
        half.acks()


def test_unrecognized_parameters_are_reported() -> None:
    half = Half()
    init = InitChunk(9, 1500, 1, 1, 1, ((0xFFFF, b"abc"), (0xBFFF, b"x"), (0xFFFE, bytes(1100))))
    [answer] = half.says(padded(init), tag=0)
    assert len(answer) <= 1191
    reported = [value for kind, value in parsed(answer).parameters if kind == 8]
    assert reported == [b"\xff\xff\0\x07abc"]


def answering_half() -> tuple[Half, bytes]:
    """A half that has answered the peer's INIT, and the COOKIE ECHO that is due."""
    half = Half()
    [answer] = half.says(padded(init_chunk()), tag=0)
    cookie = parsed(answer).parameter(7)
    assert cookie is not None
    return half, chunk(ChunkType.COOKIE_ECHO, cookie)


def test_a_valid_cookie_establishes() -> None:
    half, echo = answering_half()
    assert kinds(chunks(half.says(echo))) == [ChunkType.COOKIE_ACK]
    assert half.us.established


def test_a_repeated_cookie_is_answered_and_changes_nothing() -> None:
    half, echo = answering_half()
    half.says(echo)
    half.us.events()
    transmission = half.us._transmission
    for _ in range(3):
        assert kinds(chunks(half.says(echo, now=99.0))) == [ChunkType.COOKIE_ACK]
    assert half.us._transmission is transmission
    assert half.us.events() == []


def test_data_behind_a_cookie_echo_is_taken() -> None:
    half, echo = answering_half()
    data = b"\0\x03\0\x11" + bytes(3) + b"\x01" + bytes(8) + b"x\0\0\0"
    half.says(echo + data)
    assert half.us.messages() == [(0, 0, b"x")]


def test_a_tampered_cookie_is_ignored() -> None:
    half, echo = answering_half()
    broken = bytearray(echo)
    broken[20] ^= 1
    assert half.says(bytes(broken)) == []
    assert half.us.discards == {SctpDiscard.BAD_COOKIE: 1}
    assert not half.us.established


def test_a_cookie_under_another_tag_is_ignored() -> None:
    half, echo = answering_half()
    assert half.says(echo, tag=77) == []
    assert half.us.discards == {SctpDiscard.BAD_TAG: 1}


def test_a_stale_cookie_is_reported() -> None:
    half, echo = answering_half()
    half.us.handle_timer(0.5)
    half.us.datagrams_to_send(0.5)
    [packet] = half.says(echo, now=61.5)
    assert parse_header(packet).verification_tag == 0x55667788
    [(kind, _, body)] = split_chunks(packet)
    assert (kind, parse_causes(body)) == (ChunkType.ERROR, [(3, (1_500_000).to_bytes(4, "big"))])
    assert half.us.discards == {SctpDiscard.STALE_COOKIE: 1}


def test_a_peer_that_finds_our_cookie_stale_gets_a_new_init() -> None:
    half = Half()
    half.acks()
    stale = chunk(ChunkType.ERROR, encode_causes([(3, bytes(4))]))
    [packet] = half.says(stale)
    again = parsed(packet)
    assert parse_header(packet).verification_tag == 0
    assert again.initiate_tag != half.init.initiate_tag
    assert half.us.state is State.COOKIE_WAIT
    half.says(stale, tag=again.initiate_tag)  # not in this state
    assert half.us.state is State.COOKIE_WAIT


def test_what_overtakes_the_cookie_ack_is_kept() -> None:
    half = Half()
    half.acks()
    data = b"\0\x03\0\x11" + bytes(3) + b"\x01" + bytes(8) + b"x\0\0\0"
    assert half.says(data) == []
    half.says(chunk(ChunkType.COOKIE_ACK))
    assert half.us.messages() == [(0, 0, b"x")]


@pytest.mark.parametrize(
    "raw",
    [
        chunk(ChunkType.COOKIE_ACK),
        chunk(ChunkType.SHUTDOWN, bytes(4)),
        chunk(ChunkType.SHUTDOWN_COMPLETE),
        chunk(ChunkType.FORWARD_TSN, bytes(4)),
        chunk(ChunkType.RE_CONFIG, bytes(8)),
        chunk(ChunkType.HEARTBEAT_ACK, bytes(8)),
        chunk(ChunkType.SACK, bytes(12)),
        chunk(ChunkType.ERROR, bytes(4)),
        chunk(ChunkType.INIT_ACK),
    ],
)
def test_whatever_comes_before_its_time_is_survived(raw: bytes) -> None:
    half = Half()
    half.says(raw)
    assert half.us.state is State.COOKIE_WAIT
    half.acks()
    half.says(chunk(ChunkType.COOKIE_ACK))
    assert half.us.established


def test_abort_ends_the_attempt() -> None:
    half = Half()
    half.says(chunk(ChunkType.ABORT))
    assert half.us.state is State.CLOSED
    assert half.us.get_timer() is None


def test_shutdown_ack_out_of_the_blue() -> None:
    """RFC 9260 section 8.5.1 E: a peer that lingers from an earlier association."""
    half = Half()
    [packet] = half.says(chunk(ChunkType.SHUTDOWN_ACK), tag=77)
    assert list(split_chunks(packet)) == [(ChunkType.SHUTDOWN_COMPLETE, 1, b"")]
    assert parse_header(packet).verification_tag == 77
    assert half.us.state is State.COOKIE_WAIT


def test_starting_twice() -> None:
    half = Half()
    with pytest.raises(InvalidState):
        half.us.start(0.0)
    with pytest.raises(InvalidState):
        half.us.start_snap(init_chunk(), 0.0)


# -- early packets


def test_early_packets_are_bounded_and_the_oldest_go() -> None:
    early = EarlyPackets(4, 1000)
    assert [early.put(bytes([n])) for n in range(6)] == [0, 0, 0, 0, 1, 1]
    assert early.take() == [b"\2", b"\3", b"\4", b"\5"]
    assert early.take() == []
    assert [early.put(bytes(400)) for _ in range(3)] == [0, 0, 1]
    assert early.put(bytes(1001)) == 3
    assert early.take() == []
