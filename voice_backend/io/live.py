"""`/v1/live/sessions`: live sessions over WebRTC and over WebSockets, beside other routes.

    POST  /v1/live/sessions  {session, transport: {type: "webrtc", sdp}}  201 {session, transport}
    WS    /v1/live/sessions                   session.start, then sound and events
    WS    /v1/live/sessions/{id}/attach       a trusted sideband
    POST  /v1/live/sessions/{id}/hangup       the end

    app = Starlette(routes=[*live_routes(house), Mount("/", signalling_app(...))])

Bodies are bounded while they are read, errors are JSON, nothing is cached, pages of other origins
are refused. `house.take_call` gives any other call its events, on the channel `oai-events`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import math
from collections import Counter
from dataclasses import replace
from typing import Any, Final

try:
    import python_multipart  # noqa: F401
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
    from starlette.websockets import WebSocket, WebSocketDisconnect
except ModuleNotFoundError as error:
    raise ImportError(
        "routes of live sessions need starlette and python-multipart: "
        "pip install 'warp-rtc[server,voice]'"
    ) from error

from instant_connect.calls import CallInfo
from instant_connect.config import EVENTS, SignallingConfig
from instant_connect.exchange import Refusal, refuse_sdp
from instant_connect.io.asgi import Authorize
from instant_connect.io.body import read_body
from instant_connect.io.guard import METHODS, Guard, deny, response_of
from instant_connect.limits import RateLimit, address_key, token_key
from instant_connect.origins import require_origin
from voice_backend.io.live_run import LiveRun, MakeHelper
from voice_backend.io.voices import Voices
from voice_backend.live import DoorKind, LiveConfig, LiveFault, Phase, SessionConfig
from voice_backend.live.client_events import check_sane, fault_of, no_constant
from voice_backend.live.shapes import ResponsesDelegation, ValidationError
from warp.entropy import Entropy, SystemEntropy
from warp.errors import InvalidConfig, InvalidState
from warp.io import Channel, Server, Session
from warp.sdp import SdpError

_log = logging.getLogger(__name__)
PATH: Final = "/v1/live"
_NORMAL: Final = 1000  # RFC 6455 section 7.4.1
_NOT_SERVED: Final = ("accept", "content", "fork", "refer", "reject")


class LiveHouse:
    """The live sessions of a process. Close it before `voices` and `server`."""

    def __init__(
        self,
        voices: Voices,
        *,
        server: Server | None = None,
        config: LiveConfig | None = None,
        signalling: SignallingConfig | None = None,
        authorize: Authorize | None = None,
        make_helper: MakeHelper | None = None,
        entropy: Entropy | None = None,
        calls: SessionConfig | None = None,
    ) -> None:
        """`server` answers WebRTC offers; without it WebSockets are the only way in.

        `calls` is what calls of other routes (`take_call`) are taken to ask for; without it the
        service behind `make_helper`, if there is one, works for them.
        """
        self._voices = voices
        self._server = server
        self._authorize = authorize
        self._make_helper = make_helper
        self._entropy = entropy or SystemEntropy()
        self._runs: dict[str, LiveRun] = {}
        self._addresses: dict[LiveRun, str] = {}
        self._sidebands: Counter[str] = Counter()
        self._drains = False
        works = None if make_helper is None else ResponsesDelegation(type="responses")
        self._calls = calls or SessionConfig(
            model=voices.info.name, transcript_views=True, delegation=works
        )
        self.config = replace(config or LiveConfig(), responses=make_helper is not None)
        self.signalling = signalling or SignallingConfig()
        self._rate = RateLimit(self.signalling.rate_per_s, self.signalling.burst)

    @property
    def runs(self) -> list[LiveRun]:
        """The sessions that have not ended."""
        return list(self._runs.values())

    # -- sessions -------------------------------------------------------------------------------

    def begin(self, media: Session | None = None) -> LiveRun:
        """Return a session that is about to start."""
        ident = f"live_{self._entropy.random_bytes(12).hex()}"
        run = LiveRun(ident, self._voices, self.config, self._make_helper, media)
        self._runs[ident] = run
        run.ended.add_done_callback(lambda _: self._forget(run))
        return run

    def _forget(self, run: LiveRun) -> None:
        self._runs.pop(run.session.id, None)
        self._addresses.pop(run, None)

    def offer(self, asked: SessionConfig, sdp: str) -> tuple[LiveRun, str]:
        """Answer a WebRTC offer; raises LiveFault and Refusal."""
        if self._server is None:
            raise Refusal(404, "not_served", "there are no WebRTC sessions here: use a WebSocket")
        self._require(self._voices.lack())
        try:
            media = self._server.accept_offer(sdp)
        except SdpError as error:
            raise refuse_sdp(error) from error
        except InvalidConfig as error:
            raise Refusal(400, "invalid_offer", str(error)) from error
        except InvalidState as error:
            raise Refusal(503, "session_capacity", str(error)) from error
        return self.take(media, asked), media.answer

    def take(
        self,
        media: Session,
        asked: SessionConfig,
        channel: Channel | None = None,
        *,
        attended: bool = True,
    ) -> LiveRun:
        """Begin a session over a call; its events go over `channel`, or the one that is opened.

        `attended`: its client works at what the voice delegates, where nobody else is named. Raises
        LiveFault for what cannot be had.
        """
        run = self.begin(media)
        try:
            run.session.receive_offer(asked, attended=attended)
        except LiveFault:
            self._runs.pop(run.session.id, None)
            run.close("close_requested")
            raise
        pipe = _Pipe(run, media, channel)
        pipe.door = run.attach(DoorKind.CHANNEL, pipe.write)
        return run

    async def take_call(self, session: Session, info: CallInfo) -> None:
        """Let a voice take a call of other routes: what `signalling_app(accept=)` wants."""
        attended = self._calls.delegation is not None
        run = self.take(session, self._calls, info.events, attended=attended)
        await run.ended

    def find(self, ident: str) -> LiveRun:
        """Return a session by its id; raises Refusal (404)."""
        run = self._runs.get(ident)
        if run is None or run.session.phase is Phase.CLOSED:
            raise Refusal(404, "session_not_found", "there is no such session, or it is over")
        return run

    def drain(self) -> None:
        """Take no new sessions; those that are there go on."""
        self._drains = True

    def _require(self, why: str | None) -> None:
        """Raise Refusal (503) when there is a reason why no session more can be had."""
        why = "the server takes no new sessions" if self._drains else why
        if why is not None:
            after = (("Retry-After", str(self.signalling.retry_after_s)),)
            raise Refusal(503, "session_capacity", why, headers=after)

    async def close(self) -> None:
        """End every session. Harmless when repeated."""
        for run in self.runs:
            run.close("connection_lost")
        await asyncio.gather(*[run.ended for run in self.runs])

    # -- endpoints ------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """POST: an offer and what the session asks for."""
        await self._admit(request)
        body = await read_body(
            request, self.signalling.max_body_bytes, self.signalling.read_timeout_s
        )
        asked, sdp = _asked(body)
        try:
            run, answer = self.offer(asked, sdp)
        except LiveFault as fault:
            details = {"param": fault.param} if fault.param else None
            raise Refusal(400, fault.code, fault.message, details=details) from None
        ident = run.session.id
        path = request.scope.get("root_path", "").removesuffix("/sessions")
        return JSONResponse(
            {"session": {"id": ident}, "transport": {"type": "webrtc", "sdp": answer}},
            status_code=201,
            headers={"Location": f"{path}/sessions/{ident}"},
        )

    async def hang_up(self, request: Request) -> Response:
        """POST .../hangup: the end."""
        await self._admit(request, begins=False)
        self.find(request.path_params["id"]).close("close_requested")
        return JSONResponse({})

    async def serve(self, socket: WebSocket) -> None:
        """WS: a session of its own."""
        try:
            await self._admit(socket)
            run = self._begin_unstarted(socket)
        except Refusal as refusal:
            await deny(socket, refusal)
            return
        await self._talk(socket, run, DoorKind.SOCKET)

    async def attach(self, socket: WebSocket) -> None:
        """WS .../attach: look on, and take part, at a session that runs."""
        ident = socket.path_params["id"]
        try:
            await self._admit(socket)
            run = self.find(ident)
            most = self.config.sidebands
            if self._sidebands[ident] >= most:
                why = f"a session has at most {most} sidebands: close another one first"
                raise Refusal(409, "too_many_sidebands", why)
        except Refusal as refusal:
            await deny(socket, refusal)
            return
        self._sidebands[ident] += 1
        try:
            await self._talk(socket, run, DoorKind.SIDEBAND)
        finally:
            self._sidebands[ident] -= 1
            self._sidebands += Counter()  # without those that are 0

    def _begin_unstarted(self, socket: WebSocket) -> LiveRun:
        """Return a session that its WebSocket is to start; raises Refusal when too many wait."""
        address = address_key(socket.client.host if socket.client is not None else "")
        waiting = [at for run, at in self._addresses.items() if run.session.phase is Phase.NEW]
        for most, count, where in (
            (self.config.unstarted, len(waiting), ""),
            (self.config.unstarted_each, waiting.count(address), " of this address"),
        ):
            why = f"{count} connections{where} have not started a session: start those first"
            self._require(why if count >= most else None)
        run = self.begin()
        self._addresses[run] = address
        return run

    async def _talk(self, socket: WebSocket, run: LiveRun, kind: DoorKind) -> None:
        try:
            await socket.accept()
        except (RuntimeError, WebSocketDisconnect):
            # gone before it was there
            if kind is DoorKind.SOCKET:
                run.close("connection_lost")
            return
        number = run.attach(kind, socket.send_text)
        over = asyncio.ensure_future(asyncio.shield(run.ended))
        reading = asyncio.ensure_future(_read(socket, run, number))
        try:
            await asyncio.wait([over, reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (over, reading):
                task.cancel()
            run.detach(number)
        if over.done() and not over.cancelled():
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(_NORMAL)
        elif kind is DoorKind.SOCKET:
            await run.ended

    # -- who may --------------------------------------------------------------------------------

    async def _admit(self, connection: HTTPConnection, *, begins: bool = True) -> None:
        """Raise Refusal (401, 403, 429) unless this may be served."""
        if connection.scope["type"] == "websocket":
            require_origin(connection.headers, self.signalling.cors_origins)
        host = connection.client.host if connection.client is not None else ""
        if begins:
            self._count(address_key(host))
        if self._authorize is not None:
            allowed = self._authorize(connection)
            if inspect.isawaitable(allowed):
                allowed = await allowed
            if not allowed:
                raise Refusal(
                    401,
                    "invalid_api_key",
                    "send a valid token: Authorization: Bearer ...",
                    headers=(("WWW-Authenticate", "Bearer"),),
                )
        if begins and (given := connection.headers.get("authorization")) is not None:
            self._count(token_key(given))

    def _count(self, key: str) -> None:
        wait_s = self._rate.wait_s(key, asyncio.get_running_loop().time())
        if wait_s:
            after = (("Retry-After", str(math.ceil(wait_s))),)
            raise Refusal(429, "rate_limited", "too many sessions: try later", headers=after)


class _Pipe:
    """A data channel as a door's other end: waits until the client has opened it."""

    def __init__(self, run: LiveRun, media: Session, channel: Channel | None) -> None:
        loop = asyncio.get_running_loop()
        self._run = run
        self.door = 0
        self._channel: asyncio.Future[Channel] = loop.create_future()
        self._task = loop.create_task(self._listen(media, channel))
        media.closed.add_done_callback(lambda _: self._end())

    async def write(self, text: str) -> None:
        """Send a text, once there is a channel."""
        channel = await asyncio.shield(self._channel)
        channel.send(text)
        await channel.drain()

    def _end(self) -> None:
        self._task.cancel()
        if not self._channel.done():
            self._channel.set_exception(ConnectionError("the call ended without a channel"))
            self._channel.exception()  # there may be nobody who wanted to write

    async def _listen(self, media: Session, channel: Channel | None) -> None:
        if channel is None:
            async for opened in media.channels():
                if opened.label == EVENTS:
                    channel = opened
                    break
                opened.close()
        if channel is None:
            return
        self._channel.set_result(channel)
        async for message in channel:
            self._run.receive_text(self.door, message)


def live_routes(house: LiveHouse) -> list[BaseRoute]:
    """Return the routes of live sessions, to stand before others that may take any path."""
    app = Starlette(
        routes=[
            Route("/sessions", _only(house.create, "POST"), methods=METHODS),
            WebSocketRoute("/sessions", house.serve),
            Route("/sessions/{id}/hangup", _only(house.hang_up, "POST"), methods=METHODS),
            WebSocketRoute("/sessions/{id}/attach", house.attach),
            WebSocketRoute("/{path:path}", _no_socket),
            *[
                Route(f"/sessions/{{id}}/{name}", _not_served, methods=METHODS)
                for name in _NOT_SERVED
            ],
        ],
        exception_handlers={Refusal: _refused, 404: _nowhere, Exception: _failed},
    )
    guarded = Guard(
        app,
        origins=house.signalling.cors_origins,
        read_timeout_s=house.signalling.read_timeout_s,
    )
    return [Mount(PATH, app=guarded)]


def _asked(body: bytes) -> tuple[SessionConfig, str]:
    """Return what a request to create a session asks for; raises Refusal."""
    try:
        data: Any = json.loads(body, parse_constant=no_constant)
        check_sane(data)
    except (ValueError, RecursionError):
        raise Refusal(400, "invalid_json", "send {session, transport} as JSON") from None
    transport = data.get("transport") if isinstance(data, dict) else None
    sdp = transport.get("sdp") if isinstance(transport, dict) else None
    if not isinstance(transport, dict) or transport.get("type") != "webrtc":
        raise Refusal(
            400, "invalid_value", 'transport is {"type": "webrtc", "sdp": an offer}',
            details={"param": "transport"},
        )  # fmt: skip
    if not isinstance(sdp, str) or not sdp.strip():
        raise Refusal(
            400, "missing_parameter", "the offer is missing", details={"param": "transport.sdp"}
        )
    try:
        return SessionConfig.model_validate(data.get("session")), sdp
    except ValidationError as error:
        fault = fault_of(error, None, "session")
        raise Refusal(400, fault.code, fault.message, details={"param": fault.param}) from None


async def _read(socket: WebSocket, run: LiveRun, number: int) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            run.receive_text(number, text if text is not None else message.get("bytes") or b"")


def _only(endpoint: Any, method: str) -> Any:
    async def dispatch(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(headers={"Allow": f"{method}, OPTIONS"})
        if request.method != method:
            raise Refusal(
                405,
                "method_not_allowed",
                f"{request.method[:20]} is not served here: use {method}",
                headers=(("Allow", f"{method}, OPTIONS"),),
            )
        answer: Response = await endpoint(request)
        return answer

    return dispatch


async def _not_served(request: Request) -> Response:
    raise Refusal(404, "not_served", "this server keeps no sessions: there is no such operation")


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, Refusal):
        raise error
    return response_of(error.reply())


async def _nowhere(request: Request, error: Exception) -> Response:
    why = "there is nothing at this path, or it is a WebSocket's"
    return response_of(Refusal(404, "not_found", why).reply())


async def _no_socket(socket: WebSocket) -> None:
    why = f"no WebSocket is served at this path: sessions begin at {PATH}/sessions"
    await deny(socket, Refusal(404, "not_found", why))


async def _failed(request: Request, error: Exception) -> Response:
    return response_of(Refusal(500, "internal_error", "the server has failed").reply())
