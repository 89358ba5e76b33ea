"""`warp serve`: a page and four ways to call it, answered by a voice or by an echo.

HTTP  instant_connect.io.signalling_app ─▶ receive_call of a VoiceServer or EchoServer
UDP   InstantServer
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import math
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from instant_connect.host import HostConfig
from instant_connect.io import (
    CallInfo,
    InstantConfig,
    InstantServer,
    Kind,
    SignallingConfig,
    listen_instant,
    signalling_app,
)
from instant_connect.keyring import Epoch, Keyring
from warp.errors import UsageError
from warp.io import Ending, Server, ServerConfig, Session, listen, prepare_process
from warp_tools.backends import ECHO, check_backend, make_embedded
from warp_tools.echo import Echo, greet, greeting
from warp_tools.echo_events import answer_events
from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.interruption import listen_for_interruption
from warp_tools.keys import load_keyring
from warp_tools.rotation import KeyChanges
from warp_tools.signalling import check_token
from warp_tools.web import (
    Tls,
    open_quic_port,
    open_web_port,
    run_web,
    web_url,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from voice_backend.io.responses import ResponsesConfig
    from warp_tools.voice_server import VoiceServer

Say = Callable[[str], object]
MIN_ROTATION_S = 60.0
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
    http3: bool = False
    """HTTP/3 beside HTTP/1.1 and 2; needs `tls`."""
    instant: bool = True
    """Begin sessions with their first datagram, and give out bundles."""
    keys: Path | None = None
    """The key file of the cell; without one the keys end with the process."""
    rotate_every_s: float = 86_400.0
    """Without a key file: after so long tickets are sealed with other keys; 0: never."""
    workers: int = 1
    """Processes that share the UDP port."""
    server: int = 0
    """Number of the first one within its cell."""
    backend: str = ECHO
    """Who answers: one of `warp_tools.backends`."""
    responses_url: str = ""
    """Of an OpenAI-compatible Responses service that does slow work; empty: there is none."""
    responses_model: str = ""
    responses_key: str = field(default="", repr=False)
    advertise_port: int = 0
    """The port that answers name, where what is in front has another one; 0: our own."""

    def __post_init__(self) -> None:
        check_token(self.token)
        check_backend(self.backend)
        if self.http3 and self.tls is None:
            raise CommandRefused("--http3 needs --tls-cert and --tls-key")
        if self.keys is not None and not self.instant:
            raise CommandRefused("--keys is of no use with --no-instant")
        if self.rotate_every_s and not MIN_ROTATION_S <= self.rotate_every_s < math.inf:
            hours = self.rotate_every_s / 3600
            raise CommandRefused(
                f"--rotate-every is 0, or hours, {MIN_ROTATION_S:g} seconds at least, not {hours:g}"
            )
        if self.workers != 1 and not self.instant:
            raise CommandRefused("--workers needs Instant Connect: leave out --no-instant")
        self._check_responses()

    def _check_responses(self) -> None:
        if self.backend == ECHO and (self.responses_url or self.responses_model):
            given = "--responses-url" if self.responses_url else "--responses-model"
            raise CommandRefused(
                f"{given} is of no use with --backend {ECHO}, which has no work to give away: "
                "leave one of them out"
            )
        if self.responses_url and not self.responses_model:
            raise CommandRefused("--responses-url needs --responses-model")
        if self.responses_model and not self.responses_url:
            raise CommandRefused("--responses-model needs --responses-url, the service that has it")

    def media(self) -> ServerConfig:
        """Return what the UDP port is told. Raises ToolFailure, one line."""
        try:
            return ServerConfig(
                early_data=True,
                advertise=self.advertise,
                advertise_port=self.advertise_port,
                # a voice has a jitter buffer of its own, and one delay is enough
                audio_in_order=self.backend == ECHO,
            )
        except UsageError as error:
            raise CommandRefused(str(error)) from error

    def signalling(self) -> SignallingConfig:
        """Return what the routes are told. Raises ToolFailure, one line."""
        try:
            return SignallingConfig(
                cors_origins=self.cors_origins, origin_trials=self.origin_trials
            )
        except UsageError as error:
            raise CommandRefused(str(error)) from error

    def responses(self) -> ResponsesConfig | None:
        """Return the service that does slow work, if there is one. Raises ToolFailure."""
        if not self.responses_url:
            return None
        from voice_backend.io.responses import ResponsesConfig, ResponsesHelper

        config = ResponsesConfig(
            base_url=self.responses_url, model=self.responses_model, api_key=self.responses_key
        )
        try:
            ResponsesHelper(config)
        except UsageError as error:
            raise CommandRefused(f"--responses-url: {error}") from error
        return config

    def url(self, port: int) -> str:
        """Return the address of the page, as a browser on this machine takes it."""
        host = _WILDCARDS.get(self.host, self.host)
        return web_url(host, port, "http" if self.tls is None else "https")


class EchoServer:
    """Holds the echoes of all sessions; one tick of the media clock moves them all."""

    def __init__(self, server: Server | InstantServer) -> None:
        self.server = server
        self.udp_port = server.port
        if isinstance(server, InstantServer):
            server.set_greet(lambda arrival: greet(arrival.session))
        self.say: Say = lambda _: None
        self._calls = 0
        self._echoes: dict[Session, Echo] = {}
        self._stop = server.add_media_tick(self.handle_tick)

    def accept(self, offer: str) -> Session:
        """Answer an offer (`session.answer`) and let an echo take the call."""
        plain = self.server.server if isinstance(self.server, InstantServer) else self.server
        session = plain.accept_offer(offer)
        greet(session)
        self.attend(session)
        return session

    def attend(self, session: Session, how: str = "") -> None:
        """Let an echo take the call, which is greeted already."""
        self._echoes[session] = Echo(session)
        self._calls += 1
        number = self._calls
        self.say(f"call {number} begins{how}")
        session.closed.add_done_callback(lambda ending: self._end(session, number, ending))

    def receive_call(self, session: Session, info: CallInfo) -> Coroutine[None, None, None] | None:
        """Let an echo take a call, and answer its events."""
        if info.path is None:
            greet(session)
            self.attend(session)
        else:
            self.attend(session, f" ({info.path.value})")
        talks = info.events is not None or info.kind is Kind.REALTIME
        return answer_events(session, info) if talks else None

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

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Return what serves HTTP: the echo has no routes of its own."""
        return app

    def lack(self) -> str | None:
        """An echo has room for everybody."""
        return None

    def metrics(self) -> str:
        """An echo counts nothing of its own."""
        return ""

    def drain(self) -> None:
        """The server takes no new calls; there is nothing else to be had here."""

    async def close(self) -> None:
        """End every call and free the port."""
        self._stop()
        await self.server.close()


async def open_udp_port(
    host: str,
    port: int,
    config: ServerConfig,
    *,
    instant: bool = False,
    keyring: Keyring | None = None,
    number: int = 0,
    reuse_port: bool = False,
) -> Server | InstantServer:
    """Open the UDP port, as server `number` of its cell.

    Raises ToolFailure, one line, when the port is taken.
    """
    try:
        if not instant:
            return await listen(host, port, config=config)
        made = InstantConfig(server=config, host=HostConfig(server=number))
        return await listen_instant(host, port, config=made, keyring=keyring, reuse_port=reuse_port)
    except UsageError as error:
        raise CommandRefused(str(error)) from error


async def open_echo_server(
    host: str, port: int, config: ServerConfig, *, instant: bool = False
) -> EchoServer:
    """Open the UDP port and answer with echoes. Raises ToolFailure, one line."""
    greeting()
    return EchoServer(await open_udp_port(host, port, config, instant=instant))


async def open_answering(
    config: ServeConfig, keyring: Keyring | None, *, number: int, reuse_port: bool = False
) -> EchoServer | VoiceServer:
    """Open the UDP port and let the backend answer there. Raises ToolFailure, one line."""
    greeting()
    server = await open_udp_port(
        config.host,
        config.udp_port,
        config.media(),
        instant=config.instant,
        keyring=keyring,
        number=number,
        reuse_port=reuse_port,
    )
    if config.backend == ECHO:
        return EchoServer(server)
    from warp_tools.voice_server import open_voice_server

    return await open_voice_server(
        server,
        make_embedded(),
        signalling=config.signalling(),
        authorize=bearer(config.token),
        responses=config.responses(),
    )


def bearer(token: str) -> Callable[[HTTPConnection], bool] | None:
    """Return what lets requests with this token pass (RFC 6750 section 2.1); None for no token."""
    if not token:
        return None
    expected = token.encode()

    def authorize(request: HTTPConnection) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # the scheme has no case (RFC 9110 section 11.1)
        is_bearer = scheme.lower() == "bearer"
        return is_bearer and hmac.compare_digest(given.strip().encode("latin-1"), expected)

    return authorize


async def serve(config: ServeConfig, say: Say) -> None:
    """Serve until interrupted."""
    if config.tls is not None:
        config.tls.check()
    keyring = None if config.keys is None else load_keyring(config.keys)
    signalling = config.signalling()
    listener = open_web_port(config.host, config.http_port)
    try:
        quic = open_quic_port(listener) if config.http3 else None
        answering = await open_answering(config, keyring, number=config.server)
    except ToolFailure:
        listener.close()
        raise
    app = signalling_app(
        answering.server,
        accept=answering.receive_call,
        config=signalling,
        authorize=bearer(config.token),
        room=answering.lack,
        more_metrics=answering.metrics,
    )
    prepare_process()
    # whoever reads that the server is there may end it at once
    stop = listen_for_interruption()
    changing = _listen_for_changes(answering, config, say)
    url = config.url(listener.getsockname()[1])
    say(f"{config.backend} at {url} (calls on UDP {answering.udp_port}; Ctrl-C ends it)")
    answering.say = say
    try:
        await run_web(answering.wrap(app), listener, stop, config.tls, quic=quic)
    finally:
        if changing is not None:
            changing.cancel()
        await answering.close()


def _listen_for_changes(
    answering: EchoServer | VoiceServer, config: ServeConfig, say: Say
) -> asyncio.Task[None] | None:
    """Take other keys at SIGHUP and in time, and no new calls after SIGUSR1."""
    server = answering.server
    if not isinstance(server, InstantServer):
        return None

    def drain() -> None:
        server.drain()
        answering.drain()
        say("no new calls are taken")

    async def replace(keyring: Keyring) -> None:
        server.rotate(keyring)

    async def rotate(epoch: Epoch) -> None:
        server.rotate(server.host.entrance.keyring.rotate(epoch))

    loop = asyncio.get_running_loop()
    # signals reach the loop on Unix only
    with contextlib.suppress(NotImplementedError, AttributeError):
        loop.add_signal_handler(signal.SIGUSR1, drain)
    changes = KeyChanges(
        file=config.keys,
        every_s=config.rotate_every_s,
        present=lambda: server.host.entrance.keyring,
        replace=replace,
        rotate=rotate,
        say=say,
    )
    return loop.create_task(changes.follow())
