from __future__ import annotations

import itertools

import pytest

from warp.crypto import AeadKind
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.context import Context, DtlsTimer
from warp.dtls.epochs import EpochTable
from warp.dtls.events import FlightAcknowledged
from warp.dtls.flight import RECORDS_A_BURST, AckEffect, Flight, OutgoingMessage
from warp.dtls.record13 import ReadKeys13, WriteKeys13
from warp.dtls.records import HANDSHAKE

MATERIAL = (AeadKind.AES_128_GCM, lambda: (bytes(16), bytes(12), bytes(range(16))))


class Bench:
    """A flight with epochs 0 and 2, and the means to read what it sends."""

    def __init__(self, **config) -> None:
        self.context = Context(DtlsRole.SERVER, DtlsConfig(**config), None)
        self.epochs = EpochTable()
        self.epochs.install_write(WriteKeys13(2, *MATERIAL))
        self.flight = Flight(self.context, self.epochs)
        self._read = ReadKeys13(2, *MATERIAL)

    def take(self) -> list[list[tuple[int, int, list[tuple[int, int, int]]]]]:
        """Datagrams as lists of (epoch, sequence, [(message_seq, start, end)])."""
        out = []
        for data in self.context.outbox.take_flight()[0]:
            records, position = [], 0
            while position < len(data):
                if data[position] == 0x2E:
                    end = position + 5 + int.from_bytes(data[position + 3 : position + 5], "big")
                    kind, sequence, content = self._read.open(data, position, end)
                    epoch = 2
                else:
                    end = position + 13 + int.from_bytes(data[position + 11 : position + 13], "big")
                    kind, epoch = data[position], 0
                    sequence = int.from_bytes(data[position + 5 : position + 11], "big")
                    content = data[position + 13 : end]
                assert kind == HANDSHAKE
                records.append((epoch, sequence, fragments(content)))
                position = end
            assert len(data) <= self.context.mtu
            out.append(records)
        return out

    def timeout(self) -> float:
        now = self.context.timers.deadline(DtlsTimer.RETRANSMIT)
        self.context.timers.pop_expired(now)
        self.flight.handle_timeout(now)
        return now


def fragments(content: bytes) -> list[tuple[int, int, int]]:
    out, position = [], 0
    while position < len(content):
        start = int.from_bytes(content[position + 6 : position + 9], "big")
        length = int.from_bytes(content[position + 9 : position + 12], "big")
        out.append(
            (int.from_bytes(content[position + 4 : position + 6], "big"), start, start + length)
        )
        position += 12 + length
    return out


def ranges(datagrams) -> list[tuple[int, int, int]]:
    return [piece for records in datagrams for _, _, pieces in records for piece in pieces]


def server_flight(bench: Bench, hello: int = 88) -> None:
    bench.flight.begin()
    bench.flight.add(2, bytes(hello), 0)
    for kind, size in ((8, 11), (13, 27), (11, 291), (15, 76), (20, 32)):
        bench.flight.add(kind, bytes(size), 2)
    bench.flight.send(0.0, reply_expected=True)


def test_hello_and_one_record_share_one_datagram():
    bench = Bench(mtu=900)
    server_flight(bench)
    (records,) = bench.take()
    assert [(epoch, sequence) for epoch, sequence, _ in records] == [(0, 0), (2, 0)]
    assert [piece[0] for piece in records[1][2]] == [1, 2, 3, 4, 5]


def test_protected_messages_stay_together_beside_a_hybrid_hello():
    """They move to a datagram of their own rather than being split (NSS, BoringSSL)."""
    bench = Bench(mtu=1200)
    server_flight(bench, hello=1000)
    first, second = bench.take()
    assert [epoch for epoch, _, _ in first] == [0]
    assert [(epoch, len(pieces)) for epoch, _, pieces in second] == [(2, 5)]


def covered(pieces, seq: int) -> int:
    position = 0
    for _, start, end in sorted(piece for piece in pieces if piece[0] == seq):
        assert start == position
        position = end
    return position


@pytest.mark.parametrize("mtu", [256, 300, 548, 900, 1200])
def test_pieces_are_disjoint_and_whole(mtu):
    bench = Bench(mtu=mtu)
    server_flight(bench, hello=1174)
    pieces = ranges(bench.take())
    assert [covered(pieces, seq) for seq in range(6)] == [1174, 11, 27, 291, 76, 32]


@pytest.mark.parametrize("mtu", [256, 300, 548, 900, 1200])
def test_dense_flights_leave_no_room(mtu):
    """Every datagram but the last is so full that no piece of another byte would fit."""
    bench = Bench(mtu=mtu, dense_flights=True)
    server_flight(bench, hello=1174)
    for first in (True, False):
        sent = list(bench.context.outbox.flight)
        datagrams = bench.take()
        pieces = ranges(datagrams)
        assert [covered(pieces, seq) for seq in range(6)] == [1174, 11, 27, 291, 76, 32]
        assert all(mtu - len(data) <= 13 + 12 for data in sent[:-1])
        for records in datagrams:
            assert len({epoch for epoch, _, _ in records}) == len(records)
        if first:
            bench.timeout()


def test_plaintext_messages_have_a_record_each():
    bench = Bench()
    bench.flight.add(2, bytes(50), 0)
    bench.flight.add(11, bytes(50), 0)
    bench.flight.send(0.0, reply_expected=True)
    (records,) = bench.take()
    assert [len(pieces) for _, _, pieces in records] == [1, 1]


def test_empty_message():
    bench = Bench()
    bench.flight.add(14, b"", 0)
    bench.flight.send(0.0, reply_expected=True)
    assert ranges(bench.take()) == [(0, 0, 0)]
    assert bench.flight.receive_ack([(0, 0)], 0.1) is AckEffect.ALL


def test_retransmission_has_new_numbers_and_the_old_epochs():
    bench = Bench()
    server_flight(bench)
    first = bench.take()
    assert bench.timeout() == pytest.approx(0.4)
    second = bench.take()
    assert ranges(first) == ranges(second)
    # each message in a record of its own: NSS drops what follows one that it has seen before
    assert [(e, s) for e, s, _ in second[0]] == [(0, 1), *((2, number) for number in range(1, 6))]


def test_backoff_doubles_to_its_cap():
    bench = Bench(max_rto_s=3.0)
    server_flight(bench)
    moments = [bench.timeout() for _ in range(6)]
    gaps = [b - a for a, b in itertools.pairwise(moments)]
    assert gaps == pytest.approx([0.8, 1.6, 3.0, 3.0, 3.0])


@pytest.mark.parametrize(("rtt", "rto"), [(0.001, 0.05), (0.1, 0.2), (9.0, 3.0)])
def test_first_timeout_follows_the_rtt(rtt, rto):
    bench = Bench()
    bench.context.set_rtt(rtt)
    server_flight(bench)
    assert bench.timeout() == pytest.approx(rto)


def test_a_new_rtt_moves_a_running_timer_that_was_not_backed_off():
    bench = Bench()
    server_flight(bench)
    bench.context.set_rtt(0.05)
    bench.flight.rtt_changed(0.02)
    assert bench.context.timers.deadline(DtlsTimer.RETRANSMIT) == pytest.approx(0.1)
    bench.timeout()
    bench.context.set_rtt(0.2)
    bench.flight.rtt_changed(0.15)
    assert bench.context.timers.deadline(DtlsTimer.RETRANSMIT) == pytest.approx(0.3)


def test_mtu_steps_down():
    bench = Bench(mtu=1200)
    server_flight(bench, hello=1174)
    sizes = []
    for _ in range(5):
        sizes.append(max(map(len, bench.context.outbox.flight)))
        bench.context.outbox.take_flight()
        bench.timeout()
    assert sizes[0] > 1000
    assert 548 < sizes[2] <= 1000
    assert sizes[4] <= 548


def test_partial_ack_resends_what_is_missing_once():
    bench = Bench(mtu=300)
    server_flight(bench, hello=1174)
    sent = bench.take()
    records = [(epoch, seq, pieces) for datagram in sent for epoch, seq, pieces in datagram]
    lost = records[2]
    numbers = [(epoch, seq) for epoch, seq, _ in records if (epoch, seq) != lost[:2]]
    assert bench.flight.receive_ack(numbers[:3], 0.1) is AckEffect.PART
    again = ranges(bench.take())
    assert set(again) >= set(lost[2])
    # a second ACK of the same sending is taken note of, but does not resend everything again
    assert bench.flight.receive_ack(numbers[3:], 0.11) is AckEffect.PART
    assert bench.take() == []
    bench.timeout()
    assert ranges(bench.take()) == lost[2]


def test_full_ack_ends_the_flight():
    bench = Bench()
    server_flight(bench)
    bench.take()
    assert bench.flight.receive_ack([(2, 0), (0, 0)], 0.1) is AckEffect.ALL
    assert not bench.flight.outstanding
    assert bench.context.timers.due is None
    assert bench.context.events == [FlightAcknowledged()]


def test_unknown_numbers_mean_nothing():
    bench = Bench()
    server_flight(bench)
    deadline = bench.context.timers.due
    strange = [(7, 7), (2**64 - 1, 2**64 - 1), (0, 5), (2, 99)]
    assert bench.flight.receive_ack(strange, 0.1) is AckEffect.NOTHING
    assert bench.context.timers.due == deadline


def test_ack_of_an_earlier_flight_means_nothing():
    bench = Bench()
    server_flight(bench)
    server_flight(bench)
    assert bench.flight.receive_ack([(0, 0), (2, 0)], 0.1) is AckEffect.NOTHING


def test_ack_of_a_retransmission_counts():
    bench = Bench()
    server_flight(bench)
    bench.timeout()
    numbers = [(0, 1), *((2, number) for number in range(1, 6))]
    assert bench.flight.receive_ack(numbers, 0.5) is AckEffect.ALL


def test_repetition_is_answered_at_most_once_in_half_a_timeout():
    bench = Bench()
    server_flight(bench)
    bench.take()
    bench.flight.handle_repetition(0.1)
    assert bench.take() == []
    bench.flight.handle_repetition(0.25)
    assert len(bench.take()) == 1
    bench.flight.handle_repetition(0.3)
    assert bench.take() == []
    assert bench.flight.timeouts == 0


def test_repetition_after_a_partial_ack_is_ignored():
    bench = Bench(mtu=300)
    server_flight(bench)
    bench.take()
    bench.flight.receive_ack([(0, 0)], 0.1)
    bench.take()
    bench.flight.handle_repetition(5.0)
    assert bench.take() == []


def test_final_flight_has_no_timer_and_is_resent_on_demand():
    bench = Bench()
    bench.flight.add(20, bytes(12), 2)
    bench.flight.send(0.0, reply_expected=False)
    bench.take()
    assert bench.context.timers.due is None
    bench.flight.handle_timeout(9.0)
    assert bench.take() == []
    bench.flight.handle_repetition(9.0)
    assert len(bench.take()) == 1


def test_suspended_timers():
    bench = Bench()
    bench.context.suspended = True
    server_flight(bench)
    assert bench.context.timers.due is None
    bench.context.suspended = False
    bench.flight.resume(1.0)
    assert bench.context.timers.due == pytest.approx(1.4)


def test_a_long_flight_leaves_in_bursts():
    bench = Bench(mtu=256)
    bench.flight.add(11, bytes(5000), 2)
    bench.flight.send(0.0, reply_expected=True)
    assert len(bench.context.outbox.flight) == RECORDS_A_BURST
    pieces = ranges(bench.take())
    moment = bench.context.timers.deadline(DtlsTimer.BURST)
    while moment is not None:
        bench.context.timers.pop_expired(moment)
        bench.flight.handle_burst_timer(moment)
        assert len(bench.context.outbox.flight) <= RECORDS_A_BURST
        pieces += ranges(bench.take())
        moment = bench.context.timers.deadline(DtlsTimer.BURST)
    assert covered(pieces, 0) == 5000


@pytest.mark.parametrize("answered", [False, True])
def test_no_burst_is_waited_for_once_nothing_waits(answered):
    bench = Bench(mtu=256)
    bench.flight.add(11, bytes(2600), 2)
    bench.flight.send(0.0, reply_expected=True)
    assert len(bench.take()) == RECORDS_A_BURST
    assert bench.context.timers.deadline(DtlsTimer.BURST) is not None
    if answered:
        bench.flight.begin()
        assert bench.context.timers.due is None
        assert bench.take() == []
    else:  # what is missing is little enough to leave at once, with what waited
        bench.flight.receive_ack([(2, number) for number in range(RECORDS_A_BURST)], 0.01)
        assert len(bench.take()) == 4
        assert bench.context.timers.deadline(DtlsTimer.BURST) is None


def test_outgoing_message_ranges():
    message = OutgoingMessage(0, 11, 0, bytes(100))
    assert message.missing == [(0, 100)]
    message.acknowledge(20, 30)
    message.acknowledge(50, 100)
    assert message.missing == [(0, 20), (30, 50)]
    message.acknowledge(0, 60)
    assert message.missing == []


def test_new_instances_are_told_apart():
    """What rides in connectivity checks has to know when earlier copies are worthless."""
    bench = Bench()
    server_flight(bench)
    assert bench.context.outbox.take_flight()[1] is True
    assert bench.context.outbox.take_flight() == ([], False)
    bench.timeout()
    assert bench.context.outbox.take_flight()[1] is True
