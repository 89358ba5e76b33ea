"""Servers of one process that share a port as processes do: by inboxes, and the kernel's hash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from instant_connect.host import HostConfig
from instant_connect.io.arrival import Arrival
from instant_connect.io.client import InstantClient, Posted
from instant_connect.io.cluster import Cluster, make_inbox
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.server import InstantServer
from instant_connect.keyring import Keyring
from instant_connect.router import Roster
from tests.unit.instant_connect.io.test_server import CLIENT, arrival_of, fill
from tests.unit.io.support import HOST
from warp.entropy import SystemEntropy
from warp.io import Session

RING = Keyring.generate(SystemEntropy(), 1.79e9)


class Crowd:
    """A few servers on one port, and clients that signal to whichever has their call."""

    def __init__(self) -> None:
        self.servers: list[InstantServer] = []
        self.clusters: list[Cluster] = []
        self.clients: list[InstantClient] = []
        self.post_delay_s = 0.1

    def tell(self, **roster: Any) -> None:
        told = Roster.of(*range(len(self.servers)), **roster)
        for cluster in self.clusters:
            cluster.set_roster(told)

    async def post(self, offer: str, headers: Mapping[str, str]) -> Posted:
        await asyncio.sleep(self.post_delay_s)  # an offer that is there first keeps its session
        names = {"ufrag": headers["Instant-Ufrag"], "proof": headers["Instant-Proof"]}
        answer = self.servers[0].answer(offer, dcid=4, **names)
        for hops in range(1, 4):
            if answer.server is None:
                break
            server = self.servers[answer.server]
            answer = server.answer(offer, dcid=4, hops=hops, settled=answer.settled, **names)
        return Posted(answer.status, answer.sdp)

    async def call(self) -> tuple[Session, Arrival, int]:
        """A call; its arrival, and which server has it."""
        client = InstantClient(post=self.post, config=CLIENT)
        self.clients.append(client)
        fill(client, self.servers[0])
        session = await client.connect()
        local = session.peer.stats()["flow"].local
        for number, server in enumerate(self.servers):
            for arrival in server._calls.values():
                if arrival.session.peer.stats()["flow"].remote == local:
                    assert await arrival_of(server) is arrival
                    return session, arrival, number
        raise AssertionError("nobody has the call")


@asynccontextmanager
async def crowd(count: int = 2, **options: Any) -> AsyncIterator[Crowd]:
    made = Crowd()
    inboxes = [make_inbox() for _ in range(count)]
    for number in range(count):
        config = InstantConfig(host=HostConfig(server=number))
        port = made.servers[0].port if made.servers else 0
        server = await listen_instant(HOST, port, keyring=RING, config=config, reuse_port=True)
        made.servers.append(server)
    for number, server in enumerate(made.servers):
        peers = {n: writer.dup() for n, (_, writer) in enumerate(inboxes) if n != number}
        made.clusters.append(Cluster(server, inboxes[number][0], peers, **options))
    for _, writer in inboxes:
        writer.close()
    made.tell()
    try:
        yield made
    finally:
        for client in made.clients:
            await client.close()
        for server in made.servers:
            await server.close()
        for cluster in made.clusters:
            cluster.close()
            cluster.close()
