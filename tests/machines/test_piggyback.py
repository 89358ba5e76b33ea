"""The piggyback over every state and input, and two of them over a link that loses at will."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warp.sped import (
    Evidence,
    Piggyback,
    PiggybackInput,
    PiggybackState,
    SpedConfig,
    datagram_hash,
)
from warp.sped.piggyback import TRANSITIONS
from warp.stun import BINDING, Attribute, MessageClass, build_message, parse_message

DATA = int(Attribute.META_DTLS_IN_STUN)
ACK = int(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)
S = PiggybackState
ACTIVE = {S.TENTATIVE, S.CONFIRMED, S.PENDING}
CLIENT_13 = (True, 0xFEFC)
SERVER_13 = (False, 0xFEFC)
ROLES = [CLIENT_13, SERVER_13, (True, 0xFEFD), (False, 0xFEFD)]

datagrams = st.builds(
    lambda first, tag, size: bytes([first]) + bytes([tag]) * (size - 1),
    st.sampled_from([20, 22, 0x2E, 0x2F, 23, 64]),
    st.integers(0, 12),
    st.integers(1, 1000),
)
acknowledgements = st.one_of(
    st.none(),
    st.lists(datagrams, max_size=5).map(
        lambda many: b"".join(datagram_hash(d).to_bytes(4, "big") for d in many)
    ),
    st.binary(max_size=9),
)


def test_the_table_only_moves_forward() -> None:
    order = [S.TENTATIVE, S.CONFIRMED, S.PENDING, S.COMPLETE, S.OFF]
    for (state, _), target in TRANSITIONS.items():
        assert order.index(target) > order.index(state)
    assert {what for _, what in TRANSITIONS} == set(PiggybackInput)


class AnyInput(RuleBasedStateMachine):
    """Verbs in any order, with anything in them."""

    def __init__(self) -> None:
        super().__init__()
        self.sped = Piggyback(SpedConfig(remembered_checks=8))
        self.number = 0
        self.sent: list[bytes] = []
        self.seen = self.sped.state

    @rule(flight=st.lists(datagrams, max_size=4), new=st.booleans())
    def capture(self, flight: list[bytes], new: bool) -> None:
        self.sped.capture_flight(flight, new_flight=new)

    @rule(kind=st.sampled_from(list(MessageClass)), room=st.integers(-10, 1200))
    def send(self, kind: MessageClass, room: int) -> None:
        self.number += 1
        transaction_id = self.number.to_bytes(12, "big")
        attributes = self.sped.attributes_to_send(kind, transaction_id, room)
        sendable = kind in (MessageClass.REQUEST, MessageClass.SUCCESS)
        if self.sped.state not in ACTIVE or not sendable:
            assert attributes == []
            return
        assert sum(4 + (len(value) + 3) // 4 * 4 for _, value in attributes) <= max(room, 0)
        assert [k for k, _ in attributes] in ([ACK, DATA], [ACK], [])
        assert bool(attributes) == (room >= 4)
        for attribute, value in attributes:
            if attribute == ACK:
                assert len(value) <= 16 and len(value) % 4 == 0
            else:
                assert value in self.sped.pending
        self.sent.append(transaction_id)

    @rule(
        kind=st.sampled_from(list(MessageClass)),
        ack=acknowledgements,
        data=st.one_of(st.none(), datagrams, st.just(b"")),
        ours=st.booleans(),
    )
    def receive(
        self, kind: MessageClass, ack: bytes | None, data: bytes | None, ours: bool
    ) -> None:
        attributes = [(k, v) for k, v in ((ACK, ack), (DATA, data)) if v is not None]
        transaction_id = self.sent[-1] if ours and self.sent else bytes(12)
        raw = build_message(BINDING, kind, transaction_id, attributes, integrity_key=None)
        injected = self.sped.receive_message(parse_message(raw), 0.0)
        assert injected in ([], [data])

    @rule(datagram=datagrams)
    def receive_direct(self, datagram: bytes) -> None:
        self.sped.receive_direct(datagram)

    @rule(role=st.sampled_from(ROLES))
    def complete(self, role: tuple[bool, int]) -> None:
        self.sped.handle_handshake_complete(*role, 0.0)

    @rule(evidence=st.sampled_from(Evidence))
    def evidence(self, evidence: Evidence) -> None:
        before = self.sped.state
        self.sped.handle_peer_data(evidence, 0.0)
        assert self.sped.state is before or before is S.PENDING

    @precondition(lambda self: self.sped.state in (S.COMPLETE, S.OFF))
    @rule()
    def take(self) -> None:
        pending = self.sped.pending
        assert tuple(self.sped.take_pending()) == pending
        assert self.sped.pending == ()

    @precondition(lambda self: self.number > 12)
    @rule()
    def fail(self) -> None:
        self.sped.handle_failed(0.0)
        assert self.sped.state is S.OFF and self.sped.pending == ()

    @invariant()
    def bounded_and_forward(self) -> None:
        sped = self.sped
        order = list(S)
        assert order.index(sped.state) >= order.index(self.seen)
        self.seen = sped.state
        assert len(sped._checks) <= 8 and len(sped._received) <= 4
        assert sped._outstanding_bytes == sum(size for _, size in sped._checks.values())
        assert sped._outstanding_bytes <= 14_600
        assert [datagram_hash(d) for d in sped.pending] == sped._hashes
        assert sped.active or not (sped._received or sped._checks)
        assert sped.state is not S.COMPLETE or not sped.pending


TestAnyInput = pytest.mark.slow(AnyInput.TestCase)


class End:
    """One side with a toy handshake: flights of one to three datagrams, in lockstep."""

    def __init__(self, role: tuple[bool, int], name: int) -> None:
        self.role = role
        self.name = name
        self.sped = Piggyback(SpedConfig())
        self.got: set[bytes] = set()
        self.flight: list[bytes] = []
        self.complete = False

    def start_flight(self, number: int, parts: int) -> None:
        self.flight = [bytes([22, self.name, number, part]) + bytes(200) for part in range(parts)]
        self.sped.capture_flight(self.flight, new_flight=True)


class LossyCall(RuleBasedStateMachine):
    """Client (DTLS 1.3) and server exchange three flights by checks alone; any message may die.

    What a side no longer offers, the other one has: nothing is acknowledged without arriving.
    """

    def __init__(self) -> None:
        super().__init__()
        self.client = End(CLIENT_13, 1)
        self.server = End(SERVER_13, 2)
        self.number = 0
        self.parts = (2, 2, 1)
        self.client.start_flight(1, self.parts[0])

    def advance(self, end: End, injected: list[bytes]) -> None:
        end.got.update(injected)
        if end is self.server:
            first = set(self.client_flight(1))
            if not end.flight and first <= end.got:
                end.start_flight(2, self.parts[1])
            if set(self.client_flight(3)) <= end.got and not end.complete:
                end.complete = True
                end.sped.handle_handshake_complete(*end.role, 0.0)
        elif self.server.flight and set(self.server.flight) <= end.got and not end.complete:
            end.start_flight(3, self.parts[2])
            end.complete = True
            end.sped.handle_handshake_complete(*end.role, 0.0)

    def client_flight(self, number: int) -> list[bytes]:
        parts = self.parts[0 if number == 1 else 2]
        return [bytes([22, 1, number, part]) + bytes(200) for part in range(parts)]

    def check(self, source: End, target: End, lose_request: bool, lose_response: bool) -> None:
        self.number += 1
        transaction_id = self.number.to_bytes(12, "big")
        request = source.sped.attributes_to_send(MessageClass.REQUEST, transaction_id, 1000)
        if lose_request:
            return
        self.deliver(target, MessageClass.REQUEST, transaction_id, request)
        response = target.sped.attributes_to_send(MessageClass.SUCCESS, transaction_id, 1000)
        if not lose_response:
            self.deliver(source, MessageClass.SUCCESS, transaction_id, response)

    def deliver(
        self,
        end: End,
        kind: MessageClass,
        transaction_id: bytes,
        attributes: list[tuple[int, bytes]],
    ) -> None:
        raw = build_message(BINDING, kind, transaction_id, attributes, integrity_key=None)
        self.advance(end, end.sped.receive_message(parse_message(raw), 0.0))

    @rule(by_server=st.booleans(), lose_request=st.booleans(), lose_response=st.booleans())
    def any_check(self, by_server: bool, lose_request: bool, lose_response: bool) -> None:
        ends = (self.server, self.client) if by_server else (self.client, self.server)
        self.check(*ends, lose_request, lose_response)

    @invariant()
    def nothing_is_dropped_unseen(self) -> None:
        for end, other in ((self.client, self.server), (self.server, self.client)):
            for datagram in end.flight:
                assert datagram in end.sped.pending or datagram in other.got

    @invariant()
    def never_off(self) -> None:
        assert self.client.sped.state is not S.OFF
        assert self.server.sped.state is not S.OFF

    def teardown(self) -> None:
        for _ in range(12):
            self.check(self.client, self.server, False, False)
        for end in (self.client, self.server):
            assert end.complete
            assert end.sped.state is S.COMPLETE
            assert end.sped.pending == ()


TestLossyCall = pytest.mark.slow(LossyCall.TestCase)
