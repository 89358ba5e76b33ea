"""A caller that knows a server by its address: bundles fetched ahead, offers posted, calls ended.

    prepare ─ GET /v1/instant ─▶ wallet ◀─ kept fresh: at half life, and after each call
    call ─┬ first datagram, now
          └ POST /v1/realtime/calls, now ─ attached: its place; new: the other way ─▶ PlacedCall
                                         └ no answer: again for 30 s, while the call goes on

Called by `warp call --instant`, and by applications; needs nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import ssl
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from instant_connect.answers import Status
from instant_connect.bundle import parse_bundle
from instant_connect.client import Wallet, parse_wallet
from instant_connect.io.client import DAY_S, InstantClient, Post, Posted
from instant_connect.io.http import HttpOrigin, Response
from instant_connect.sessions import Path as Way
from warp.crypto import Certificate
from warp.entropy import Entropy
from warp.errors import InvalidConfig, InvalidState, WarpError
from warp.io import ClientConfig, Session
from warp.trace import Trace

BUNDLE_PATH: Final = "/v1/instant"
CALLS_PATH: Final = "/v1/realtime/calls"
_NO_ANSWER: Final = (OSError, http.client.HTTPException)
_LEAST_S: Final = 1.0  # between two bundles, whatever they say
_MOST_S: Final = 60.0  # between two attempts to get one
_MAX_SHOWN: Final = 300


class SignallingFailed(WarpError):
    """Signalling has not answered, or not with what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerConfig:
    """Where to call, and how. Raises `InvalidConfig` for a token that no header can carry."""

    url: str  # the server; a path is that of a mounted application
    token: str = field(default="", repr=False)  # sent as a bearer token (RFC 6750)
    dcid: int | None = None  # stream id of the events channel, said to signalling
    timeout_s: float = 10.0  # of one HTTP request
    retry_s: float = 30.0  # so long an offer is posted again whose call is under way
    state: Path | None = None  # file that keeps tickets, certificate and round-trip time
    certificate_lifetime_s: float = (
        DAY_S  # then another: calls with one can be linked; 0: each call
    )
    client: ClientConfig = field(default_factory=ClientConfig)

    def __post_init__(self) -> None:
        if not (self.token.isascii() and self.token.isprintable()):
            raise InvalidConfig("a token is ASCII, without line ends (RFC 6750 section 2.1)")


class PlacedCall:
    """One call. Its session is `session`; its place at the server is known once signalling says."""

    __slots__ = ("_caller", "_is_instant", "_session", "_status", "location")

    def __init__(self, caller: InstantCaller) -> None:
        self._caller = caller
        self._session: Session | None = None
        self._is_instant = False
        self._status: Status | None = None
        self.location = ""
        """The path of the call, for DELETE and PATCH; empty until its offer is answered."""

    @property
    def session(self) -> Session:
        """The session, which is connected."""
        if self._session is None:
            raise InvalidState("the call is not placed yet")
        return self._session

    @property
    def path(self) -> Way:
        """Which way the call came; what is `INSTANT` may become `ATTACHED`."""
        if not self._is_instant:
            return Way.SIGNALLED
        return Way.ATTACHED if self._status is Status.ATTACHED else Way.INSTANT

    def answered(self, status: Status, location: str) -> str:
        """Note what signalling says; return the place of a call that nobody wants."""
        if self._is_instant and status is Status.NEW:
            return location
        self._status, self.location = status, location
        return ""

    def taken(self, session: Session, *, is_instant: bool) -> str:
        """Have a session from now on; return the place of a call that nobody wants."""
        self._session, self._is_instant = session, is_instant
        if is_instant and self._status is Status.NEW:
            unwanted, self.location, self._status = self.location, "", None
            return unwanted
        return ""

    async def hang_up(self) -> None:
        """Say goodbye, and let the server forget the call."""
        await self.session.close()
        if self.location:
            await self._caller.forget(self.location)


class InstantCaller:
    """Calls one server, by tickets where it has any. Belongs to the running event loop."""

    __slots__ = ("_base", "_client", "_config", "_origin", "_refreshing", "_tasks", "wallet")

    def __init__(
        self,
        config: CallerConfig,
        *,
        entropy: Entropy | None = None,
        trace: Trace | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Raises `InvalidConfig` for an address or a state file that cannot be used."""
        self._config = config
        self._origin = HttpOrigin(config.url, timeout_s=config.timeout_s, context=context)
        self._base = urlsplit(config.url).path.rstrip("/")
        self.wallet, certificate = _restored(config.state)
        self._client = InstantClient(
            post=self._post_of(PlacedCall(self)),  # of nobody: every call has its own
            config=config.client,
            certificate=certificate,
            wallet=self.wallet,
            certificate_lifetime_s=config.certificate_lifetime_s,
            entropy=entropy,
            trace=trace,
        )
        self._refreshing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- ahead of time ------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Have tickets ready, and keep them fresh until the caller is closed.

        Raises `SignallingFailed` when the server gives none; calls are signalled then.
        """
        if self.wallet.wants_refresh(asyncio.get_running_loop().time()):
            await self.refresh()
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._keep_fresh())

    async def refresh(self) -> None:
        """Fetch another bundle now."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        response = await self._ask("GET", self._base + BUNDLE_PATH, {})
        if response.status != 200:
            raise SignallingFailed(_refusal("bundle", response))
        try:
            bundle = parse_bundle(response.text())
        except InvalidConfig as error:
            raise SignallingFailed(f"the bundle cannot be read: {error}") from error
        self.wallet.put(bundle, loop.time(), age_s=loop.time() - asked_at)
        self._keep()

    async def _keep_fresh(self) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(min(_MOST_S, _LEAST_S * 2**failures))
            if not self.wallet.wants_refresh(loop.time()):
                continue
            try:
                await self.refresh()
                failures = 0
            except SignallingFailed:
                failures += 1  # calls by what is left, or by signalling

    # -- calls --------------------------------------------------------------------------------

    async def call(self, timeout_s: float = 30.0) -> PlacedCall:
        """Call: the first datagram and the offer leave now, and whichever way is up is taken.

        Raises `SignallingFailed` when neither way leads anywhere, and `HandshakeTimedOut`.
        """
        placed = PlacedCall(self)
        made = await self._client.place(self._post_of(placed), timeout_s)
        self._forget_soon(placed.taken(made.session, is_instant=made.is_instant))
        self._keep()
        return placed

    def _post_of(self, placed: PlacedCall) -> Post:
        """Return the signalling of one call."""

        async def post(offer: str, headers: Mapping[str, str]) -> Posted:
            try:
                response = await self._post(offer, headers)
            except SignallingFailed:
                if headers:
                    self._spawn(self._post_again(placed, offer, headers))
                raise
            return self._noted(placed, response)

        return post

    def _noted(self, placed: PlacedCall, response: Response) -> Posted:
        attached = response.headers.get("instant-status") == Status.ATTACHED.value
        status = Status.ATTACHED if attached else Status.NEW
        place = urlsplit(urljoin(self._config.url, response.headers.get("location", ""))).path
        self._forget_soon(placed.answered(status, place))
        return Posted(status, response.text())

    async def _post(self, offer: str, headers: Mapping[str, str]) -> Response:
        query = "" if self._config.dcid is None else f"?dcid={self._config.dcid}"
        response = await self._ask(
            "POST",
            self._offers_to() + query,
            {"Content-Type": "application/sdp", **headers},
            offer.encode(),
        )
        if response.status != 201:
            raise SignallingFailed(_refusal("offer", response))
        return response

    def _offers_to(self) -> str:
        """Return the path that offers go to: the bundle's, unless it is of another server."""
        url = urlsplit(urljoin(f"{self._config.url.rstrip('/')}/", self.wallet.fallback))
        own = urlsplit(self._config.url)
        if self.wallet.fallback and (url.scheme, url.netloc) == (own.scheme, own.netloc):
            return url.path
        return self._base + CALLS_PATH

    async def _post_again(self, placed: PlacedCall, offer: str, headers: Mapping[str, str]) -> None:
        """Let the server know of the offer of a call that goes on without it."""
        loop = asyncio.get_running_loop()
        end, wait_s = loop.time() + self._config.retry_s, _LEAST_S
        while loop.time() + wait_s < end:
            await asyncio.sleep(wait_s)
            wait_s *= 2
            with contextlib.suppress(SignallingFailed):
                self._noted(placed, await self._post(offer, headers))
                return

    def _forget_soon(self, location: str) -> None:
        if location:
            self._spawn(self.forget(location))

    async def forget(self, location: str) -> None:
        """Let the server forget a call; whether it hears that does not matter."""
        with contextlib.suppress(SignallingFailed):
            await self._ask("DELETE", location, {})

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        token = self._config.token
        given = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            return await self._origin.request(method, path, {**headers, **given}, body)
        except _NO_ANSWER as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise SignallingFailed(f"no answer from {self._config.url}: {reason}") from error

    # -- the end ------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Write down what the next launch wants to know."""
        path = self._config.state
        if path is None:
            return
        now = asyncio.get_running_loop().time()
        text = self.wallet.to_text(now, time.time(), self._client.certificate)
        beside = path.with_name(f".{path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        beside.replace(path)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every call; afterwards no task and no socket is left. Harmless when repeated."""
        tasks = [*self._tasks, *([self._refreshing] if self._refreshing is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()
        self._origin.close()

    async def __aenter__(self) -> InstantCaller:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _restored(path: Path | None) -> tuple[Wallet, Certificate | None]:
    """Return what an earlier launch has left, or an empty wallet."""
    if path is None:
        return Wallet(), None
    try:
        text = path.read_text("ascii")
        return parse_wallet(text, asyncio.get_running_loop().time(), time.time())
    except FileNotFoundError:
        return Wallet(), None
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, InvalidConfig) as error:
        reason = error if isinstance(error, InvalidConfig) else "it is not text"
        raise InvalidConfig(
            f"{path} cannot be used: {reason}; remove it, and tickets are fetched again"
        ) from None


def _refusal(what: str, response: Response) -> str:
    """Return what a refusal says in one line, of no more than a few words."""
    said = response.text()
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        said = str(json.loads(said)["error"]["message"])
    line = " ".join(said.split())[:_MAX_SHOWN]
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    return f"the server refused the {what}: {response.status} {shown}".rstrip()
