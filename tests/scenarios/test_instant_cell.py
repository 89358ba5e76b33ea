"""Several servers on one address: a session begins where its datagrams arrive, and only there.

Its ticket has one owner, who allows no second one and knows where it is found.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from instant_connect.bundle import Bundle
from instant_connect.decisions import Sought
from instant_connect.router import Roster
from instant_connect.sessions import Path
from instant_connect.ticket import peek_route
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
                if other is not host:
                    host.others[number] = other
        self.tell()

    def tell(self, draining: tuple[int, ...] = ()) -> None:
        """Let every server know who is alive."""
        roster = Roster.of(*self.alive, draining=draining)
        for number in self.alive:
            self.stage.hosts[number].set_roster(roster, self.stage.now)

    def kill(self, number: int) -> None:
        """A process dies, and its sessions with it."""
        self.alive.remove(number)
        self.tell()

    def revive(self, number: int) -> None:
        """Another process takes the place of one that has died."""
        self.stage.hosts.append(self.stage.hosts[number])
        fresh = self.stage.hosts[number] = self.stage.host(number)
        for at in self.alive:
            fresh.others[at] = self.stage.hosts[at]
            self.stage.hosts[at].others[number] = fresh
        self.alive = sorted([*self.alive, number])
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


def naming(stage: Stage, number: int) -> Bundle:
    """A bundle whose ticket names one server."""
    bundle = stage.bundle()
    tickets = [t for t in bundle.tickets if peek_route(t.raw, stage.ring).hint == number]
    return replace(bundle, tickets=tuple(tickets))


def up(stage: Stage, *callers: Caller) -> bool:
    return stage.run(lambda: all(caller.up for caller in callers))


@pytest.mark.parametrize("issuer", [0, 1, 2])
@pytest.mark.parametrize("entry", [0, 1, 2])
def test_a_session_begins_where_its_datagrams_arrive_whoever_its_ticket_names(
    issuer: int, entry: int
) -> None:
    stage, port = cell()
    port.entry["192.0.2.1"] = entry
    caller = stage.call(naming(stage, issuer), post_delay_s=0.1)
    assert up(stage, caller)
    assert [len(host.sessions) for host in stage.hosts] == [int(n == entry) for n in range(3)]
    assert caller.media_at() == pytest.approx(1.0, abs=0.02)  # no later than with one server


@pytest.mark.parametrize("delay_s", [0.0, 0.04, 0.06, 0.3], ids=str)
@pytest.mark.parametrize("signaller", [0, 1, 2])
def test_datagram_and_offer_at_different_servers_in_any_order(
    signaller: int, delay_s: float
) -> None:
    stage, port = cell()
    port.entry["192.0.2.1"] = 2
    stage.server = stage.hosts[signaller]  # where the offer arrives
    caller = stage.call(naming(stage, 1), post_delay_s=delay_s)
    assert up(stage, caller)
    stage.run_for(1.0)
    [session] = stage.begun()
    # an offer that comes before is with the ticket's owner, and the session comes to it
    assert session in stage.hosts[1 if delay_s < 0.05 else 2].sessions
    assert session.path is Path.ATTACHED
    assert caller.node is caller.first


def test_a_dead_hint_is_no_dead_end() -> None:
    stage, port = cell()
    bundle = naming(stage, 2)
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
        host = f"192.0.2.{number + 10}"
        port.entry[host] = (number + 1) % 3
        bundle = naming(stage, number % 3)
        callers.append(stage.call(bundle, name=f"c{number}", host=host, post_delay_s=0.1))
    assert stage.run(lambda: sum(len(host.billed) for host in stage.hosts) == 6)
    port.kill(1)
    stage.run_for(55.0)
    states = [caller.peer.state.value for caller in callers]
    assert states == ["failed", "connected", "connected"] * 2
    assert [len(stage.hosts[n].live()) for n in (0, 2)] == [2, 2]
    # what is left of the dead one's calls makes no sessions elsewhere that anybody pays for
    assert sum(len(host.billed) for host in stage.hosts) == 6


@pytest.mark.slow
@pytest.mark.parametrize("host", [1, 2])
def test_a_server_killed_between_datagram_and_offer(host: int) -> None:
    """Its client had its answer already: it notices, and nobody pays, whoever the ticket names."""
    stage, port = cell()
    caller = stage.call(naming(stage, 1), post_delay_s=0.2)
    port.entry["192.0.2.1"] = host
    stage.run_for(0.06)
    assert len(stage.hosts[host].sessions) == 1
    port.kill(host)
    stage.run_for(1.0)
    assert sum(len(stage.hosts[n].live()) for n in port.alive) <= 1
    stage.run_for(60.0)
    assert caller.peer.state.value == "failed"
    assert [stage.hosts[n].live() for n in port.alive] == [[], []]
    assert [other.billed for other in stage.hosts] == [[], [], []]


def test_what_is_repeated_elsewhere_comes_to_the_one_session() -> None:
    """Somebody has recorded the first datagram, and sends it to every process."""
    stage, port = cell()
    port.entry["192.0.2.1"] = 2
    caller = stage.call(naming(stage, 1), post_delay_s=0.1)
    assert up(stage, caller)
    first = stage.sim.sent("client")[0]
    for number in range(3):
        port.entry[f"198.51.100.{number}"] = number
        stage.sim.inject(first.data, (f"198.51.100.{number}", 5000), SERVER)
    stage.run_for(1.0)
    assert len(stage.begun()) == 1
    assert caller.session in stage.hosts[2].live()


def test_the_network_gives_a_calls_datagrams_to_another_process_in_mid_call() -> None:
    """As it does when processes come and go: what is said meanwhile is heard."""
    stage, port = cell()
    port.entry["192.0.2.1"] = 2
    caller = stage.call(naming(stage, 1), post_delay_s=0.1)
    assert up(stage, caller)
    stage.run_for(2.0)
    before = stage.hosts[2].heard
    port.entry["192.0.2.1"] = 0
    asked = len(stage.hosts[0].decisions)
    stage.run_for(0.5)
    assert Sought() in stage.hosts[0].decisions[asked:]
    assert stage.hosts[2].heard > before + 5
    assert len(stage.begun()) == 1


@pytest.mark.slow
def test_a_session_is_found_after_its_tickets_server_has_come_back() -> None:
    """It began while that was away; the new one knows nothing of it but what it is told."""
    stage, port = cell()
    bundle = naming(stage, 1)
    port.kill(1)
    port.entry["192.0.2.1"] = 0
    caller = stage.call(bundle, post_delay_s=0.1)
    assert up(stage, caller)
    [host] = [h for h in stage.hosts if caller.session in h.live()]
    port.revive(1)
    for number in (1, 2):  # its client moves, and is met by the new one and by a bystander
        address = f"198.51.100.{number}"
        port.entry[address] = number
        stage.sim.network.rebind(("192.0.2.1", 50_000), (address, 61_000))
        stage.run_for(15.0)
        assert caller.peer.state.value == "connected"
    assert host.live() == [caller.session]
    assert len(stage.begun()) == 1


@pytest.mark.slow
def test_clients_of_a_killed_server_are_not_told_that_all_is_well() -> None:
    """Any server could answer their checks: then they would never notice that they talk to nobody.

    Their tickets name the one that was killed, the one that has been revived, and another.
    """
    stage, port = cell()
    callers = []
    for number in range(3):
        port.entry[f"192.0.2.{number + 10}"] = 1
        caller = stage.call(naming(stage, number), name=f"c{number}", host=f"192.0.2.{number + 10}")
        callers.append(caller)
    assert up(stage, *callers)
    stage.run_for(1.0)
    theirs = [caller for caller in callers if caller.session in stage.hosts[1].live()]
    port.kill(1)
    stage.run_for(0.5)
    port.revive(1)
    for number in range(3):
        port.entry[f"192.0.2.{number + 10}"] = number
    stage.run_for(60.0)
    lost = [caller for caller in callers if caller.peer.state.value == "failed"]
    assert lost == theirs
    assert lost


@pytest.mark.slow
def test_a_process_that_drains_takes_no_session_though_datagrams_arrive_there() -> None:
    stage, port = cell()
    port.entry["192.0.2.1"] = 2
    bundles = [naming(stage, number) for number in range(3)]
    port.tell(draining=(2,))
    for number, bundle in enumerate(bundles):
        host = f"192.0.2.{number + 10}"
        port.entry[host] = 2
        assert up(stage, stage.call(bundle, name=f"c{number}", host=host))
    assert stage.hosts[2].sessions == []
    assert len(stage.begun()) == 3


def test_a_draining_server_keeps_its_calls_and_takes_no_new_ones() -> None:
    stage, port = cell()
    before = stage.call(naming(stage, 1), name="before", host="192.0.2.10")
    assert up(stage, before)
    bundle = naming(stage, 1)
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
            caller = stage.call(naming(stage, issuer), post_delay_s=delay_s)
            assert up(stage, caller)
            assert len(stage.begun()) == 1
