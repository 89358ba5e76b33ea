"""Signalling over HTTP: a Starlette application to run alone or to mount in somebody else's.

    GET    /v1/instant                        a bundle: tickets for calls to come
    POST   /whip                              WHIP (RFC 9725): application/sdp
    PATCH, DELETE /whip/{id}                  trickle, restart; the end
    POST   /v1/realtime/calls[?dcid=N]        application/sdp, or a form with `sdp` and `session`
    PUT, PATCH, DELETE /v1/realtime/calls/{id}            another offer; trickle, restart; the end
    POST   /v1/realtime/calls/{id}/hangup     GET /v1/realtime/calls/{id}/stats
    POST, PATCH /api/offer                    JSON, for pipecat's clients
    GET    /metrics                           counts of an Instant Connect server, for Prometheus
    GET    /v1/client-config                  what our own page has to know
    GET    /, /*.js, ...                      our own page

A thin skin: what is answered is decided by `instant_connect.signalling`. Bodies are bounded while
they are read, nothing is cached, errors are JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import metadata
from typing import Final

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from instant_connect.calls import Call, Calls, Room, full
from instant_connect.config import EVENTS, SignallingConfig
from instant_connect.exchange import (
    FORM,
    SDP,
    SDP_FRAGMENT,
    Ask,
    AttemptNames,
    Refusal,
    Reply,
    media_type,
)
from instant_connect.io.arrival import Arrival
from instant_connect.io.body import parse_form, read_body
from instant_connect.io.guard import METHODS, Guard, deny, response_of
from instant_connect.io.pages import Pages
from instant_connect.io.prospects import Prospect, Prospects
from instant_connect.io.reception import Accept, Reception
from instant_connect.io.server import InstantServer
from instant_connect.limits import RateLimit, address_key, token_key
from instant_connect.metrics import Metrics, prometheus
from instant_connect.offers import Kind
from instant_connect.pipecat import PipecatDoor
from instant_connect.report import start_report
from instant_connect.signalling import PATHS, Elsewhere, Signalling
from warp.entropy import SystemEntropy
from warp.errors import InvalidState
from warp.io import Server

BUNDLE_PATH: Final = "/v1/instant"
OFFER_PATH: Final = "/api/offer"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAX_UFRAG: Final = 256  # RFC 8839 section 5.4; longer ones name nothing
Policy = Callable[[HTTPConnection], int]
"""What the application has agreed to with whoever asks, as its own number of 32 bits."""
Forward = Callable[[int, Ask, Kind], Awaitable[Reply]]
"""Carries a request to another server of the cell by its number, and its answer back; raises
`ConnectionError` when that is not to be had."""
Authorize = Callable[[HTTPConnection], bool | Awaitable[bool]]
"""Whether a request may be served; sees method, path, headers and address, not the body."""
Endpoint = Callable[[Request], Awaitable[Response]]


def signalling_app(
    server: Server | InstantServer,
    *,
    accept: Accept,
    config: SignallingConfig | None = None,
    authorize: Authorize | None = None,
    policy: Policy | None = None,
    forward: Forward | None = None,
    room: Room | None = None,
    more_metrics: Callable[[], str] | None = None,
) -> Starlette:
    """Return the application whose calls `server` carries and `accept` answers.

    `accept(session, info)` is a function or a coroutine function. With an `InstantServer` it is
    entered when the client is proven, whichever way its call came; else with the offer.
    `authorize` is asked before every request that begins, changes or shows a call, and `policy`
    for the number that goes into tickets. Of several servers of a cell, `forward` takes offers to
    the one that has their attempt (`app.state.open` answers them there). `room` says why another
    call cannot be served (503, `session_capacity`), or None; `more_metrics` is text of the
    application's own behind ours in `/metrics`. Mounted in another application, the calls end when
    its owner closes `server`; run alone, with the application.
    """
    routes = _Routes(server, accept, config or SignallingConfig(), authorize, policy, forward)
    routes.calls.room = room
    routes.more_metrics = more_metrics
    if isinstance(server, InstantServer):
        server.limit_sessions(routes.config.max_calls, room)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await routes.close()

    app = Starlette(
        routes=routes.all(),
        lifespan=lifespan,
        exception_handlers={
            Refusal: _refused,
            404: _not_found,
            405: _not_allowed,
            Exception: _failed,
        },
    )
    app.state.open = routes.open
    app.add_middleware(
        Guard,
        origins=routes.config.cors_origins,
        read_timeout_s=routes.config.read_timeout_s,
    )
    return app


class _Routes:
    """One application's endpoints."""

    def __init__(
        self,
        server: Server | InstantServer,
        accept: Accept,
        config: SignallingConfig,
        authorize: Authorize | None,
        policy: Policy | None,
        forward: Forward | None,
    ) -> None:
        self.config = config
        self.more_metrics: Callable[[], str] | None = None
        self._forward = forward
        self._authorize = authorize
        self._policy = policy
        self._reception = Reception(accept)
        self._instant: InstantServer | None = None
        self._prospects: Prospects | None = None
        if isinstance(server, InstantServer):
            self._instant, server = server, server.server
            self._prospects = Prospects(self._instant, ended=self._forget)
            self._instant.receive_arrivals(self._receive_arrival)
        self._signalling = Signalling(
            server,
            config,
            entropy=SystemEntropy(),
            welcome=self._welcome,
            instant=self._prospects,
            server=0 if self._instant is None else self._instant.host.answers.own,
        )
        self._pipecat = PipecatDoor(self._signalling, max_body_bytes=config.max_body_bytes)
        self._rate = RateLimit(config.rate_per_s, config.burst)
        self._pages = Pages(config.origin_trials)

    @property
    def calls(self) -> Calls:
        """The calls that HTTP can name."""
        return self._signalling.calls

    def all(self) -> list[BaseRoute]:
        """Return the routing table."""
        calls = PATHS[Kind.REALTIME]
        session = {"PATCH": self.patch, "DELETE": self.delete}
        patches = ("Accept-Patch", SDP_FRAGMENT)
        table: list[BaseRoute] = [
            *[self._door(kind) for kind in PATHS],
            _resource(f"{PATHS[Kind.WHIP]}/{{id}}", session, patches),
            _resource(f"{calls}/{{id}}", {"PUT": self.put, **session}, patches),
            _resource(f"{calls}/{{id}}/hangup", {"POST": self.delete}),
            _resource(f"{calls}/{{id}}/stats", {"GET": self.stats}),
            _resource("/v1/client-config", {"GET": self.client_config}),
            _resource(BUNDLE_PATH, {"GET": self.bundle}),
            _resource(OFFER_PATH, {"POST": self.offer, "PATCH": self.trickle}),
            _resource("/metrics", {"GET": self.metrics}),
            WebSocketRoute("/{path:path}", _no_socket),
        ]
        if self.config.pages:
            table.append(Route("/{path:path}", self.page, methods=["GET"]))
        return table

    def _door(self, kind: Kind) -> Route:
        async def post(request: Request) -> Response:
            ask = await self._ask(request, form=kind is Kind.REALTIME, begins=True)
            return response_of(await self.open(ask, kind))

        posts = SDP if kind is Kind.WHIP else f"{SDP}, {FORM}"
        return _resource(PATHS[kind], {"POST": post}, ("Accept-Post", posts))

    async def open(self, ask: Ask, kind: Kind) -> Reply:
        """Answer an offer, here or where its attempt is."""
        clock = asyncio.get_running_loop().time
        try:
            return await self._open(ask, kind, clock)
        except Elsewhere as elsewhere:
            if self._forward is not None:
                onward = replace(ask, hops=ask.hops + 1, settled=elsewhere.settled)
                # whoever cannot be asked has no session that this client could join
                with contextlib.suppress(ConnectionError):
                    return await self._forward(elsewhere.server, onward, kind)
            return await self._open(ask.alone(), kind, clock)

    async def _open(self, ask: Ask, kind: Kind, clock: Callable[[], float]) -> Reply:
        if kind is Kind.PIPECAT:
            return await self._pipecat.open(ask, clock)
        return self._signalling.open(ask, kind, clock)

    # -- the endpoints ------------------------------------------------------------------------

    async def put(self, request: Request) -> Response:
        """Renegotiate."""
        ask = await self._ask(request)
        return response_of(self._signalling.reoffer(ask, request.path_params["id"]))

    async def patch(self, request: Request) -> Response:
        """Trickle or restart."""
        ask = await self._ask(request)
        return response_of(self._signalling.patch(ask, request.path_params["id"]))

    async def delete(self, request: Request) -> Response:
        """Hang up."""
        await self._admit(request)
        return response_of(await self._signalling.hang_up(request.path_params["id"]))

    async def stats(self, request: Request) -> Response:
        """Tell what the server saw of the start."""
        await self._admit(request)
        call = self._signalling.calls.get(request.path_params["id"])
        return JSONResponse(start_report(call, asyncio.get_running_loop().time()))

    async def bundle(self, request: Request) -> Response:
        """Give out tickets for calls to come: each of them is worth one."""
        await self._admit(request, begins=True)
        server = self._instant
        if server is None:
            raise Refusal(404, "not_instant", "this server begins sessions by signalling only")
        try:
            text = server.bundle(
                policy=self._policy_of(request),
                fallback=request.scope.get("root_path", "") + PATHS[Kind.REALTIME],
            )
        except InvalidState as error:
            raise full(str(error), self.config.retry_after_s) from error
        return Response(text, media_type="application/json")

    def _policy_of(self, request: Request) -> int:
        return 0 if self._policy is None else self._policy(request)

    async def offer(self, request: Request) -> Response:
        """Take an offer in JSON."""
        ask = await self._ask(request, begins=True)
        return response_of(await self.open(ask, Kind.PIPECAT))

    async def trickle(self, request: Request) -> Response:
        """Take candidates in JSON."""
        return response_of(self._pipecat.patch(await self._ask(request)))

    async def metrics(self, request: Request) -> Response:
        """Tell what is under way, and why datagrams came to nothing."""
        await self._admit(request)
        calls: Metrics = {"calls": {"": len(self._signalling.calls)}}
        known = {} if self._instant is None else self._instant.metrics()
        more = "" if self.more_metrics is None else self.more_metrics()
        return Response(prometheus({**calls, **known}) + more, media_type=_PROMETHEUS)

    async def client_config(self, request: Request) -> Response:
        """Tell our own page where to call, and how."""
        base = request.scope.get("root_path", "")
        servers = [server.url for server in self.config.ice_servers if not server.username]
        return JSONResponse(
            {
                "version": metadata.version("warp-rtc"),
                "endpoints": {
                    "calls": base + PATHS[Kind.REALTIME],
                    "whip": base + PATHS[Kind.WHIP],
                    "offer": base + OFFER_PATH,
                    "instant": None if self._instant is None else base + BUNDLE_PATH,
                },
                "events": {"label": EVENTS, "dcid": self.config.dcid},
                "ice_servers": [{"urls": url} for url in servers],
                "authorization": "bearer" if self._authorize is not None else "none",
                "origin_trial": bool(self.config.origin_trials),
            }
        )

    async def page(self, request: Request) -> Response:
        """Send the page or one of its files."""
        return self._pages.get(request, request.path_params["path"])

    # -- what they share ----------------------------------------------------------------------

    async def _admit(self, request: Request, *, begins: bool = False) -> None:
        """Raise `Refusal` (401, 429) unless the request may be served.

        What `begins` something is counted, first by address: guessing tokens is slow then.
        """
        if begins:
            host = request.client.host if request.client is not None else ""
            self._count(address_key(host))
        if self._authorize is not None:
            await self._authorized(request, self._authorize)
        if begins and (given := request.headers.get("authorization")) is not None:
            self._count(token_key(given))

    def _count(self, key: str) -> None:
        wait_s = self._rate.wait_s(key, asyncio.get_running_loop().time())
        if wait_s:
            after = str(math.ceil(wait_s))
            raise Refusal(
                429,
                "rate_limited",
                f"too many requests that begin a call: try again after {after} s",
                headers=(("Retry-After", after),),
            )

    async def _authorized(self, request: Request, authorize: Authorize) -> None:
        allowed = authorize(request)
        if inspect.isawaitable(allowed):
            allowed = await allowed
        if not allowed:
            raise Refusal(
                401,
                "unauthorized",
                "send a valid token: Authorization: Bearer ...",
                headers=(("WWW-Authenticate", "Bearer"),),
            )

    async def _ask(self, request: Request, *, form: bool = False, begins: bool = False) -> Ask:
        """Read a request to its end, and a form's parts where one may come."""
        await self._admit(request, begins=begins)
        body = await read_body(request, self.config.max_body_bytes, self.config.read_timeout_s)
        content_type = request.headers.get("content-type", "")
        parts: Mapping[str, bytes] | None = None
        if form and media_type(content_type) == FORM:
            parts = parse_form(content_type, body)
        return Ask(
            content_type=content_type,
            body=body,
            parts=parts,
            query=dict(request.query_params),
            if_match=request.headers.get("if-match"),
            base=request.scope.get("root_path", ""),
            client=request.client.host if request.client is not None else "",
            attempt=_attempt(request.headers),
            policy=self._policy_of(request),
            now=asyncio.get_running_loop().time(),
        )

    def _welcome(self, call: Call) -> None:
        self._reception.welcome(call, self._signalling.calls)

    def _receive_arrival(self, arrival: Arrival) -> None:
        """Introduce a call whose client is proven (T3): nobody has heard of it before."""
        if self._prospects is not None:
            prospect = self._prospects.meet(arrival)
            call = self._signalling.meet(prospect, arrival.policy, arrival.events)
            self._reception.receive_arrival(arrival.session, call.info)

    def _forget(self, prospect: Prospect) -> None:
        call = self._signalling.calls.of(prospect)
        if call is not None:
            self._signalling.calls.remove(call)

    async def close(self) -> None:
        """End every call and whatever answers it."""
        await self._signalling.close()
        if self._prospects is not None:
            self._prospects.close()
        await self._reception.close()


def _attempt(headers: Mapping[str, str]) -> AttemptNames | None:
    """Return what a request says of the attempt that its offer comes beside."""
    ufrag, proof = (headers.get(f"Instant-{name}", "")[:_MAX_UFRAG] for name in ("Ufrag", "Proof"))
    return AttemptNames(ufrag=ufrag, proof=proof) if ufrag else None


def _resource(
    path: str, handlers: Mapping[str, Endpoint], told: tuple[str, str] | None = None
) -> Route:
    """Return the route of one path: each method its handler, 405 with all of them for others.

    OPTIONS is answered with the methods and the header `told` (RFC 9725 section 4.2).
    """
    known = dict(handlers)
    if "GET" in known:
        known["HEAD"] = known["GET"]
    allowed = ", ".join(sorted([*known, "OPTIONS"]))

    async def dispatch(request: Request) -> Response:
        if request.method == "OPTIONS":
            headers = {"Allow": allowed, **dict([told] if told is not None else [])}
            return Response(headers=headers)
        handler = known.get(request.method)
        if handler is None:
            raise _not_served(request.method, allowed)
        return await handler(request)

    return Route(path, dispatch, methods=METHODS)


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, Refusal):
        raise error
    return response_of(error.reply())


async def _not_found(request: Request, error: Exception) -> Response:
    where = " or ".join(PATHS.values())
    message = f"there is nothing at this path: offers are taken at {where}"
    return response_of(Refusal(404, "not_found", message).reply())


async def _no_socket(socket: WebSocket) -> None:
    why = (
        "no WebSocket is served here: live sessions are at /v1/live/sessions of `warp serve` "
        "with a voice (not --backend echo) in one process (without --workers)"
    )
    await deny(socket, Refusal(404, "not_found", why))


async def _not_allowed(request: Request, error: Exception) -> Response:
    # a path that nobody has is a file's to Starlette, and files are only read
    if "POST" not in (getattr(error, "headers", None) or {}).get("Allow", ""):
        return await _not_found(request, error)
    return response_of(_not_served(request.method, ", ".join(METHODS)).reply())


async def _failed(request: Request, error: Exception) -> Response:
    return response_of(Refusal(500, "internal_error", "the server has failed").reply())


def _not_served(method: str, allowed: str) -> Refusal:
    return Refusal(
        405,
        "method_not_allowed",
        f"{method[:20]} is not served here: use {allowed}",
        headers=(("Allow", allowed),),
    )
