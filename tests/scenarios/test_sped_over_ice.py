"""A check with SPED attributes meets a real agent: authentication first, then riders, one response.

The DTLS of these stories is a toy that answers a datagram by the next flight; what is tested is
that ICE and the piggyback fit together.
"""

from __future__ import annotations

import hmac

import pytest

from warp.contract import Datagram, Flow
from warp.entropy import SeededEntropy
from warp.ice import (
    CandidateType,
    IceAgent,
    IceConfig,
    IceCredentials,
    IceRole,
    make_candidate,
)
from warp.sped import Piggyback, PiggybackState, SpedConfig, datagram_hash
from warp.stun import (
    BINDING,
    Attribute,
    Message,
    MessageClass,
    build_message,
    decode_error_code,
    parse_message,
)

CLIENT, SERVER = ("192.0.2.1", 50000), ("203.0.113.1", 443)
AT_SERVER, AT_CLIENT = Flow(SERVER, CLIENT), Flow(CLIENT, SERVER)
CLIENT_KEYS = IceCredentials("cccc", "client-password-22-chars")
SERVER_KEYS = IceCredentials("ssss", "server-password-22-chars")
F1 = bytes([22]) + b"client hello" * 18
F2 = bytes([22]) + b"server flight" * 48
F3 = bytes([0x2E]) + b"finished" * 50
DATA = Attribute.META_DTLS_IN_STUN
ACK = Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT


class Key:
    def __init__(self, password: str) -> None:
        self._key = password.encode()

    def digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, b"".join(parts), "sha1")


class ToyRider:
    """The piggyback and a handshake of fixed flights, as the peer connection composes them."""

    def __init__(self, answers: dict[bytes, bytes]) -> None:
        self.sped = Piggyback(SpedConfig())
        self.answers = answers
        self.got: list[bytes] = []

    def receive_attributes(self, message: Message, flow: Flow, now: float) -> None:
        for datagram in self.sped.receive_message(message, now):
            self.got.append(datagram)
            if datagram in self.answers:
                self.sped.capture_flight([self.answers[datagram]], new_flight=True)

    def attributes_to_send(
        self, message_class: MessageClass, transaction_id: bytes, flow: Flow, room: int, now: float
    ) -> list[tuple[int, bytes]]:
        return self.sped.attributes_to_send(message_class, transaction_id, room)

    def wanted_checks(self) -> int:
        return max(1, len(self.sped.pending))

    def receive_path(self, flow: Flow, now: float) -> None:
        return None


def server() -> tuple[IceAgent, ToyRider]:
    rider = ToyRider({F1: F2})
    agent = IceAgent(
        IceConfig(lite=True),
        role=IceRole.CONTROLLED,
        local=SERVER_KEYS,
        entropy=SeededEntropy(1),
        rider=rider,
    )
    agent.add_local_candidate(make_candidate(CandidateType.HOST, SERVER), 0.0)
    agent.set_remote_credentials(CLIENT_KEYS, 0.0)
    agent.start(0.0)
    return agent, rider


def check(
    attributes: list[tuple[int, bytes]],
    *,
    username: bytes = b"ssss:cccc",
    password: str = SERVER_KEYS.pwd,
    behind: bytes = b"",
    role: tuple[int, bytes] = (int(Attribute.ICE_CONTROLLING), bytes(8)),
) -> bytes:
    own = [
        (int(Attribute.USERNAME), username),
        role,
        (int(Attribute.PRIORITY), (0x7E7F1EFF).to_bytes(4, "big")),
    ]
    raw = build_message(
        BINDING,
        MessageClass.REQUEST,
        bytes(11) + b"\1",
        own + attributes,
        integrity_key=Key(password),
        fingerprint=not behind,
    )
    raw += behind
    return raw[:2] + (len(raw) - 20).to_bytes(2, "big") + raw[4:]


def only_response(datagrams: list[Datagram]) -> Message:
    [(data, flow)] = datagrams
    assert flow == AT_SERVER
    message = parse_message(data)
    assert message.verify_integrity(Key(SERVER_KEYS.pwd))
    return message


def test_one_response_acknowledges_and_carries_the_next_flight() -> None:
    """Before any USE-CANDIDATE, and without a timer: half a round trip after the first check."""
    agent, rider = server()
    agent.receive_datagram(check([(ACK, b""), (DATA, F1)]), AT_SERVER, 1.0)
    response = only_response(agent.datagrams_to_send(1.0))
    assert response.message_class is MessageClass.SUCCESS
    assert response.get(ACK) == datagram_hash(F1).to_bytes(4, "big")
    assert response.get(DATA) == F2
    assert rider.got == [F1]
    assert agent.flow == AT_SERVER


@pytest.mark.parametrize(
    "forged",
    [
        check([(ACK, b""), (DATA, F1)], password="not-the-servers-password"),
        check([(ACK, b""), (DATA, F1)], username=b"xxxx:cccc"),
        check([(ACK, b""), (DATA, F1)], username=b"ssss"),
        check([(ACK, datagram_hash(F2).to_bytes(4, "big"))], password="not-the-servers-password"),
        check([(ACK, b""), (DATA, F1)])[:-8] + b"\x80\x28\0\4abcd",
    ],
    ids=["integrity", "username", "no colon", "acknowledgement", "fingerprint"],
)
def test_what_is_not_authentic_changes_nothing(forged: bytes) -> None:
    agent, rider = server()
    rider.sped.capture_flight([F2], new_flight=True)
    agent.receive_datagram(forged, AT_SERVER, 1.0)
    assert agent.datagrams_to_send(1.0) == []
    assert rider.got == []
    assert rider.sped.state is PiggybackState.TENTATIVE
    assert rider.sped.pending == (F2,)
    assert agent.flow is None
    assert sum(agent.discards.values()) == 1


def test_attributes_behind_the_integrity_change_nothing() -> None:
    agent, rider = server()
    rider.sped.receive_message(parse_message(check([(ACK, b"")])), 0.0)
    behind = bytes.fromhex("c070") + len(F1).to_bytes(2, "big") + F1 + bytes(-len(F1) % 4)
    agent.receive_datagram(check([(ACK, b"")], behind=behind), AT_SERVER, 1.0)
    response = only_response(agent.datagrams_to_send(1.0))
    assert response.get(ACK) == b"" and response.get(DATA) is None
    assert rider.got == []


def test_a_repeated_request_gets_the_flight_again() -> None:
    """The response was lost: the client's next check carries the same hello."""
    agent, _ = server()
    for now in (1.0, 1.05):
        agent.receive_datagram(check([(ACK, b""), (DATA, F1)]), AT_SERVER, now)
        response = only_response(agent.datagrams_to_send(now))
        assert response.get(DATA) == F2


def test_a_check_without_attributes_is_answered_without() -> None:
    agent, rider = server()
    rider.sped.capture_flight([F2], new_flight=True)
    agent.receive_datagram(check([]), AT_SERVER, 1.0)
    response = only_response(agent.datagrams_to_send(1.0))
    assert response.get(ACK) is None and response.get(DATA) is None
    assert rider.sped.take_pending() == [F2]


def full(role: IceRole, local: IceCredentials, remote: IceCredentials, rider: ToyRider) -> IceAgent:
    agent = IceAgent(
        IceConfig(), role=role, local=local, entropy=SeededEntropy(local.ufrag), rider=rider
    )
    agent.set_remote_credentials(remote, 0.0)
    return agent


def test_two_agents_and_three_flights_without_a_direct_datagram() -> None:
    client_rider, server_rider = ToyRider({F2: F3}), ToyRider({F1: F2})
    client_rider.sped.capture_flight([F1], new_flight=True)
    client = full(IceRole.CONTROLLING, CLIENT_KEYS, SERVER_KEYS, client_rider)
    server = full(IceRole.CONTROLLED, SERVER_KEYS, CLIENT_KEYS, server_rider)
    for agent, own, peer in ((client, CLIENT, SERVER), (server, SERVER, CLIENT)):
        agent.add_local_candidate(make_candidate(CandidateType.HOST, own), 0.0)
        agent.add_remote_candidate(make_candidate(CandidateType.HOST, peer), 0.0)
    client.start(0.0)
    server.start(0.0)
    now = 0.0
    for _ in range(40):
        for source, target, flow in ((client, server, AT_SERVER), (server, client, AT_CLIENT)):
            for data, _way in source.datagrams_to_send(now):
                target.receive_datagram(data, flow, now)
        deadlines = [t for t in (client.get_timer(), server.get_timer()) if t is not None]
        if F3 in server_rider.got:
            break
        now = max(now, min(deadlines)) if deadlines else now
        for agent in (client, server):
            agent.handle_timer(now)
    assert server_rider.got[0] == F1
    assert client_rider.got[0] == F2
    assert F3 in server_rider.got
    assert now <= 0.2


def test_role_conflict_loses_neither_list() -> None:
    """487 changes the role; the hello stays pending and what is owed stays owed."""
    rider = ToyRider({})
    rider.sped.capture_flight([F1], new_flight=True)
    rider.sped.receive_direct(F2)
    agent = full(IceRole.CONTROLLED, SERVER_KEYS, CLIENT_KEYS, rider)
    agent.add_local_candidate(make_candidate(CandidateType.HOST, SERVER), 0.0)
    agent.start(0.0)
    # both claim the controlled role and our tie-breaker is the larger one: we say 487 or switch
    conflict = check([(ACK, b"")], role=(int(Attribute.ICE_CONTROLLED), bytes(8)))
    agent.receive_datagram(conflict, AT_SERVER, 1.0)
    answers = [parse_message(data) for data, _ in agent.datagrams_to_send(1.0)]
    refusals = [m for m in answers if m.message_class is MessageClass.ERROR]
    for refusal in refusals:
        assert decode_error_code(refusal.get(Attribute.ERROR_CODE) or b"")[0] == 487
        assert refusal.get(ACK) is None and refusal.get(DATA) is None
    assert rider.sped.pending == (F1,)
    sent = dict(rider.sped.attributes_to_send(MessageClass.REQUEST, bytes(12), 1000))
    assert sent == {int(ACK): datagram_hash(F2).to_bytes(4, "big"), int(DATA): F1}
