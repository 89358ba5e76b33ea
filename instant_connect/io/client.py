"""Calls that begin with their first datagram, and fall back on signalling that is under way.

wallet ─ ticket ─▶ first: our own answer, checks leave at once ──────┐
        offer ───▶ post(offer, headers) ─▶ attached: the first it is ├─▶ the session
                                        └▶ new: the second, by its answer

client = InstantClient(post=post)
client.wallet.put(parse_bundle(text), loop.time())
session = await client.connect()
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from instant_connect.answers import Status
from instant_connect.client import InstantCall, Race, RaceInput, RaceState, Wallet, compose_call
from warp.crypto import Certificate
from warp.entropy import Entropy, SystemEntropy
from warp.errors import HandshakeTimedOut
from warp.io import Client, ClientConfig, Session
from warp.io.credentials import default_certificate
from warp.trace import Trace

DAY_S = 86_400.0
_FOREVER_S = DAY_S  # whoever calls sets the limit


class Posted(NamedTuple):
    """What signalling answered: `Instant-Status`, and the SDP of the answer."""

    status: Status
    sdp: str


Post = Callable[[str, Mapping[str, str]], Awaitable[Posted]]
"""Takes an offer and headers to signalling and returns its answer."""


class Placed(NamedTuple):
    """A call that is connected, and whether by its first datagram."""

    session: Session
    is_instant: bool


class _NotTaken(Exception):
    """Signalling's answer is not needed: the first way is the call's."""


class InstantClient:
    """Places calls to one server. Calls with one certificate can be linked by whoever sees them."""

    __slots__ = (
        "_certificate_lifetime_s",
        "_client",
        "_config",
        "_entropy",
        "_post",
        "_tasks",
        "certificate",
        "wallet",
    )

    def __init__(
        self,
        *,
        post: Post,
        config: ClientConfig | None = None,
        certificate: Certificate | None = None,
        wallet: Wallet | None = None,
        certificate_lifetime_s: float = DAY_S,
        entropy: Entropy | None = None,
        trace: Trace | None = None,
    ) -> None:
        """A certificate that we have made is replaced after `certificate_lifetime_s`; 0: every call
        has its own. One that is given without the wallet that it was kept in stays.
        """
        self._post = post
        self._entropy = entropy or SystemEntropy()
        self._tasks: set[asyncio.Task[Session | None]] = set()
        self._certificate_lifetime_s = certificate_lifetime_s
        self.wallet = Wallet() if wallet is None else wallet  # an empty one is false
        """Tickets for later calls."""
        if certificate is None:
            self.wallet.certificate_made_at = time.time()
        self.certificate = certificate or default_certificate(self._entropy)
        """Who we are; to be kept with the wallet (`Wallet.to_text`)."""
        self._config = config or ClientConfig()
        self._client = Client(
            self._config, certificate=self.certificate, entropy=self._entropy, trace=trace
        )

    async def connect(self, timeout_s: float = 30.0) -> Session:
        """Call, and return the session that is connected, whichever way it came.

        Signalling goes on beside it and is not waited for. Raises what signalling raises when
        neither way leads anywhere, and `HandshakeTimedOut` after `timeout_s`; then nothing is
        left behind.
        """
        return (await self.place(self._post, timeout_s)).session

    async def place(self, post: Post, timeout_s: float = 30.0) -> Placed:
        """Call as `connect` does, by the signalling of this one call; tell which way it came."""
        race = Race()
        self._renew_certificate()
        first, call = await self._begin()
        if first is None:
            race.receive(RaceInput.NEW)
        second = self._spawn(self._signalled(race, first, call, post, timeout_s))
        try:
            session = await asyncio.wait_for(self._decide(race, first, second), timeout_s)
        except BaseException as error:
            second.cancel()
            if first is not None:
                await first.close()
            if isinstance(error, TimeoutError):
                raise HandshakeTimedOut(f"not connected after {timeout_s:g} s") from None
            raise
        rtt_s = session.stats().get("rtt_s")
        self.wallet.rtt_s = rtt_s if isinstance(rtt_s, float) else self.wallet.rtt_s
        return Placed(session, session is first)

    def _renew_certificate(self) -> None:
        """Be somebody else to observers once we have been the same for long enough."""
        made_at, now = self.wallet.certificate_made_at, time.time()
        if made_at is None or 0 <= now - made_at < self._certificate_lifetime_s:
            return
        self.certificate = default_certificate(self._entropy)
        self.wallet.certificate_made_at = now

    async def close(self) -> None:
        """End every call, and what signalling is still asked. Harmless when repeated."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def __aenter__(self) -> InstantClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- the two ways -------------------------------------------------------------------------

    async def _begin(self) -> tuple[Session | None, InstantCall | None]:
        """Let the first datagram leave, if there is a ticket: nothing is waited for."""
        kept, certificate = self.wallet.take(asyncio.get_running_loop().time()), self.certificate
        if kept is None:
            return None, None
        made: list[InstantCall] = []

        async def compose(offer: str) -> str:
            made.append(compose_call(*kept, offer, certificate, self._entropy))
            return made[0].answer

        # what was learnt of the way says when a first datagram is overdue
        config = self._config
        if self.wallet.rtt_s is not None:
            config = replace(config, rtt_hint_s=round(self.wallet.rtt_s, 3) or None)
        session = await self._client.connect(compose, config=config, certificate=certificate)
        return session, made[0]

    async def _signalled(
        self,
        race: Race,
        first: Session | None,
        call: InstantCall | None,
        post: Post,
        timeout_s: float,
    ) -> Session | None:
        """Ask signalling; return the connected session of its answer, None if there is no need."""

        certificate = self.certificate  # both ways are one client's

        async def signal(offer: str) -> str:
            try:
                posted = await post(offer, {} if call is None else call.headers())
            except BaseException:
                race.receive(RaceInput.NO_ANSWER)
                raise
            attached = posted.status is Status.ATTACHED
            race.receive(RaceInput.ATTACHED if attached else RaceInput.NEW)
            if race.state is not RaceState.SIGNALLED:
                raise _NotTaken
            if call is not None:
                self.wallet.expire()  # what made one ticket stale has probably made the others so
            return posted.sdp

        try:
            session = await self._client.connect(signal, certificate=certificate)
        except _NotTaken:
            return None
        if first is not None:
            await first.close()
        await session.connected(timeout_s)
        return session

    async def _decide(
        self, race: Race, first: Session | None, second: asyncio.Task[Session | None]
    ) -> Session:
        """Return the session of the way that is taken, once it is connected."""
        ready = None if first is None else asyncio.ensure_future(_connected(first))
        ways: set[asyncio.Future[Session | None]] = {second} if ready is None else {second, ready}
        failure: BaseException | None = None
        try:
            while ways:
                done, ways = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in done:
                    error = way.exception()
                    if way is ready:
                        race.receive(RaceInput.ENDED if error else RaceInput.CONNECTED)
                    session = None if error else way.result()
                    if session is not None and (way is second or race.state is RaceState.INSTANT):
                        return session
                    failure = failure or error
        finally:
            if ready is not None:
                ready.cancel()
        raise failure or HandshakeTimedOut("neither way leads to the server")

    def _spawn(self, work: Coroutine[Any, Any, Session | None]) -> asyncio.Task[Session | None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Session | None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it was heard of by whoever waited, or concerns nobody any more


async def _connected(session: Session) -> Session | None:
    await session.connected(_FOREVER_S)
    return session
