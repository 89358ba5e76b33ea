"""The front door: packets, tags, checksums, unknown chunks, usage (RFC 9260 6.8, 8.4, 8.5)."""

from __future__ import annotations

import gc
import sys

import pytest

from tests.unit.sctp.support import (
    Script,
    chunk,
    classic_pair,
    exchange,
    init_chunk,
    kinds,
    snap_pair,
)
from tests.vectors.sctp import TAG_A, TAG_B, packet
from warp.contract import LayerEndpoint
from warp.entropy import SeededEntropy
from warp.errors import UsageError
from warp.sctp import Association, SctpConfig, SctpDiscard, State
from warp.sctp.chunks import TAG_REFLECTED, ChunkType, split_chunks
from warp.sctp.parameters import PADS, parse_causes

FIRST = 1000
QUIET = SctpConfig(heartbeat_interval_s=None)


def test_it_speaks_the_five_verbs() -> None:
    assert isinstance(Script().us, LayerEndpoint)


# -- packets


def receiver_of_v1(*, zero: bool = False) -> Association:
    """B of the vectors: its tag is 55667788 and A's first TSN is fffffff0."""
    us = Association(
        QUIET,
        local_init=init_chunk(tag=TAG_B, tsn=1, zero_checksum=zero),
        entropy=SeededEntropy(1),
    )
    us.start_snap(init_chunk(tag=TAG_A, tsn=0xFFFFFFF0, zero_checksum=zero), 0.0)
    return us


def test_the_vectors_are_taken_in_their_order() -> None:
    us = receiver_of_v1()
    for name in ("V1", "V4", "V5"):
        us.receive_datagram(packet(name), 0.0)
    assert [(sid, ppid) for sid, ppid, _ in us.messages()] == [(0, 50), (0, 51), (0, 57)]
    us.receive_datagram(packet("V8"), 0.0)
    us.receive_datagram(packet("V13"), 0.0)
    answers = [list(split_chunks(p)) for p in us.datagrams_to_send(0.0)]
    said = [one for many in answers for one in many]
    assert [kind for kind, _, _ in said if kind != 3] == [0x82, 5]
    us.receive_datagram(packet("V14"), 0.0)
    assert us.state is State.CLOSED
    assert us.discards == {}


def test_every_flipped_bit_drops_the_packet() -> None:
    whole = packet("V1")
    for bit in range(8 * len(whole)):
        us = receiver_of_v1()
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        us.receive_datagram(bytes(broken), 0.0)
        assert us.messages() == []
        assert us.datagrams_to_send(0.0) == []
        assert sum(us.discards.values()) == 1
        assert us.discards.keys() <= {SctpDiscard.BAD_CHECKSUM, SctpDiscard.BAD_PORTS}


@pytest.mark.parametrize("length", range(16))
def test_what_is_too_short_is_discarded(length: int) -> None:
    us = receiver_of_v1()
    us.receive_datagram(packet("V1")[:length], 0.0)
    assert us.discards == {SctpDiscard.TOO_SHORT: 1}


def test_zero_checksum_is_accepted_only_if_we_announced_it() -> None:
    for announced in (False, True):
        us = receiver_of_v1(zero=announced)
        us.receive_datagram(packet("V2"), 0.0)
        assert len(us.messages()) == announced


def test_a_checksum_that_is_there_has_to_be_right() -> None:
    us = receiver_of_v1(zero=True)
    broken = bytearray(packet("V1"))
    broken[8] ^= 1
    us.receive_datagram(bytes(broken), 0.0)
    assert us.discards == {SctpDiscard.BAD_CHECKSUM: 1}
    us.receive_datagram(packet("V1"), 0.0)
    assert len(us.messages()) == 1


@pytest.mark.parametrize("zero", [False, True])
def test_checksums_of_the_ordinary_handshake(zero: bool) -> None:
    """RFC 9653 section 5.2: INIT and COOKIE ECHO always carry one, later packets need none."""
    a, b = classic_pair(SctpConfig(zero_checksum=zero))
    a.start(0.0)
    b.start(0.0)
    seen: dict[int, set[bool]] = {}
    a.send_message(1, 53, b"x", 0.0)
    b.send_message(1, 53, b"x", 0.0)
    for _ in range(10):
        for sender, receiver in ((a, b), (b, a)):
            for each in sender.datagrams_to_send(0.0):
                first = next(iter(split_chunks(each)))[0]
                seen.setdefault(first, set()).add(each[8:12] == bytes(4))
                receiver.receive_datagram(each, 0.0)
    assert seen[ChunkType.INIT] == seen[ChunkType.COOKIE_ECHO] == {False}
    assert seen[ChunkType.COOKIE_ACK] == {zero}


# -- chunks


def test_a_broken_chunk_ends_the_packet_but_keeps_what_came_before() -> None:
    script = Script()
    script.says(script.data(b"kept"), b"\x00\x03\x00\x03", script.data(b"lost", ssn=1))
    assert [m[2] for m in script.us.messages()] == [b"kept"]
    assert script.us.discards == {SctpDiscard.BAD_CHUNK_LENGTH: 1}
    script.says(b"\x00\x03\xff\xff" + bytes(100))
    assert script.us.discards == {SctpDiscard.BAD_CHUNK_LENGTH: 2}
    assert script.us.established


def test_sack_before_data_in_one_packet() -> None:
    script = Script()
    script.send(1)
    script.hears()
    script.says(chunk(3, FIRST.to_bytes(4, "big") + bytes(8)), script.data(b"behind it"))
    assert [m[2] for m in script.us.messages()] == [b"behind it"]
    assert script.us._transmission is not None
    assert script.us._transmission.is_idle


@pytest.mark.parametrize(
    ("kind", "goes_on", "reported"),
    [(0x3E, False, False), (0x7E, False, True), (0xBE, True, False), (0xFE, True, True)],
)
def test_unknown_chunks_go_by_their_top_bits(kind: int, goes_on: bool, reported: bool) -> None:
    script = Script()
    script.says(chunk(kind, b"abcde"), script.data())
    assert len(script.us.messages()) == goes_on
    errors = [body for k, _, body in script.hears() if k == ChunkType.ERROR]
    raw = bytes([kind, 0, 0, 9]) + b"abcde"
    assert [parse_causes(body) for body in errors] == ([[(6, raw)]] if reported else [])
    assert script.us.discards == {SctpDiscard.UNKNOWN_CHUNK: 1}


def test_a_report_stays_inside_the_packet() -> None:
    script = Script()
    script.says(chunk(0xFE, bytes(5000)))
    script.hears()
    assert [len(p) <= 1191 for p in script.packets] == [True]


@pytest.mark.parametrize("kind", [0x0C, 0x0D, 0x0F, 0x80, 0x81, 0x84, 0xC1])
def test_chunks_of_extensions_we_do_not_have_are_survived(kind: int) -> None:
    """ECNE, CWR, AUTH, ASCONF-ACK, unassigned, PAD, ASCONF."""
    script = Script()
    script.says(chunk(kind, bytes(30)))
    assert script.us.established
    script.hears()


# -- tags


def test_init_has_to_stand_alone_and_under_tag_0() -> None:
    raw = init_chunk(tag=7).to_bytes()
    init = raw + PADS[len(raw) & 3]
    script = Script()
    script.says(init, tag=TAG_A)
    script.says(init, chunk(ChunkType.COOKIE_ACK), tag=0)
    script.says(init, tag=5)
    assert script.hears() == []
    assert script.us.discards == {
        SctpDiscard.UNEXPECTED_CHUNK: 1,
        SctpDiscard.INIT_NOT_ALONE: 2,
    }
    script.says(init, tag=0)
    assert kinds(script.hears()) == [ChunkType.INIT_ACK]


def test_a_broken_init_is_ignored() -> None:
    script = Script()
    for body in (b"", bytes(16), init_chunk(tag=7).to_bytes()[4:] + b"\0\x07\0\x01"):
        script.says(chunk(ChunkType.INIT, body), tag=0)
    assert script.hears() == []
    assert sum(script.us.discards.values()) == 3


def test_the_t_bit() -> None:
    script = Script()
    for kind in (ChunkType.ABORT, ChunkType.SHUTDOWN_COMPLETE):
        script.says(chunk(kind, flags=TAG_REFLECTED), tag=TAG_B + 1)
        script.says(chunk(kind), tag=TAG_B)
    assert script.us.established
    assert script.us.discards == {SctpDiscard.BAD_TAG: 4}


def test_after_the_end_everything_is_ignored() -> None:
    script = Script()
    script.us.abort(0.0)
    script.hears()
    raw = init_chunk(tag=7).to_bytes()
    for each in (script.data(), chunk(ChunkType.HEARTBEAT), chunk(ChunkType.ABORT)):
        script.says(each)
    script.says(raw + PADS[len(raw) & 3], tag=0)
    assert script.hears() == []
    assert script.us.discards == {SctpDiscard.ENDED: 4}
    script.us.handle_timer(1e6)
    assert script.us.get_timer() is None


# -- usage


def test_an_empty_message_is_refused() -> None:
    script = Script()
    with pytest.raises(UsageError):
        script.us.send_message(0, 51, b"", 0.0)


@pytest.mark.parametrize("stream", [-1, 10, 65535])
def test_a_stream_beyond_the_agreed_is_refused(stream: int) -> None:
    script = Script(remote=init_chunk(streams=10))
    with pytest.raises(UsageError):
        script.us.send_message(stream, 51, b"x", 0.0)
    script.us.send_message(9, 51, b"x", 0.0)


def test_buffered_amount() -> None:
    script = Script()
    script.send(5, stream=1)
    script.send(20_000, stream=1)
    assert script.us.buffered_amount(1) == 20_005
    script.hears()
    assert 0 < script.us.buffered_amount(1) < 10_000
    assert script.us.drained_streams() == {1}
    assert script.us.buffered_amount(2) == 0


def test_other_kinds_of_bytes_are_taken() -> None:
    a, b = snap_pair()
    buffer = bytearray(b"abc")
    a.send_message(1, 53, memoryview(buffer), 0.0)  # type: ignore[arg-type]
    buffer[:] = b"xyz"
    exchange(a, b)
    assert b.messages() == [(1, 53, b"abc")]


def test_a_hint_shortens_the_first_timeout() -> None:
    script = Script()
    script.us.set_rtt_hint(0.02)
    script.send(1)
    script.hears()
    assert script.us.get_timer() == pytest.approx(0.2)


def test_late_drains_cost_time_not_data() -> None:
    a, b = snap_pair()
    for n in range(50):
        a.send_message(n % 3, 53, bytes(3000), 0.0)
    now = 0.0
    for _ in range(200):
        now += 1.0
        for side in (a, b):
            side.handle_timer(now)
            side.handle_timer(now)
        for each in a.datagrams_to_send(now):
            b.receive_datagram(each, now)
        now += 1.0
        for each in b.datagrams_to_send(now):
            a.receive_datagram(each, now)
    assert len(b.messages()) == 50


def test_a_run_can_be_replayed_byte_for_byte() -> None:
    def run() -> list[bytes]:
        a, b = classic_pair()
        a.start(0.0)
        b.start(0.0)
        a.send_message(1, 53, bytes(5000), 0.0)
        seen: list[bytes] = []
        for step in range(20):
            now = step / 10
            for sender, receiver in ((a, b), (b, a)):
                sender.handle_timer(now)
                for each in sender.datagrams_to_send(now):
                    seen.append(each)
                    receiver.receive_datagram(each, now)
        return seen

    assert run() == run()


def test_a_restart_in_the_ordinary_way_keeps_streams_and_counts_from_0() -> None:
    a, b = classic_pair()
    a.start(0.0)
    b.start(0.0)
    exchange(a, b)
    for _ in range(3):
        a.send_message(1, 51, b"old", 0.0)
        b.send_message(1, 51, b"old", 0.0)
    exchange(a, b)
    assert len(a.messages()) == len(b.messages()) == 3
    again = Association(QUIET, local_init=None, entropy=SeededEntropy(99))
    again.start(1.0)
    again.send_message(1, 51, b"new", 1.0)
    exchange(again, b, 1.0)
    b.send_message(1, 51, b"answer", 1.0)
    exchange(again, b, 1.0)
    assert b.messages() == [(1, 51, b"new")]
    assert again.messages() == [(1, 51, b"answer")]
    sent = b._transmission
    assert sent is not None
    assert sent.flight_size == 0


def test_a_restart_while_a_reset_is_pending() -> None:
    a, b = classic_pair(QUIET)
    a.start(0.0)
    b.start(0.0)
    exchange(a, b)
    b.send_message(4, 51, b"x", 0.0)
    b.reset_streams([4], 0.0)
    b.datagrams_to_send(0.0)  # lost
    again = Association(QUIET, local_init=None, entropy=SeededEntropy(99))
    again.start(1.0)
    exchange(again, b, 1.0)
    assert again.messages() == [(4, 51, b"x")]
    assert [type(event).__name__ for event in b.events()][-2:] == ["Restarted", "StreamsReset"]


@pytest.mark.parametrize("idle", [True, False])
def test_an_association_is_small(idle: bool) -> None:
    """No tables of 65535 streams: objects reachable from it stay few."""
    a, b = snap_pair()
    if not idle:
        a.send_message(1, 51, b"x", 0.0)
        exchange(a, b)
        b.messages()
    seen: dict[int, object] = {}
    heap: list[object] = [a]
    while heap:
        each = heap.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        if type(each).__module__ in ("builtins", "collections") or "sctp" in type(each).__module__:
            seen[id(each)] = each
            heap += gc.get_referents(each)
    assert sum(map(sys.getsizeof, seen.values())) < 12_000
