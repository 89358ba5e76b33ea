"""Candidates that servers tell: server-reflexive ones and relays, as they are found.

RFC 8445 section 5.1.1, trickled (RFC 8838): nobody waits for them. A client runs this beside its
first check; a server with a public address never needs it. Called by `warp.io.trickle`.

    gather_reflexive(port) ─▶ Candidate            asked THROUGH the session's own socket
    gather_relays ─▶ RelayTransport                its own socket to the TURN server
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from warp.contract import Address
from warp.entropy import Entropy
from warp.errors import InvalidConfig
from warp.ice import Candidate
from warp.io.reflexive import GatherPort, discover, trace_failure
from warp.io.relay import RelayTransport, TurnServer
from warp.stun import TransactionConfig
from warp.trace import Trace

T = TypeVar("T")
STUN_PORT = 3478  # TURN's too
TURNS_PORT = 5349
_PORT_DIGITS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherConfig:
    """Where candidates come from besides the machine's own addresses."""

    stun_servers: tuple[Address, ...] = ()  # host name or number, and port
    turn_servers: tuple[TurnServer, ...] = ()
    timeout_s: float = 5.0  # then what has not answered is given up
    transaction: TransactionConfig = field(default_factory=TransactionConfig)


async def gather_reflexive(
    port: GatherPort, config: GatherConfig, *, entropy: Entropy, trace: Trace | None = None
) -> AsyncGenerator[Candidate, None]:
    """Yield the server-reflexive candidates of a socket as they are found.

    Ends when every server has answered or `timeout_s` is over; failures are traced, not raised.
    """
    base = port.local
    work = [
        discover(port, base, server, config.transaction, entropy, trace)
        for server in config.stun_servers
    ]
    seen = {base}
    async with aclosing(_as_finished(work, config.timeout_s, _no_release)) as results:
        async for found in results:
            # without a NAT the mapped address is the base: redundant (RFC 8445 section 5.1.3)
            if found is not None and found.address not in seen:
                seen.add(found.address)
                yield found


async def gather_relays(
    config: GatherConfig, *, trace: Trace | None = None
) -> AsyncGenerator[RelayTransport, None]:
    """Yield an open relay for each TURN server that gives one; the caller owns what it got.

    What a relay receives is dropped until its `receive` is set.
    """
    work = [_open_relay(server, trace) for server in config.turn_servers]
    async with aclosing(_as_finished(work, config.timeout_s, _release_relay)) as results:
        async for relay in results:
            if relay is not None:
                yield relay


async def _open_relay(server: TurnServer, trace: Trace | None) -> RelayTransport | None:
    try:
        return await RelayTransport.open(server)
    except OSError as error:
        now = asyncio.get_running_loop().time()
        trace_failure(trace, now, (server.host, server.port), str(error))
        return None


async def _no_release(_: object) -> None:
    return None


async def _release_relay(relay: RelayTransport | None) -> None:
    if relay is not None:
        relay.close()
        await relay.wait_closed()


async def _as_finished(
    work: Iterable[Coroutine[Any, Any, T]],
    timeout_s: float,
    release: Callable[[T], Awaitable[None]],
) -> AsyncGenerator[T, None]:
    """Yield results as they come until `timeout_s`; what nobody takes is released."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    pending = {loop.create_task(one) for one in work}
    finished: list[asyncio.Task[T]] = []
    try:
        while pending:
            done, pending = await asyncio.wait(
                pending,
                timeout=max(0.0, deadline - loop.time()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                return
            finished += done
            while finished:
                yield finished.pop().result()
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in (*finished, *pending):
            if task.done() and not task.cancelled() and task.exception() is None:
                await release(task.result())


def parse_stun_server(text: str) -> Address:
    """Return host and port of `[stun:]host[:port]` (RFC 7064); raises `InvalidConfig`."""
    return _split_host_port(text.removeprefix("stun:"), STUN_PORT)


def parse_turn_server(text: str) -> TurnServer:
    """Return the server of `turn[s]:user:password@host[:port][?transport=tcp]` (after RFC 7065).

    Raises `InvalidConfig`, whose text never holds the password.
    """
    secured = text.startswith("turns:")
    rest = text.removeprefix("turns:").removeprefix("turn:")
    rest, _, query = rest.partition("?transport=")
    credentials, at, place = rest.rpartition("@")
    username, colon, password = credentials.partition(":")
    if not (at and colon and username and password):
        raise InvalidConfig("a TURN server is written turn:user:password@host:port")
    host, port = _split_host_port(place, TURNS_PORT if secured else STUN_PORT)
    return TurnServer(
        host=host,
        port=port,
        username=username,
        password=password,
        transport="tls" if secured else query or "udp",
    )


def _split_host_port(text: str, default_port: int) -> Address:
    host, rest = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
    elif text.count(":") == 1:
        host, colon, port = text.partition(":")
        rest = colon + port
    port = rest.removeprefix(":") if rest else str(default_port)
    plain = port.isdecimal() and len(port) <= _PORT_DIGITS and 0 < int(port) < 65536
    if not host or not plain or rest[:1] not in ("", ":"):
        raise InvalidConfig("a server is written host:port or [IPv6 address]:port")
    return host, int(port)
