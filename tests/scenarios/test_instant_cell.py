"""Several servers on one address: each ticket has one owner, wherever its datagrams arrive."""

from __future__ import annotations

import itertools

import pytest

from instant_connect.router import Roster
from instant_connect.sessions import Path
from tests.scenarios.instant import SERVER, Caller, HostEndpoint, Stage
from warp.contract import Datagram, Flow


class Port:
    """One address that several processes read: which of them gets a datagram, its flow decides."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.alive = list(range(len(stage.hosts)))
        self.entry: dict[str, int] = {}
        """Which process the kernel gives the datagrams of a host to."""
        for host in stage.hosts:
            for number, other in enumerate(stage.hosts):
                host.wires[number] = other.take_over
        self.tell()

    def tell(self, draining: tuple[int, ...] = ()) -> None:
        """Let every server know who is alive."""
        for number in self.alive:
            self.stage.hosts[number].host.entrance.roster = Roster.of(
                *self.alive, draining=draining
            )

    def kill(self, number: int) -> None:
        """A process dies, and its sessions with it."""
        self.alive.remove(number)
        self.tell()

    def _living(self) -> list[HostEndpoint]:
        return [self.stage.hosts[number] for number in self.alive]

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        number = self.entry.get(flow.remote[0], 0)
        if number not in self.alive:
            number = self.alive[0]
        self.stage.hosts[number].receive_datagram(data, flow, now)

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        return [item for host in self._living() for item in host.datagrams_to_send(now)]

    def get_timer(self) -> float | None:
        dues = [host.get_timer() for host in self._living()]
        return min((due for due in dues if due is not None), default=None)

    def handle_timer(self, now: float) -> None:
        for host in self._living():
            host.handle_timer(now)

    def events(self) -> list[object]:
        return [event for host in self._living() for event in host.events()]


def cell(servers: int = 3) -> tuple[Stage, Port]:
    stage = Stage(servers=servers)
    port = Port(stage)
    stage.node.endpoint = port
    assert stage.node.address == SERVER
    return stage, port


def up(stage: Stage, *callers: Caller) -> bool:
    return stage.run(lambda: all(caller.up for caller in callers))


@pytest.mark.parametrize("issuer", [0, 1, 2])
@pytest.mark.parametrize("entry", [0, 1, 2])
def test_a_session_is_its_tickets_servers_wherever_its_datagrams_arrive(
    issuer: int, entry: int
) -> None:
    stage, port = cell()
    port.entry["192.0.2.1"] = entry
    caller = stage.call(stage.bundle(host=stage.hosts[issuer]))
    assert up(stage, caller)
    assert [len(host.sessions) for host in stage.hosts] == [int(n == issuer) for n in range(3)]
    assert caller.media_at() == pytest.approx(1.0, abs=0.02)  # no later than with one server


@pytest.mark.parametrize("delay_s", [0.0, 0.04, 0.06, 0.3], ids=str)
@pytest.mark.parametrize("signaller", [0, 1, 2])
def test_datagram_and_offer_at_different_servers_in_any_order(
    signaller: int, delay_s: float
) -> None:
    stage, port = cell()
    port.entry["192.0.2.1"] = 2
    stage.server = stage.hosts[signaller]  # where the offer arrives
    caller = stage.call(stage.bundle(host=stage.hosts[1]), post_delay_s=delay_s)
    assert up(stage, caller)
    stage.run_for(1.0)
    [session] = stage.begun()
    assert session in stage.hosts[1].sessions
    assert session.path is Path.ATTACHED
    assert caller.node is caller.first


def test_a_dead_hint_is_no_dead_end() -> None:
    stage, port = cell()
    bundle = stage.bundle(host=stage.hosts[2])
    port.kill(2)
    owners = set()
    for entry in (0, 1):
        port.entry[f"192.0.2.{entry + 10}"] = entry
        caller = stage.call(bundle, name=f"c{entry}", host=f"192.0.2.{entry + 10}")
        assert up(stage, caller)
        owners |= {n for n in (0, 1) if caller.session in stage.hosts[n].sessions}
    # the same ticket twice: both servers know whose it is, and the second gets another session
    paths = sorted(session.path.value for session in stage.begun())
    assert paths == ["attached", "signalled"]
    assert owners


@pytest.mark.slow
def test_a_server_killed_in_mid_call_ends_its_own_sessions_only() -> None:
    stage, port = cell()
    callers = []
    for number in range(6):
        port.entry[f"192.0.2.{number + 10}"] = (number + 1) % 3
        bundle = stage.bundle(host=stage.hosts[number % 3])
        callers.append(stage.call(bundle, name=f"c{number}", host=f"192.0.2.{number + 10}"))
    assert stage.run(lambda: sum(len(host.billed) for host in stage.hosts) == 6)
    port.kill(1)
    stage.run_for(45.0)
    states = [caller.peer.state.value for caller in callers]
    assert states == ["connected", "failed", "connected"] * 2
    assert [len(stage.hosts[n].live()) for n in (0, 2)] == [2, 2]
    # what is left of the dead one's calls makes no sessions elsewhere that anybody pays for
    assert sum(len(host.billed) for host in stage.hosts) == 6


def test_a_server_killed_between_datagram_and_offer() -> None:
    """The owner is gone: whoever gets the offer next makes another session of it."""
    stage, port = cell()
    caller = stage.call(stage.bundle(host=stage.hosts[1]), post_delay_s=0.2)
    stage.run_for(0.06)
    assert len(stage.hosts[1].sessions) == 1
    port.kill(1)
    assert up(stage, caller)
    stage.run_for(1.0)
    assert len(stage.hosts[0].live()) + len(stage.hosts[2].live()) == 1
    assert caller.peer.state.value == "connected"


def test_a_draining_server_keeps_its_calls_and_takes_no_new_ones() -> None:
    stage, port = cell()
    before = stage.call(stage.bundle(host=stage.hosts[1]), name="before", host="192.0.2.10")
    assert up(stage, before)
    bundle = stage.bundle(host=stage.hosts[1])
    port.tell(draining=(1,))
    after = stage.call(bundle, name="after", host="192.0.2.11")
    assert up(stage, after)
    assert after.session not in stage.hosts[1].sessions
    assert after.session.path is Path.ATTACHED
    # the old call moves to another network meanwhile, where it is met by some other server
    port.entry["198.51.100.9"] = 2
    stage.sim.network.rebind(("192.0.2.10", 50_000), ("198.51.100.9", 61_000))
    stage.run_for(15.0)
    assert before.peer.state.value == "connected"
    assert len(stage.begun()) == 2


def test_every_order_of_datagram_offer_and_servers_makes_one_session() -> None:
    for issuer, entry, signaller in itertools.product(range(2), repeat=3):
        for delay_s in (0.0, 0.1):
            stage, port = cell(2)
            port.entry["192.0.2.1"] = entry
            stage.server = stage.hosts[signaller]
            caller = stage.call(stage.bundle(host=stage.hosts[issuer]), post_delay_s=delay_s)
            assert up(stage, caller)
            assert len(stage.begun()) == 1
