"""`warp serve` with a voice: every call, whichever way it came, talks with the model.

HTTP  /v1/live/sessions ─▶ LiveHouse ─┐          other routes ─▶ VoiceServer.receive_call ─┐
UDP   InstantServer ─▶ session ───────┴─▶ Voices.attend, once the peer is authenticated ◀──┘
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount

from instant_connect.calls import CallInfo
from instant_connect.config import SignallingConfig
from instant_connect.io.asgi import Authorize
from instant_connect.io.server import InstantServer
from voice_backend.engine import EngineHost
from voice_backend.io import Voices, VoicesConfig, open_voices
from voice_backend.io.live import LiveHouse, live_routes
from voice_backend.io.live_helper import responses_helpers
from voice_backend.io.responses import ResponsesConfig
from voice_backend.loop import LoopConfig
from warp.errors import InternalError, WarpError
from warp.io import Ending, Server, Session
from warp_tools.backends import RESERVE_FRAMES, realtime_priority
from warp_tools.echo import greet, greeting
from warp_tools.failure import ToolFailure

if TYPE_CHECKING:
    from starlette.types import ASGIApp

HELLO = "hello"
"""The packaged sound of the first words."""
Say = Callable[[str], object]


class VoiceServer:
    """Holds the voices of all sessions."""

    def __init__(
        self,
        server: Server | InstantServer,
        voices: Voices,
        *,
        signalling: SignallingConfig | None = None,
        authorize: Authorize | None = None,
        responses: ResponsesConfig | None = None,
    ) -> None:
        """`responses` is the service that sessions may give slow work to."""
        self.server = server
        self.voices = voices
        self.udp_port = server.port
        self.say: Say = lambda _: None
        self._calls = 0
        if isinstance(server, InstantServer):
            server.set_greet(lambda arrival: greet(arrival.session, HELLO))
        self.house = LiveHouse(
            voices,
            server=self.plain,
            signalling=signalling,
            authorize=authorize,
            make_helper=None if responses is None else responses_helpers(responses),
        )

    @property
    def plain(self) -> Server:
        """The server that answers offers."""
        return self.server.server if isinstance(self.server, InstantServer) else self.server

    @property
    def instant(self) -> InstantServer:
        """The server, as one whose sessions begin with their first datagram."""
        if not isinstance(self.server, InstantServer):
            raise InternalError("this server takes calls by signalling alone")
        return self.server

    def lack(self) -> str | None:
        """Say why a call more could not be served in time, or None."""
        return self.voices.lack()

    def metrics(self) -> str:
        """Tell of frames and of the engine, for Prometheus."""
        return self.voices.prometheus()

    def wrap(self, app: ASGIApp) -> Starlette:
        """Return the routes of live sessions before those of `app`."""
        routes: list[BaseRoute] = [*live_routes(self.house), Mount("/", app=app)]
        return Starlette(routes=routes)

    def receive_call(self, session: Session, info: CallInfo) -> Coroutine[None, None, None]:
        """Let a voice take a call."""
        self._calls += 1
        number = self._calls
        if info.path is None:
            greet(session, HELLO)
            self.say(f"call {number} begins")
        else:
            self.say(f"call {number} begins ({info.path.value})")

        def end(ending: Ending) -> None:
            self.say(f"call {number} has ended: {ending.result() or 'hung up'}")

        session.closed.add_done_callback(end)
        return self.house.take_call(session, info)

    def drain(self) -> None:
        """Take no new calls and sessions; those that are there go on."""
        self.house.drain()

    async def close(self) -> None:
        """End every call and free the port."""
        await self.house.close()
        await self.voices.close()
        await self.server.close()


async def open_voice_server(
    server: Server | InstantServer,
    make_host: Callable[[], EngineHost],
    *,
    signalling: SignallingConfig | None = None,
    authorize: Authorize | None = None,
    responses: ResponsesConfig | None = None,
) -> VoiceServer:
    """Load the voice for a server that listens already; closes it if that fails.

    Raises ToolFailure, one line.
    """
    greeting(HELLO)
    loop = LoopConfig(realtime_priority=realtime_priority())
    config = VoicesConfig(reserve_frames=RESERVE_FRAMES, loop=loop)
    try:
        voices = await open_voices(make_host, config, add_media_tick=server.add_media_tick)
    except BaseException as error:
        await server.close()
        if isinstance(error, WarpError):
            raise ToolFailure(f"the voice cannot be loaded: {error}") from error
        raise
    return VoiceServer(
        server, voices, signalling=signalling, authorize=authorize, responses=responses
    )
