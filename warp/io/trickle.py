"""What becomes known about addresses beside a session's first checks (RFC 8838).

    STUN servers ─▶ reflexive candidate ─┬▶ the peer connection, and a line for the application
    TURN servers ─▶ relay ─▶ a port ─────┘
    `.local` names of the peer ─▶ addresses ─▶ the peer connection

Nothing waits for it. It exists only where there is something to find out: made by
`warp.io.client`, and by a session that is told a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING

from warp.entropy import Entropy
from warp.ice import Candidate
from warp.io.gathering import GatherConfig, gather_reflexive, gather_relays
from warp.io.inbox import Inbox
from warp.io.names import MdnsResolver
from warp.io.port import Outlet, Port, RawAddress, Receive
from warp.io.relay import RelayTransport
from warp.trace import Trace

if TYPE_CHECKING:
    from warp.io.session import Session

MAX_NAMES = 16


class Trickle:
    """Gathers for one session, resolves names for it, and owns its relays.

    `lines` are candidates for the peer, as text; it ends when gathering does.
    """

    __slots__ = (
        "_closing",
        "_names",
        "_relays",
        "_resolver",
        "_session",
        "_tasks",
        "_trace",
        "lines",
    )

    def __init__(self, session: Session, trace: Trace | None = None) -> None:
        self._session = session
        self._trace = trace
        self._tasks: set[asyncio.Task[None]] = set()
        self._relays: dict[RelayTransport, Port] = {}
        self._resolver: MdnsResolver | None = None
        self._names = 0
        self._closing: asyncio.Task[None] | None = None
        self.lines: Inbox[str] = Inbox()

    def gather(self, ports: Sequence[Port], config: GatherConfig, entropy: Entropy) -> None:
        """Begin to ask the servers; what they tell is used as it comes."""
        if config.stun_servers or config.turn_servers:
            self._start(self._gather(ports, config, entropy))
        else:
            self.lines.close()

    def resolve(self, candidate: Candidate) -> None:
        """Find out the address of a remote candidate that hides behind a `.local` name."""
        self._names += 1
        if self._names <= MAX_NAMES and self._closing is None:
            self._start(self._resolve(candidate))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._session.driver.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gather(self, ports: Sequence[Port], config: GatherConfig, entropy: Entropy) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for port in ports:
                    group.create_task(self._ask(port, config, entropy))
                group.create_task(self._open_relays(config))
        finally:
            self.lines.close()
        await asyncio.gather(*(self._watch(relay) for relay in list(self._relays)))

    async def _ask(self, port: Port, config: GatherConfig, entropy: Entropy) -> None:
        async for candidate in gather_reflexive(port, config, entropy=entropy, trace=self._trace):
            self._add(candidate)

    async def _open_relays(self, config: GatherConfig) -> None:
        async for relay in gather_relays(config, trace=self._trace):
            self._relays[relay] = self._add_port(relay)
            self._add(relay.candidate)

    def _add_port(self, relay: RelayTransport) -> Port:
        driver = self._session.driver

        def attach(receive: Receive) -> Outlet:
            def receive_relayed(data: bytes, remote: RawAddress) -> None:
                receive(data, remote)
                driver.flush_touched()

            relay.receive = receive_relayed
            return relay

        port = driver.add_outlet(attach)
        port.set_default(self._session)
        return port

    def _add(self, candidate: Candidate) -> None:
        driver = self._session.driver
        self._session.peer.add_local_candidate(candidate, driver.loop.time())
        self.lines.put(str(candidate))
        driver.flush_soon(self._session)

    async def _watch(self, relay: RelayTransport) -> None:
        await relay.lost
        # ICE finds out by itself: checks and consent on these pairs get no answers any more
        self._session.driver.remove_port(self._relays.pop(relay))

    async def _resolve(self, candidate: Candidate) -> None:
        if self._resolver is None:
            self._resolver = MdnsResolver()
        found = await self._resolver.resolve(candidate)
        if found is not None:
            driver = self._session.driver
            self._session.peer.add_remote_candidate(str(found), driver.loop.time())
            driver.flush_soon(self._session)

    def close(self) -> None:
        """Stop; what is open is given back at leisure."""
        if self._closing is None:
            self.lines.close()
            for task in self._tasks:
                task.cancel()
            self._closing = self._session.driver.loop.create_task(self._close())

    async def _close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for port in self._relays.values():
            self._session.driver.remove_port(port)
        await asyncio.gather(*(relay.wait_closed() for relay in self._relays))
        if self._resolver is not None:
            await self._resolver.close()

    async def wait_closed(self) -> None:
        """Wait until every task has ended, at most about a second."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
