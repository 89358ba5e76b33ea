"""What servers that share a port hand to each other, and what the kernel does with it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from instant_connect.guests import Lodging
from instant_connect.handover import Asked, Handed, Owned, Sought, encode_handover
from instant_connect.host import HostConfig
from instant_connect.io.arrival import Arrival
from instant_connect.io.cluster import Cluster, make_inbox
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.router import Journey, Roster
from tests.unit.instant_connect.io.crowd import RING, Crowd, crowd
from tests.unit.instant_connect.io.test_server import talk, until
from tests.unit.io.support import HOST, OPUS, play
from warp.contract import Flow
from warp.io import Session

FLOW = Flow((HOST, 9), ("192.0.2.1", 5))
MEDIA = bytes([0x80, 111]) + bytes(40)


async def speak(session: Session, arrival: Arrival) -> None:
    for here, there in ((session, arrival.session), (arrival.session, session)):
        here.audio_out.send(OPUS)
        assert (await asyncio.wait_for(anext(there.audio_in), 5)).payload == OPUS


async def until_one_arrives_elsewhere(made: Crowd) -> list[tuple[Session, Arrival, int]]:
    """Calls, of which the kernel has led at least one to a process that has not its offer."""
    calls = []
    while not sum(cluster.counts["taken_over"] for cluster in made.clusters):
        calls.append(await made.call())
        assert len(calls) < 40
    return calls


@pytest.mark.slow
def test_calls_are_where_the_kernel_leads_them_and_nothing_is_handed_on_any_more() -> None:
    async def story() -> None:
        async with crowd(3) as made:
            calls = [await made.call() for _ in range(16)]
            assert len({number for _, _, number in calls}) > 1
            handed = [cluster.counts["handed_on"] for cluster in made.clusters]
            assert any(handed)
            for session, arrival, _ in calls:
                await talk(session, arrival)
            assert [cluster.counts["handed_on"] for cluster in made.clusters] == handed
            assert [len(cluster.steering) for cluster in made.clusters] == [0, 0, 0]
            assert sum(len(server.host.entrance.guests) for server in made.servers) > 0

    play(story)


@pytest.mark.slow
def test_a_call_that_stays_with_its_offer_has_the_kernel_lead_it_there() -> None:
    """What was agreed on is with the ticket's owner before the first datagram comes elsewhere."""

    async def story() -> None:
        async with crowd(2) as made:
            made.post_delay_s = 0.0
            calls = await until_one_arrives_elsewhere(made)
            for session, arrival, _ in calls:
                await talk(session, arrival)
            steered = sum(len(cluster.steering) for cluster in made.clusters)
            assert steered > 0
            before = [cluster.counts["taken_over"] for cluster in made.clusters]
            for session, arrival, _ in calls:
                await speak(session, arrival)
            assert [cluster.counts["taken_over"] for cluster in made.clusters] == before
            for client in made.clients:
                await client.close()
            for cluster in made.clusters:
                cluster.steering._sweep()
                assert len(cluster.steering) == 0

    play(story)


@pytest.mark.slow
def test_beyond_the_limit_calls_are_handed_on_and_straight() -> None:
    async def story() -> None:
        async with crowd(2, max_steered=0) as made:
            made.post_delay_s = 0.0
            calls = await until_one_arrives_elsewhere(made)
            before = [cluster.stats() for cluster in made.clusters]
            for session, arrival, _ in calls:
                await talk(session, arrival)
                await speak(session, arrival)
            stats = [cluster.stats() for cluster in made.clusters]
            assert sum(each["steered"] for each in stats) == 0
            assert sum(each["unsteered"] for each in stats) > 0
            for name in ("handed_on", "taken_over"):
                assert sum(each[name] for each in stats) > sum(each[name] for each in before)

    play(story)


@pytest.mark.slow
def test_when_the_kernel_deals_anew_calls_go_on() -> None:
    """A process more on the port: some of the others' calls come to it, and are led back."""

    async def story() -> None:
        async with crowd(2) as made:
            calls = [await made.call() for _ in range(16)]
            for session, arrival, _ in calls:
                await talk(session, arrival)
            config = InstantConfig(host=HostConfig(server=2))
            port = made.servers[0].port
            late = await listen_instant(HOST, port, keyring=RING, config=config, reuse_port=True)
            reader, writer = make_inbox()
            writers = [made.clusters[1]._peers[0].dup(), made.clusters[0]._peers[1].dup()]
            cluster = Cluster(late, reader, dict(enumerate(writers)))
            made.servers.append(late)
            for other in made.clusters:
                other._peers[2] = writer.dup()
            writer.close()
            made.clusters.append(cluster)
            made.tell()
            for session, arrival, _ in calls:
                await speak(session, arrival)
            moved = cluster.counts["sought"] + cluster.counts["handed_on"]
            assert moved > 0
            assert sum(len(each.steering) for each in made.clusters) > 0
            assert late.server.sessions == []

    play(story)


def test_what_joins_is_told_of_what_it_will_be_asked_about() -> None:
    async def story() -> None:
        async with crowd(2) as made:
            for cluster in made.clusters:
                cluster.set_roster(Roster.of(0))
            for _ in range(3):  # tickets of both name the one that is there
                session, arrival, number = await made.call()
                assert number == 0 or made.servers[0].stats()["sessions"]
            joining = made.servers[1].host.entrance
            made.clusters[0].set_roster(Roster.of(0), frozenset({1}))
            made.clusters[1].set_roster(Roster.of(0, 1))
            told = made.servers[0].host.lodgings(Roster.of(0, 1)).get(1, [])
            for lodging in told:
                assert joining.guests.find(lodging.key) == 0
            assert session and arrival

    play(story)


def test_what_does_not_read_is_counted_and_what_cannot_be_sent_too() -> None:
    async def story() -> None:
        async with crowd(2) as made:
            one, two = made.clusters
            for raw in (b"", b"nonsense", b"\x01"):
                one._peers[1].send(raw)
            one._peers[1].send(encode_handover(Asked(0)))  # and no stream with it
            await until(lambda: two.counts["unreadable"] == 3)
            one.hand_on(7, b"data", FLOW, Journey(1, 0))
            assert one.counts["dropped"] == 1
            # a full inbox loses what more is sent, and nothing waits for it
            for _ in range(5_000):
                one.hand_on(1, bytes(1_000), FLOW, Journey(1, 0))
            assert 0 < one.counts["dropped"] < 5_000
            two.receive()

    play(story)


def test_seeking_is_bounded() -> None:
    async def story() -> None:
        async with crowd(2) as made:
            one, two = made.clusters
            clock = asyncio.get_running_loop().time
            began = clock()
            for _ in range(1_000):
                one.seek(MEDIA, FLOW)
            most = 200 + 500 * (clock() - began) + 1
            assert 200 <= one.counts["sought"] <= most
            assert one.counts["dropped"] >= 1_000 - one.counts["sought"]
            two.receive()
            assert two.counts["taken_over"] == 0  # nobody has that address

    play(story)


def test_an_address_is_handed_on_to_who_says_that_it_has_it() -> None:
    async def story() -> None:
        async with crowd(2) as made:
            one, two = made.clusters
            entrance = made.servers[0].host.entrance
            two._peers[0].send(encode_handover(Owned(1, FLOW)))
            one.receive()
            decision = entrance.receive_unknown(MEDIA, FLOW, asyncio.get_running_loop().time())
            assert decision.server == 1  # type: ignore[union-attr]
            two._peers[0].send(encode_handover(Sought(1, MEDIA, FLOW)))
            two._peers[0].send(encode_handover(Handed(MEDIA, FLOW, Journey(1, 1))))
            one.receive()
            assert one.counts["unreadable"] == 0

    play(story)


def test_a_process_that_is_not_there_cannot_be_asked() -> None:
    async def story() -> None:
        async with crowd(2) as made:
            one, two = made.clusters
            asked: list[socket.socket] = []
            two.set_answer(asked.append)
            stream = one.ask(1)
            two.receive()
            asked[0].send(b"here")
            assert stream.recv(10) == b"here"
            stream.close()
            asked[0].close()
            with pytest.raises(ConnectionError, match="worker 5 is not there"):
                one.ask(5)
            one.set_roster(Roster.of(0))
            with pytest.raises(ConnectionError, match="worker 1 is not there"):
                one.ask(1)
            one._peers[1].close()
            one.set_roster(Roster.of(0, 1))
            with pytest.raises(ConnectionError, match="cannot be asked"):
                one.ask(1)

    play(story)


def test_lodgings_do_not_print_tickets() -> None:
    assert "12345678" not in repr(Lodging(b"12345678", b"12345678", 1))
