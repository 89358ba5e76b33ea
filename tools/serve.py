"""`warp serve`: answers every call on one UDP port with a greeting and an echo."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass

from warp.errors import UsageError
from warp.io import Ending, Server, ServerConfig, Session, listen
from warp_tools.echo import Echo, greeting
from warp_tools.failure import ToolFailure
from warp_tools.signalling import serve_offers

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Where to listen."""

    host: str = "127.0.0.1"
    http_port: int = 8080
    udp_port: int = 0
    """0: any free one; the answer names it."""


class EchoServer:
    """Holds the echoes of all sessions; one tick of the media clock moves them all."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.udp_port = server.port
        self.say: Say = lambda _: None
        self._calls = 0
        self._echoes: dict[Session, Echo] = {}
        self._stop = server.add_media_tick(self.handle_tick)

    def accept(self, offer: str) -> Session:
        """Answer an offer (`session.answer`) and let an echo take the call."""
        session = self._server.accept_offer(offer)
        self._echoes[session] = Echo(session)
        self._calls += 1
        number = self._calls
        self.say(f"call {number} begins")
        session.closed.add_done_callback(lambda ending: self._end(session, number, ending))
        return session

    def _end(self, session: Session, number: int, ending: Ending) -> None:
        self._echoes.pop(session, None)
        self.say(f"call {number} has ended: {ending.result() or 'hung up'}")

    def handle_tick(self, now: float) -> None:
        """Let every echo say what it has heard."""
        for session, echo in list(self._echoes.items()):
            try:
                echo.handle_tick(now)
            except UsageError:
                # the session ended within this tick
                self._echoes.pop(session, None)

    async def close(self) -> None:
        """End every call and free the port."""
        self._stop()
        await self._server.close()


async def open_echo_server(host: str, port: int, config: ServerConfig) -> EchoServer:
    """Open the UDP port. Raises ToolFailure, one line, when it is taken."""
    greeting()
    try:
        return EchoServer(await listen(host, port, config=config))
    except UsageError as error:
        raise ToolFailure(str(error)) from error


async def serve(config: ServeConfig, say: Say) -> None:
    """Serve until interrupted."""
    server = await open_echo_server(config.host, config.udp_port, ServerConfig(early_data=True))
    try:
        web = await serve_offers(
            config.host, config.http_port, lambda offer: server.accept(offer).answer
        )
    except ToolFailure:
        await server.close()
        raise
    port = web.sockets[0].getsockname()[1]
    # whoever reads that the server is there may end it at once
    interruption = _listen_for_interruption()
    say(f"echo at http://{config.host}:{port} (calls on UDP {server.udp_port}; Ctrl-C ends it)")
    server.say = say
    async with web:
        await interruption.wait()
    await server.close()


def _listen_for_interruption() -> asyncio.Event:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    return stop
