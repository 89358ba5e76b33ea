"""`warp serve`: a page and two ways to call it, answered with a greeting and an echo.

HTTP  instant_connect.io.signalling_app ─▶ EchoServer.attend      UDP  warp.io.Server
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from instant_connect.io import CallInfo, Kind, SignallingConfig, signalling_app
from warp.errors import UsageError
from warp.io import Ending, Server, ServerConfig, Session, listen
from warp_tools.echo import Echo, greeting
from warp_tools.echo_events import answer_events
from warp_tools.failure import ToolFailure
from warp_tools.web import Tls, listen_for_interruption, open_web_port, run_web, web_url

Say = Callable[[str], object]
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Where to listen, who may call, and what pages are told."""

    host: str = "127.0.0.1"
    http_port: int = 8080
    udp_port: int = 0
    """0: any free one; the answer names it."""
    advertise: tuple[str, ...] = ()
    """Addresses that answers name; empty: those listened on."""
    cors_origins: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    """What callers have to know; empty: nothing."""
    origin_trials: tuple[str, ...] = field(default=(), repr=False)
    tls: Tls | None = None


class EchoServer:
    """Holds the echoes of all sessions; one tick of the media clock moves them all."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.udp_port = server.port
        self.say: Say = lambda _: None
        self._calls = 0
        self._echoes: dict[Session, Echo] = {}
        self._stop = server.add_media_tick(self.handle_tick)

    def accept(self, offer: str) -> Session:
        """Answer an offer (`session.answer`) and let an echo take the call."""
        session = self.server.accept_offer(offer)
        self.attend(session)
        return session

    def attend(self, session: Session) -> None:
        """Let an echo take the call."""
        self._echoes[session] = Echo(session)
        self._calls += 1
        number = self._calls
        self.say(f"call {number} begins")
        session.closed.add_done_callback(lambda ending: self._end(session, number, ending))

    def receive_call(self, session: Session, info: CallInfo) -> Coroutine[None, None, None] | None:
        """Let an echo take a call that came through signalling, and answer its events."""
        self.attend(session)
        return answer_events(session, info) if info.kind is Kind.REALTIME else None

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
        await self.server.close()


async def open_echo_server(host: str, port: int, config: ServerConfig) -> EchoServer:
    """Open the UDP port. Raises ToolFailure, one line, when it is taken."""
    greeting()
    try:
        return EchoServer(await listen(host, port, config=config))
    except UsageError as error:
        raise ToolFailure(str(error)) from error


def bearer(token: str) -> Callable[[HTTPConnection], bool] | None:
    """Return what lets requests with this token pass (RFC 6750 section 2.1); None for no token."""
    if not token:
        return None
    expected = f"Bearer {token}".encode()

    def authorize(request: HTTPConnection) -> bool:
        given = request.headers.get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, expected)

    return authorize


async def serve(config: ServeConfig, say: Say) -> None:
    """Serve until interrupted."""
    if config.tls is not None:
        config.tls.check()
    try:
        signalling = SignallingConfig(
            cors_origins=config.cors_origins, origin_trials=config.origin_trials
        )
        media = ServerConfig(early_data=True, advertise=config.advertise)
    except UsageError as error:
        raise ToolFailure(str(error)) from error
    listener = open_web_port(config.host, config.http_port)
    try:
        echoes = await open_echo_server(config.host, config.udp_port, media)
    except ToolFailure:
        listener.close()
        raise
    app = signalling_app(
        echoes.server,
        accept=echoes.receive_call,
        config=signalling,
        authorize=bearer(config.token),
    )
    # whoever reads that the server is there may end it at once
    stop = listen_for_interruption()
    host, port = _WILDCARDS.get(config.host, config.host), listener.getsockname()[1]
    url = web_url(host, port, "http" if config.tls is None else "https")
    say(f"echo at {url} (calls on UDP {echoes.udp_port}; Ctrl-C ends it)")
    echoes.say = say
    try:
        await run_web(app, listener, stop, config.tls)
    finally:
        await echoes.close()
