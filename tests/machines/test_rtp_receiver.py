"""A receiver under loss, copies, reordering and time: in order, once, gaps told, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from warp.rtp import AudioReceiver, PayloadKind, ReceiverConfig, RedBlock, build_red

WAIT = 0.04
CAPACITY = 16


class Receiving(RuleBasedStateMachine):
    """A sender numbers packets 0, 1, 2 ... from `START`; a wire keeps, doubles or swallows them."""

    START = 65500  # wraps soon

    def __init__(self) -> None:
        super().__init__()
        self.receiver = AudioReceiver(
            ReceiverConfig(
                payload_kinds={111: PayloadKind.AUDIO, 63: PayloadKind.RED},
                reorder_wait_s=WAIT, reorder_capacity=CAPACITY, nack=True, nack_capacity=8,
            )
        )  # fmt: skip
        self.receiver.begin_source(1, 0.0)
        self.now = 0.0
        self.sent = 0
        self.held: list[int] = []
        self.arrived: set[int] = set()
        self.out: list[int] = []
        self.lost: set[int] = set()
        self.next = self.START
        self.asked = 0

    def deliver(self, number: int, *, red: bool = False) -> None:
        if not self.arrived and number:
            number = 0  # the first packet heard decides where counting begins
        payload = b"%d" % number
        if red and number:
            payload = build_red(
                [RedBlock(111, 960, b"%d" % (number - 1)), RedBlock(111, 0, payload)]
            )
            self.arrived.add(number - 1)
        self.arrived.add(number)
        sequence = self.START + number
        self.receiver.receive(
            sequence & 0xFFFF, 0xFFFFE000 + 960 * number & 0xFFFFFFFF, False,
            63 if red and number else 111, payload, None, self.now,
        )  # fmt: skip

    @rule(count=st.integers(1, 5), red=st.booleans())
    def send(self, count: int, red: bool) -> None:
        for _ in range(count):
            self.deliver(self.sent, red=red)
            self.sent += 1

    @rule(count=st.integers(1, 30))
    def lose(self, count: int) -> None:
        if self.arrived:
            self.sent += count

    @rule()
    def hold(self) -> None:
        if self.arrived:
            self.held.append(self.sent)
            self.sent += 1

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        fresh = [n for n in self.held if self.sent - n < 90]  # beyond that, a restart
        self.held = fresh
        if fresh:
            number = data.draw(st.sampled_from(fresh))
            self.held.remove(number)
            self.deliver(number)

    @rule(back=st.integers(1, 40))
    def repeat(self, back: int) -> None:
        if self.sent - back in self.arrived and self.sent >= back:
            self.deliver(self.sent - back)

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.039, 0.04, 0.5]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def fire(self) -> None:
        timer = self.receiver.get_timer()
        assert timer == self.receiver.get_timer()
        self.receiver.handle_timer(self.now)
        later = self.receiver.get_timer()
        assert later is None or later > self.now
        if timer is None or timer > self.now:
            assert later == timer

    @rule()
    def ask(self) -> None:
        numbers = self.receiver.nacks_to_send(self.now)
        assert len(set(numbers)) == len(numbers) <= 8
        assert self.receiver.nacks_to_send(self.now) == []

    @invariant()
    def in_order_exactly_once(self) -> None:
        for frame in self.receiver.frames():
            assert frame.sequence == self.next
            if frame.payload is None:
                assert frame.lost > 0
                self.next += frame.lost
                self.lost |= set(range(frame.sequence, self.next))
            else:
                number = frame.sequence - self.START
                assert frame.payload == b"%d" % number
                assert frame.timestamp == 0xFFFFE000 + 960 * number
                self.out.append(number)
                self.next += 1

    @invariant()
    def bounded(self) -> None:
        buffer = self.receiver._buffer
        assert len(buffer.entries) <= CAPACITY
        if buffer.entries:
            assert buffer.deadline is not None and self.receiver.get_timer() is not None
        else:
            assert self.receiver.get_timer() is None or self.receiver._nacks is not None
        if self.receiver._nacks is not None:
            assert len(self.receiver._nacks._missing) <= 8

    def teardown(self) -> None:
        self.now += 100.0
        self.receiver.handle_timer(self.now)
        self.in_order_exactly_once()
        assert self.receiver._buffer.entries == {}
        assert len(self.out) == len(set(self.out)) and self.out == sorted(self.out)
        # what arrived and was not played had been given up before it came
        assert self.arrived - set(self.out) <= {n - self.START for n in self.lost}
        stats = self.receiver.stats
        assert stats.given_up == len(self.lost)
        super().teardown()


@pytest.mark.slow
class TestReceiving(Receiving.TestCase):
    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    st.permutations(range(12)),
    st.sets(st.integers(1, 11), max_size=5),
    st.lists(st.integers(0, 11), max_size=6),
)
def test_any_order_within_the_wait(
    order: list[int], dropped: set[int], repeated: list[int]
) -> None:
    """Whatever the order, what arrives within the wait is played, and only the rest is a gap."""
    receiver = AudioReceiver(ReceiverConfig(reorder_wait_s=WAIT, reorder_capacity=CAPACITY))
    receiver.begin_source(1, 0.0)

    def put(number: int) -> None:
        receiver.receive(
            65530 + number & 0xFFFF, 960 * number, False, 111, b"%d" % number, None, 1.0
        )

    put(0)
    for number in [*order, *repeated]:
        if number not in dropped:
            put(number)
    put(12)
    receiver.handle_timer(1.0 + WAIT)
    played = [int(f.payload) for f in receiver.frames() if f.payload is not None]
    assert played == [n for n in range(13) if n not in dropped]
    stats = receiver.stats
    assert stats.given_up == len(dropped) and stats.late == 0
