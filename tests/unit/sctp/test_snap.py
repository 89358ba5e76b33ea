"""Starting from two descriptions (draft-hancke-tsvwg-snap sections 5, 6)."""

from __future__ import annotations

from itertools import product

import pytest

from tests.unit.sctp.support import Script, chunk, exchange, init_chunk, kinds, snap_pair
from tests.vectors.sctp import INITS, TAG_A, TAG_B, init
from warp.entropy import SeededEntropy
from warp.errors import InvalidState
from warp.sctp import (
    Association,
    Capabilities,
    Established,
    InitChunk,
    Restarted,
    SctpConfig,
    SctpDiscard,
    State,
    is_echo,
    local_init,
    parse_init,
)
from warp.sctp.chunks import ChunkType, Data, encode_data, parse_data, split_chunks
from warp.sctp.init_chunk import parse_init_body
from warp.sctp.packet import build_packet, checksum_matches, parse_header
from warp.sctp.parameters import PADS
from warp.sctp.snap import agree

FIRST = 1000
QUIET = SctpConfig(heartbeat_interval_s=None)


def unstarted(config: SctpConfig = QUIET) -> Association:
    return Association(
        config, local_init=init_chunk(tag=TAG_A, tsn=FIRST), entropy=SeededEntropy(1)
    )


def test_what_two_inits_agree_on() -> None:
    ours = init_chunk(tag=1, tsn=2, a_rwnd=3000, streams=100)
    theirs = InitChunk(4, 5000, 50, 200, 6, ((0x8008, b"\x82"),))
    agreed = agree(ours, theirs)
    assert (agreed.local_tag, agreed.peer_tag) == (1, 4)
    assert (agreed.local_tsn, agreed.peer_tsn) == (2, 6)
    assert agreed.peer_rwnd == 5000
    assert agreed.outbound_streams == 100  # min(our OS, their MIS)
    assert agreed.inbound_streams == 50  # min(our MIS, their OS)
    assert agreed.shared == Capabilities(False, True, False, False)


FEATURES = list(product((False, True), repeat=4))


@pytest.mark.parametrize("ours", FEATURES)
def test_features_are_what_both_signalled(ours: tuple[bool, ...]) -> None:
    def signalled(features: tuple[bool, ...]) -> InitChunk:
        forward, reconfig, interleaving, zero = features
        extensions = [0x82] * reconfig + [0x40, 0xC2] * interleaving
        return init_chunk(forward=forward, extensions=extensions, zero_checksum=zero)

    for theirs in FEATURES:
        shared = agree(signalled(ours), signalled(theirs)).shared
        assert shared == tuple(a and b for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("theirs", [False, True])
def test_interleaving_only_when_both_signalled_it(ours: bool, theirs: bool) -> None:
    a, b = snap_pair(SctpConfig(interleaving=ours), SctpConfig(interleaving=theirs))
    for sender, receiver in ((a, b), (b, a)):
        sender.send_message(1, 53, bytes(5000), 0.0)
        packets = sender.datagrams_to_send(0.0)
        seen = {kind for packet in packets for kind, _, _ in split_chunks(packet)}
        seen.discard(ChunkType.SACK)
        assert seen == {ChunkType.I_DATA if ours and theirs else ChunkType.DATA}
        for packet in packets:
            receiver.receive_datagram(packet, 0.0)
        assert receiver.messages() == [(1, 53, bytes(5000))]


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("theirs", [False, True])
def test_zero_checksums_from_the_first_packet_only_when_both_signalled_them(
    ours: bool, theirs: bool
) -> None:
    a, b = snap_pair(SctpConfig(zero_checksum=ours), SctpConfig(zero_checksum=theirs))
    for sender, receiver in ((a, b), (b, a)):
        sender.send_message(1, 53, b"x", 0.0)
        [packet] = sender.datagrams_to_send(0.0)
        assert (packet[8:12] == bytes(4)) is (ours and theirs)
        assert checksum_matches(packet) is not (ours and theirs)
        receiver.receive_datagram(packet, 0.0)
        assert receiver.messages() == [(1, 53, b"x")]


def test_a_config_changed_later_has_no_say() -> None:
    """What counts is the INIT that the description carried."""
    signalled = init_chunk(tag=TAG_A, extensions=(0x82, 0xC0))
    config = SctpConfig(interleaving=True, zero_checksum=True)
    us = Association(config, local_init=signalled, entropy=SeededEntropy(1))
    us.start_snap(init_chunk(extensions=(0x82, 0xC0, 0x40, 0xC2), zero_checksum=True), 0.0)
    us.send_message(1, 53, b"x", 0.0)
    [packet] = us.datagrams_to_send(0.0)
    assert checksum_matches(packet)
    assert [kind for kind, _, _ in split_chunks(packet)] == [ChunkType.DATA]


def test_before_the_start_nothing_runs() -> None:
    us = unstarted()
    assert us.state is State.NEW
    assert us.get_timer() is None
    us.handle_timer(100.0)
    assert us.datagrams_to_send(100.0) == []
    assert us.events() == []
    assert us.messages() == []


def test_established_at_once_without_a_packet() -> None:
    a, b = snap_pair(QUIET)
    for side in (a, b):
        assert side.established
        assert side.events() == [Established(65535, 65535)]
        assert side.datagrams_to_send(0.0) == []
        assert side.get_timer() is None
    handshake = {1, 2, 10, 11}
    for n in range(5):
        a.send_message(n, 53, bytes(3000), 0.0)
        b.send_message(n, 53, bytes(3000), 0.0)
    for _ in range(20):
        for sender, receiver in ((a, b), (b, a)):
            for packet in sender.datagrams_to_send(0.0):
                assert not handshake & {kind for kind, _, _ in split_chunks(packet)}
                receiver.receive_datagram(packet, 0.0)
    assert len(a.messages()) == len(b.messages()) == 5


@pytest.mark.parametrize("ports", [(5000, 5000), (6001, 6002)])
def test_the_first_packet_carries_the_signalled_numbers(ports: tuple[int, int]) -> None:
    script = Script(SctpConfig(port=ports[0], remote_port=ports[1], heartbeat_interval_s=None))
    script.send(1)
    [data] = script.hears_data()
    header = parse_header(script.packets[0])
    assert header[:3] == (*ports, TAG_B)
    assert data.tsn == FIRST
    script.says(script.data())
    assert len(script.us.messages()) == 1
    wrong = build_packet(ports[0], ports[1] + 1, TAG_A, script.data())
    script.us.receive_datagram(wrong, 0.0)
    assert script.us.messages() == []
    assert script.us.discards == {SctpDiscard.BAD_PORTS: 1}


def test_another_remote_port_until_the_start() -> None:
    us = unstarted()
    us.set_remote_port(6002)
    us.start_snap(init_chunk(), 0.0)
    us.send_message(0, 53, b"x", 0.0)
    assert parse_header(us.datagrams_to_send(0.0)[0]).destination_port == 6002
    with pytest.raises(InvalidState):
        us.set_remote_port(1)


def test_the_peers_first_tsn_and_its_wrap() -> None:
    script = Script(remote=init_chunk(tsn=0xFFFFFFFF))
    script.says(script.data())
    assert [s.cumulative_tsn for s in script.hears_sacks()] == [0xFFFFFFFF]
    script.says(script.data(ssn=1))
    script.says(script.data(ssn=2))
    assert [s.cumulative_tsn for s in script.hears_sacks()] == [1]
    assert len(script.us.messages()) == 3


def test_real_descriptions_work_together() -> None:
    """Both ends of a captured call: E7 is Chromium's offer, E8 its answer."""
    offer, answer = parse_init(init(INITS["E7"])), parse_init(init(INITS["E8"]))
    a = Association(QUIET, local_init=offer, entropy=SeededEntropy(1))
    b = Association(QUIET, local_init=answer, entropy=SeededEntropy(2))
    a.start_snap(answer, 0.0)
    b.start_snap(offer, 0.0)
    a.send_message(0, 51, b"x", 0.0)
    [packet] = a.datagrams_to_send(0.0)
    [(_, flags, body)] = split_chunks(packet)
    assert parse_data(flags, body).tsn == 0x726FAA66
    assert parse_header(packet).verification_tag == 0xF14A2D7D
    b.receive_datagram(packet, 0.0)
    assert b.messages() == [(0, 51, b"x")]


@pytest.mark.parametrize("tag", [0, TAG_A + 1, TAG_B, 0xFFFFFFFF])
def test_packets_under_another_tag_are_dropped(tag: int) -> None:
    script = Script()
    script.says(script.data(), tag=tag)
    assert script.us.messages() == []
    assert script.us.discards == {SctpDiscard.BAD_TAG: 1}
    assert script.hears() == []


def test_a_message_in_the_same_tick_needs_no_round_trip() -> None:
    a, b = snap_pair()
    a.send_message(4, 51, b"hello", 0.0)
    [packet] = a.datagrams_to_send(0.0)
    b.receive_datagram(packet, 0.03)
    assert b.messages() == [(4, 51, b"hello")]


def test_open_message_and_data_behind_it_arrive_in_order() -> None:
    a, b = snap_pair()
    a.send_message(0, 50, bytes.fromhex("030001000000000000040000") + b"chat", 0.0)
    a.send_message(0, 51, b"first", 0.0)
    [packet] = a.datagrams_to_send(0.0)
    b.receive_datagram(packet, 0.0)
    assert [ppid for _, ppid, _ in b.messages()] == [50, 51]


def test_packets_before_the_start_are_kept_and_replayed_in_order() -> None:
    a, b = snap_pair(QUIET)
    us = Association(
        QUIET, local_init=local_init(QUIET, SeededEntropy(2)), entropy=SeededEntropy(9)
    )
    del b
    packets = []
    for n in range(5):
        a.send_message(1, 51, str(n).encode(), 0.0)
        packets += a.datagrams_to_send(0.0)
    for packet in packets:
        us.receive_datagram(packet, 0.0)
    assert us.messages() == []
    assert us.datagrams_to_send(0.0) == []
    us.start_snap(local_init(QUIET, SeededEntropy(1)), 0.1)
    assert us.messages() == [(1, 51, str(n).encode()) for n in range(5)]
    [_, *rest] = us.events()
    assert rest == []
    assert us.discards == {}


def test_what_is_kept_before_the_start_is_bounded() -> None:
    us = unstarted()
    for n in range(100):
        us.receive_datagram(
            build_packet(5000, 5000, TAG_A, encode_data(Data(3, 1 + n, 0, n, 51, b"x"))), 0.0
        )
    assert us.discards == {SctpDiscard.EARLY_OVERFLOW: 36}
    us.start_snap(init_chunk(), 0.0)
    us.datagrams_to_send(0.0)
    assert us._inbound is not None
    assert us._inbound.tracker.starts == [37]


def test_an_echo_of_our_own_value_means_the_ordinary_handshake() -> None:
    us = unstarted()
    ours = init_chunk(tag=TAG_A, tsn=FIRST)
    assert is_echo(ours, ours)
    us.start_snap(ours, 0.0)
    assert us.state is State.COOKIE_WAIT
    [packet] = us.datagrams_to_send(0.0)
    [(kind, _, body)] = split_chunks(packet)
    fresh = parse_init_body(body)
    assert kind == ChunkType.INIT
    # never the tag and TSN that the description showed
    assert fresh.initiate_tag != TAG_A
    assert fresh.initial_tsn != FIRST
    assert is_echo(ours, init_chunk(tag=TAG_A, tsn=5))
    assert not is_echo(ours, init_chunk())


def test_the_ordinary_handshake_uses_fresh_numbers() -> None:
    us = unstarted()
    us.start(0.0)
    [packet] = us.datagrams_to_send(0.0)
    [(_, _, body)] = split_chunks(packet)
    fresh = parse_init_body(body)
    assert fresh.initiate_tag != TAG_A
    assert fresh.initial_tsn != FIRST


def test_without_a_local_value_there_is_no_snap() -> None:
    us = Association(QUIET, local_init=None, entropy=SeededEntropy(1))
    with pytest.raises(InvalidState):
        us.start_snap(init_chunk(), 0.0)


# -- a peer that starts the ordinary way although SNAP was agreed


def says_init(script: Script, remote: InitChunk) -> InitChunk:
    raw = remote.to_bytes()
    script.says(raw + PADS[len(raw) & 3], tag=0)
    [(kind, _, body)] = script.hears()
    assert kind == ChunkType.INIT_ACK
    assert parse_header(script.packets[0]).verification_tag == remote.initiate_tag
    return parse_init_body(body)


def cookie_of(ack: InitChunk) -> bytes:
    cookie = ack.parameter(7)
    assert cookie is not None
    return chunk(ChunkType.COOKIE_ECHO, cookie)


def test_an_init_with_the_signalled_tag_is_answered_with_what_we_signalled() -> None:
    script = Script()
    script.says(script.data(b"before"))
    script.send(1)
    script.hears()
    ack = says_init(script, script.remote)
    assert (ack.initiate_tag, ack.initial_tsn, ack.a_rwnd) == (TAG_A, FIRST, script.local.a_rwnd)
    script.says(cookie_of(ack))
    assert ChunkType.COOKIE_ACK in kinds(script.hears())
    assert script.us.established
    script.says(script.data(b"after", ssn=1))
    script.sacks(FIRST)
    assert [m[2] for m in script.us.messages()] == [b"before", b"after"]
    assert script.us._transmission is not None
    assert script.us._transmission.is_idle
    assert Restarted() not in script.us.events()


def test_an_init_with_a_new_tag_restarts() -> None:
    script = Script()
    script.says(script.data(b"before", stream=3))
    script.send(1, stream=3)
    script.us.send_message(3, 51, bytes(100_000), 0.0)
    script.hears()
    new = init_chunk(tag=0xABCD, tsn=77)
    ack = says_init(script, new)
    assert ack.initiate_tag not in (TAG_A, 0)
    assert ack.initial_tsn != FIRST
    assert script.us._local_tag == TAG_A  # nothing has changed until the cookie comes back
    script.says(cookie_of(ack), tag=ack.initiate_tag)
    script.local, script.tsn = ack, 77
    heard = script.hears()
    assert heard[0][0] == ChunkType.COOKIE_ACK
    assert parse_header(script.packets[0]).verification_tag == 0xABCD
    [first, *_] = [parse_data(f, body) for k, f, body in heard if k == ChunkType.DATA]
    # what was not completely sent begins anew, under the new numbers
    assert (first.tsn, first.stream_seq, first.flags & 2) == (ack.initial_tsn, 0, 2)
    assert Restarted() in script.us.events()
    script.says(script.data(b"after", stream=3, ssn=0))
    assert [m[2] for m in script.us.messages()] == [b"before", b"after"]
    # a packet of the old life is dropped
    script.says(script.data(b"old"), tag=TAG_A)
    assert script.us.discards == {SctpDiscard.BAD_TAG: 1}


def test_a_late_cookie_of_another_life_changes_nothing() -> None:
    script = Script()
    first = says_init(script, init_chunk(tag=0xABCD))
    second = says_init(script, init_chunk(tag=0xEF01))
    script.says(cookie_of(second), tag=second.initiate_tag)
    script.hears()
    script.local = second
    script.says(cookie_of(first), tag=first.initiate_tag)
    assert script.us._local_tag == second.initiate_tag
    assert script.us.discards == {SctpDiscard.BAD_COOKIE: 1}


def test_init_ack_cookie_ack_and_a_foreign_cookie_change_nothing() -> None:
    script = Script()
    ack = InitChunk(TAG_B, 5000, 1, 1, 1, ((7, b"cookie"),)).to_chunk(ChunkType.INIT_ACK)
    script.says(ack + PADS[len(ack) & 3])
    script.says(chunk(ChunkType.COOKIE_ACK))
    script.says(chunk(ChunkType.COOKIE_ECHO, bytes(85)))
    script.says(chunk(ChunkType.COOKIE_ECHO, bytes(85)), tag=99)
    assert script.hears() == []
    assert script.us.discards == {SctpDiscard.UNEXPECTED_CHUNK: 2, SctpDiscard.BAD_COOKIE: 2}
    script.send(1)
    assert [data.tsn for data in script.hears_data()] == [FIRST]


def test_a_real_peer_that_falls_back_is_met() -> None:
    """One side believes in SNAP, the other starts the ordinary way with fresh numbers."""
    ours, theirs = local_init(QUIET, SeededEntropy(1)), local_init(QUIET, SeededEntropy(2))
    a = Association(QUIET, local_init=ours, entropy=SeededEntropy(3))
    b = Association(QUIET, local_init=theirs, entropy=SeededEntropy(4))
    a.start_snap(theirs, 0.0)
    b.start(0.0)
    a.send_message(1, 51, b"from the old life", 0.0)
    a.send_message(2, 51, bytes(50_000), 0.0)
    exchange(a, b)
    assert a.established
    assert b.established
    assert Restarted() in a.events()
    a.send_message(1, 51, b"to b", 0.0)
    b.send_message(1, 51, b"to a", 0.0)
    exchange(a, b)
    assert [m[2] for m in a.messages()] == [b"to a"]
    # nothing that b could not have received is lost
    received = b.messages()
    assert [m for m in received if m[0] == 1] == [
        (1, 51, b"from the old life"),
        (1, 51, b"to b"),
    ]
    assert (2, 51, bytes(50_000)) in received
