"""Two associations, their verbs in any order, over a network that Hypothesis runs."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from warp.entropy import SeededEntropy
from warp.errors import InvalidState
from warp.sctp import (
    Association,
    ResetResult,
    SctpConfig,
    State,
    StreamsResetFailed,
    Terminated,
    local_init,
)
from warp.sctp.outbound import ACKED, IN_FLIGHT

SIDES = st.sampled_from((0, 1))
STREAMS = st.integers(0, 2)


class TwoAssociations(RuleBasedStateMachine):
    """Reliable messages arrive once and in order, whatever the network and the timers do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.wires: list[list[bytes]] = [[], []]
        self.sent: dict[tuple[int, int], list[bytes]] = {}
        self.received: dict[tuple[int, int], list[bytes]] = {}
        self.count = 0
        self.ended = False

    @initialize(
        snap=st.booleans(),
        interleaving=st.booleans(),
        zero=st.booleans(),
        a_rwnd=st.sampled_from((100_000, 5_000_000)),
        tsn_seed=st.integers(0, 9),
    )
    def begin(self, snap: bool, interleaving: bool, zero: bool, a_rwnd: int, tsn_seed: int) -> None:
        config = SctpConfig(interleaving=interleaving, zero_checksum=zero, a_rwnd=a_rwnd)
        inits = [local_init(config, SeededEntropy(tsn_seed + 10 * side)) for side in (0, 1)]
        self.sides = [
            Association(config, local_init=inits[side], entropy=SeededEntropy(side))
            for side in (0, 1)
        ]
        for side in (0, 1):
            if snap:
                self.sides[side].start_snap(inits[1 - side], self.now)
            else:
                self.sides[side].start(self.now)

    @rule(side=SIDES, stream=STREAMS, size=st.sampled_from((1, 9, 900, 1160, 1161, 5000)))
    def send(self, side: int, stream: int, size: int) -> None:
        if self.sides[side].state in (State.NEW, State.ESTABLISHED, State.COOKIE_WAIT):
            self.count += 1
            payload = self.count.to_bytes(4, "big") * size
            self.sides[side].send_message(stream, 53, payload, self.now)
            self.sent.setdefault((side, stream), []).append(payload)

    @rule(side=SIDES, size=st.sampled_from((1, 3000)), ordered=st.booleans())
    def send_unreliable(self, side: int, size: int, ordered: bool) -> None:
        if self.sides[side].state is State.ESTABLISHED:
            self.sides[side].send_message(
                9, 53, bytes(size), self.now, ordered=ordered, max_retransmits=0
            )

    @rule(side=SIDES, stream=STREAMS)
    def reset(self, side: int, stream: int) -> None:
        if self.sides[side].state is not State.CLOSED:
            self.sides[side].reset_streams([stream], self.now)

    @rule(side=SIDES)
    def drain(self, side: int) -> None:
        packets = self.sides[side].datagrams_to_send(self.now)
        assert all(len(packet) <= 1191 for packet in packets)
        self.wires[side] += packets

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, data=st.data())
    def deliver(self, side: int, data: st.DataObject) -> None:
        wire = self.wires[side]
        if wire:
            index = data.draw(st.integers(0, min(len(wire), 4) - 1))
            self.sides[1 - side].receive_datagram(wire.pop(index), self.now)

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES)
    def deliver_twice(self, side: int) -> None:
        if self.wires[side]:
            for _ in range(2):
                self.sides[1 - side].receive_datagram(self.wires[side][0], self.now)
            self.wires[side].pop(0)

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, count=st.integers(1, 3))
    def lose(self, side: int, count: int) -> None:
        del self.wires[side][:count]

    @rule(side=SIDES, noise=st.binary(max_size=64))
    def noise(self, side: int, noise: bytes) -> None:
        self.sides[side].receive_datagram(noise, self.now)

    @rule(side=SIDES)
    def read(self, side: int) -> None:
        for stream, _, payload in self.sides[side].messages():
            if stream != 9:
                self.received.setdefault((1 - side, stream), []).append(payload)

    @rule(seconds=st.sampled_from((0.0, 0.001, 0.06, 0.3, 4.0, 40.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(side=SIDES)
    def timer(self, side: int) -> None:
        self.sides[side].handle_timer(self.now)
        deadline = self.sides[side].get_timer()
        assert deadline is None or deadline > self.now

    @rule(side=SIDES)
    def hint(self, side: int) -> None:
        self.sides[side].set_rtt_hint(0.05)

    @invariant()
    def what_arrived_was_sent_in_this_order(self) -> None:
        for key, payloads in self.received.items():
            assert payloads == self.sent[key][: len(payloads)]

    @invariant()
    def flight_is_what_is_in_flight(self) -> None:
        for side in getattr(self, "sides", ()):
            sending = side._transmission
            if sending is None:
                continue
            flying = [f for f in sending.fragments.values() if f.state == IN_FLIGHT]
            assert sending.flight_size == sum(len(f.chunk) for f in flying)
            assert sending._in_flight == len(flying)
            assert all(f.chunk for f in sending.fragments.values() if f.state <= ACKED)
            assert list(sending.fragments) == list(
                range(sending.cumulative_acked + 1, sending.next_tsn)
            )

    @invariant()
    def charge_is_bounded(self) -> None:
        for side in getattr(self, "sides", ()):
            if side._inbound is not None:
                assert 0 <= side._inbound.charge <= 2 * side.config.a_rwnd + 3 * 1700

    @invariant()
    def nothing_ends_by_itself(self) -> None:
        for side in getattr(self, "sides", ()):
            for event in side.events():
                assert not isinstance(event, Terminated), event.error
                if isinstance(event, StreamsResetFailed):
                    assert event.result is not ResetResult.DENIED

    def teardown(self) -> None:
        """Let the network heal: everything arrives, and both sides fall silent."""
        if not hasattr(self, "sides"):
            return
        for _ in range(400):
            for side in (0, 1):
                self.sides[side].handle_timer(self.now)
                self.drain(side)
                for packet in self.wires[side]:
                    self.sides[1 - side].receive_datagram(packet, self.now)
                self.wires[side] = []
                self.read(1 - side)
            if self.settled():
                break
            self.now += 0.5
        assert self.settled()
        self.flight_is_what_is_in_flight()
        assert self.received == {key: payloads for key, payloads in self.sent.items() if payloads}
        for association in self.sides:
            assert association._transmission.flight_size == 0
            assert association._inbound.charge == 0
            association.close(self.now)
            try:
                association.send_message(1, 53, b"x", self.now)
            except InvalidState:
                continue
            raise AssertionError("sent after close")

    def settled(self) -> bool:
        return all(
            association.established
            and association._transmission is not None
            and association._transmission.is_idle
            and not association._resets().is_busy
            and association._queue.messages == 0
            for association in self.sides
        )


TestTwoAssociations = TwoAssociations.TestCase
TestTwoAssociations.settings = settings(max_examples=40, stateful_step_count=40)
