from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.sim.network import delay, drop, swap
from tests.sim.pair import CLIENT, SERVER, Pair, Simulation, kind_of
from warp.contract import Datagram, Event, Flow


@dataclass(frozen=True, slots=True)
class Heard(Event):
    data: bytes


class Talker:
    """Sends `count` numbered datagrams 10 ms apart; answers each with the same in capitals."""

    def __init__(self, count: int = 0, answer: bool = False) -> None:
        self.left = count
        self.answer = answer
        self.next: float | None = None
        self.out: list[bytes] = []
        self.heard: list[bytes] = []
        self.happened: list[Event] = []

    def start(self, now: float) -> None:
        self.next = now

    def receive_datagram(self, data: bytes, now: float) -> None:
        self.heard.append(data)
        self.happened.append(Heard(data))
        if self.answer:
            self.out.append(data.upper())

    def datagrams_to_send(self, now: float) -> list[bytes]:
        out, self.out = self.out, []
        return out

    def get_timer(self) -> float | None:
        return self.next

    def handle_timer(self, now: float) -> None:
        if self.next is not None and self.next <= now:
            self.out.append(b"m%d" % self.left)
            self.left -= 1
            self.next = now + 0.01 if self.left else None

    def events(self) -> list[Event]:
        out, self.happened = self.happened, []
        return out


class FlowTalker:
    """Echoes every datagram on the flow it came by."""

    def __init__(self) -> None:
        self.inner = Talker(answer=True)
        self.flow: Flow | None = None
        self.flows: list[Flow] = []

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        self.flow = flow
        self.flows.append(flow)
        self.inner.receive_datagram(data, now)

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        return [(data, self.flow) for data in self.inner.datagrams_to_send(now) if self.flow]

    def get_timer(self) -> float | None:
        return None

    def handle_timer(self, now: float) -> None:
        return None

    def events(self) -> list[Event]:
        return self.inner.events()


def talk(count: int, **kwargs: object) -> tuple[Talker, Talker, Pair]:
    client, server = Talker(count), Talker(answer=True)
    pair = Pair(client, server, **kwargs)
    client.start(pair.now)
    return client, server, pair


def test_an_exchange_takes_one_round_trip() -> None:
    client, server, pair = talk(1)
    began = pair.now
    assert pair.run(until=lambda: client.heard == [b"M1"])
    assert pair.now - began == pytest.approx(pair.rtt_s) == pytest.approx(0.1)
    assert [(s.sender, s.size, s.kind) for s in pair.ladder] == [
        ("client", 2, "other"),
        ("server", 2, "other"),
    ]
    assert pair.server.named(Heard) == [(pytest.approx(began + 0.05), Heard(b"m1"))]
    assert server.heard == [b"m1"]


def test_run_ends_when_all_is_idle_or_time_is_over() -> None:
    _, server, pair = talk(3)
    assert pair.run() is True
    assert len(server.heard) == 3
    assert pair.run(until=lambda: False, timeout_s=5) is False

    _, server, pair = talk(100)
    began = pair.now
    assert pair.run(timeout_s=0.1) is False
    assert pair.now == pytest.approx(began + 0.1)


def test_rules_change_what_arrives() -> None:
    _, server, pair = talk(4)
    pair.up.rules += [drop(1), delay(2, 1.0)]
    pair.run()
    assert server.heard == [b"m4", b"m1", b"m2"]


def test_a_swap_exchanges_two() -> None:
    _, server, pair = talk(3)
    pair.up.rules.append(swap(0))
    pair.run()
    assert server.heard == [b"m2", b"m3", b"m1"]


def test_a_stuck_timer_is_found_out() -> None:
    class Stuck(Talker):
        def handle_timer(self, now: float) -> None:
            """Forgets to move its deadline."""

    client = Stuck(1)
    pair = Pair(client, Talker())
    client.start(pair.now)
    with pytest.raises(AssertionError, match="client: timer"):
        pair.run()


def test_plans_happen_in_the_middle() -> None:
    client, server, pair = talk(10)
    pair.at(pair.now + 0.035, lambda now: setattr(pair.up, "down", True))
    pair.run()
    assert len(server.heard) == 4
    assert len(client.heard) == 4


def test_flows_and_a_rebinding_nat() -> None:
    client, server = Talker(2), FlowTalker()
    pair = Pair(client, server)
    client.start(pair.now)
    outside = ("198.51.100.7", 1234)
    pair.at(pair.now + 0.005, lambda now: pair.network.rebind(CLIENT, outside))
    pair.run()
    assert server.flows == [Flow(SERVER, CLIENT), Flow(SERVER, outside)]
    # the first answer went to the address that the NAT had already forgotten
    assert client.heard == [b"M1"]


def test_strangers_can_be_injected() -> None:
    simulation = Simulation()
    server = FlowTalker()
    simulation.add("server", server, SERVER)
    simulation.inject(b"boo", ("198.51.100.1", 9), SERVER)
    simulation.run()
    assert server.inner.heard == [b"boo"]
    assert [(s.sender, s.fate.value) for s in simulation.ladder] == [
        ("stranger", "delivered"),
        ("server", "no route"),
    ]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"\x00\x01", "stun"),
        (b"\x16\xfe", "dtls"),
        (b"\x2f\x00", "dtls"),
        (b"\x80\x6f", "rtp"),
        (b"\x80\xc8", "rtcp"),
        (b"\xff", "other"),
    ],
)
def test_kinds(data: bytes, kind: str) -> None:
    assert kind_of(data) == kind
