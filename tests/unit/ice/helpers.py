"""Agents to test, a peer made by hand from STUN messages, and a rider that keeps a diary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warp.contract import Address, Event, Flow
from warp.crypto import HmacSha1
from warp.entropy import SeededEntropy
from warp.ice import (
    Candidate,
    CandidateType,
    IceAgent,
    IceConfig,
    IceCredentials,
    IceRole,
    Rider,
    make_candidate,
)
from warp.stun import (
    BINDING,
    Attribute,
    Message,
    MessageClass,
    build_message,
    encode_error_code,
    encode_xor_address,
    parse_message,
)

LOCAL: Address = ("192.0.2.1", 50000)
REMOTE: Address = ("203.0.113.1", 443)
FLOW = Flow(LOCAL, REMOTE)
OURS = IceCredentials("ourU", "our-password-of-24-chars")
THEIRS = IceCredentials("peer", "peer/password+24+chars00")
PRIORITY = 1845501695  # peer-reflexive with local preference 65535
START = 1000.0


def host(address: Address, local_preference: int = 65535) -> Candidate:
    return make_candidate(CandidateType.HOST, address, local_preference=local_preference)


class Diary:
    """A rider that writes down what it is told and sends what it was given."""

    def __init__(self, load: Sequence[tuple[int, bytes]] = (), wanted: int = 1) -> None:
        self.load = list(load)
        self.wanted = wanted
        self.received: list[tuple[MessageClass, Flow]] = []
        self.rooms: list[tuple[MessageClass, int]] = []
        self.paths: list[Flow] = []
        self.log: list[str] = []

    def receive_attributes(self, message: Message, flow: Flow, now: float) -> None:
        self.received.append((message.message_class, flow))
        self.log.append("receive")

    def attributes_to_send(
        self, message_class: MessageClass, transaction_id: bytes, flow: Flow, room: int, now: float
    ) -> list[tuple[int, bytes]]:
        self.rooms.append((message_class, room))
        self.log.append("send")
        return [(kind, value) for kind, value in self.load if len(value) + 4 <= room]

    def wanted_checks(self) -> int:
        return self.wanted

    def receive_path(self, flow: Flow, now: float) -> None:
        self.paths.append(flow)
        self.log.append("path")


def make_agent(
    *,
    role: IceRole = IceRole.CONTROLLING,
    local: IceCredentials = OURS,
    seed: int = 1,
    rider: Rider | None = None,
    trace: Any = None,
    **config: Any,
) -> IceAgent:
    return IceAgent(
        IceConfig(**config),
        role=role,
        local=local,
        entropy=SeededEntropy(seed),
        rider=rider,
        trace=trace,
    )


def ready_agent(
    *remotes: Address, now: float = START, remote_is_lite: bool = False, **options: Any
) -> IceAgent:
    """An agent that was told all it needs: started, with a remote host candidate for each."""
    agent = make_agent(**options)
    agent.add_local_candidate(host(LOCAL), now)
    agent.set_remote_credentials(THEIRS, now, lite=remote_is_lite)
    for index, address in enumerate(remotes or (REMOTE,)):
        agent.add_remote_candidate(host(address, 65535 - index), now)
    agent.start(now)
    agent.events()
    return agent


class HandPeer:
    """The far end, by hand: knows both passwords, sends exactly what a test says."""

    def __init__(self, agent: IceAgent, flow: Flow = FLOW, *, own: IceCredentials = THEIRS) -> None:
        self.agent = agent
        self.flow = flow
        self.own = own
        self._count = 0

    def request(
        self,
        *,
        role: IceRole | None = IceRole.CONTROLLED,
        tie_breaker: int = 0,
        use_candidate: bool = False,
        extra: Sequence[tuple[int, bytes]] = (),
        username: str | None = None,
        password: str | None = None,
        integrity: bool = True,
        local: IceCredentials | None = None,
        priority: int | None = PRIORITY,
    ) -> bytes:
        """One Binding request to the agent."""
        self._count += 1
        local = local or self.agent.local_credentials
        name = username if username is not None else f"{local.ufrag}:{self.own.ufrag}"
        attributes: list[tuple[int, bytes]] = [(Attribute.USERNAME, name.encode())]
        if role is IceRole.CONTROLLING:
            attributes.append((Attribute.ICE_CONTROLLING, tie_breaker.to_bytes(8, "big")))
        elif role is IceRole.CONTROLLED:
            attributes.append((Attribute.ICE_CONTROLLED, tie_breaker.to_bytes(8, "big")))
        if use_candidate:
            attributes.append((Attribute.USE_CANDIDATE, b""))
        if priority is not None:
            attributes.append((Attribute.PRIORITY, priority.to_bytes(4, "big")))
        attributes += extra
        key = HmacSha1((password or local.pwd).encode()) if integrity else None
        return build_message(
            BINDING,
            MessageClass.REQUEST,
            f"request{self._count:05}".encode(),
            attributes,
            integrity_key=key,
        )

    def ask(self, now: float, *, flow: Flow | None = None, **options: Any) -> list[Message]:
        """Send a request; returns what leaves on its flow, parsed, the answer first."""
        flow = flow or self.flow
        self.agent.receive_datagram(self.request(**options), flow, now)
        return [parse_message(data) for data, way in self.drain(now) if way == flow]

    def drain(self, now: float) -> list[tuple[bytes, Flow]]:
        return self.agent.datagrams_to_send(now)

    def checks(self, now: float) -> list[tuple[Message, Flow]]:
        """Drain the agent and return its Binding requests."""
        parsed = [(parse_message(data), flow) for data, flow in self.drain(now)]
        return [(m, flow) for m, flow in parsed if m.message_class is MessageClass.REQUEST]

    def answer(
        self,
        check: Message,
        now: float,
        *,
        flow: Flow | None = None,
        error: int | None = None,
        password: str | None = None,
        integrity: bool = True,
        extra: Sequence[tuple[int, bytes]] = (),
        mapped: Address = LOCAL,
    ) -> None:
        """Answer one of the agent's checks."""
        if error is None:
            kind = MessageClass.SUCCESS
            value = encode_xor_address(mapped, check.transaction_id)
            attributes = [(int(Attribute.XOR_MAPPED_ADDRESS), value), *extra]
        else:
            kind = MessageClass.ERROR
            attributes = [(int(Attribute.ERROR_CODE), encode_error_code(error)), *extra]
        key = HmacSha1((password or self.own.pwd).encode()) if integrity else None
        data = build_message(BINDING, kind, check.transaction_id, attributes, integrity_key=key)
        self.agent.receive_datagram(data, flow or self.flow, now)

    def answer_all(self, now: float, later: float | None = None) -> int:
        """Answer every check that is due at `now` on its own flow; returns how many."""
        found = self.checks(now)
        for message, flow in found:
            self.answer(message, now if later is None else later, flow=flow)
        return len(found)


def connected_agent(*, rtt_s: float = 0.1, **options: Any) -> tuple[IceAgent, HandPeer, float]:
    """A controlling agent whose pair is selected; returns it, its peer and the moment."""
    agent = ready_agent(**options)
    peer = HandPeer(agent)
    now = START
    for _ in range(4):
        peer.answer_all(now, now + rtt_s)
        now += rtt_s
        if agent.selected_flow is not None:
            break
    assert agent.selected_flow == FLOW
    agent.events()
    return agent, peer, now


def names(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def has(message: Message, kind: int) -> bool:
    return message.get(kind) is not None


def error_code(message: Message) -> int:
    value = message.get(Attribute.ERROR_CODE)
    assert value is not None
    return value[2] * 100 + value[3]


def run_timers(agent: IceAgent, until: float, peer: HandPeer | None = None) -> list[float]:
    """Let the agent's timers fire up to `until`; with a peer, collect when checks leave."""
    moments = []
    while (deadline := agent.get_timer()) is not None and deadline <= until:
        agent.handle_timer(deadline)
        left = agent.get_timer()
        assert left is None or left > deadline, "a timer is stuck"
        if peer is not None:
            moments += [deadline for _ in peer.checks(deadline)]
        else:
            agent.datagrams_to_send(deadline)
    return moments
