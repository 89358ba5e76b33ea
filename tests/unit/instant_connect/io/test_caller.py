"""A caller that knows a server's address: bundles, calls either way, and servers that fail."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from instant_connect.io import (
    CallerConfig,
    CallInfo,
    InstantCaller,
    InstantServer,
    SignallingFailed,
    listen_instant,
    signalling_app,
)
from instant_connect.io import Path as Way
from tests.unit.instant_connect.io.instant_site import CLIENT, until
from tests.unit.instant_connect.io.site import HOST
from tests.unit.tools.web_server import web_server
from warp.errors import InvalidConfig
from warp.io import Session, listen

TOKEN = "a-token-that-nobody-else-has"


class Served:
    """An echo of nothing, over real HTTP. `refuse` makes signalling fail."""

    def __init__(self, server: InstantServer) -> None:
        self.server = server
        self.url = ""
        self.answered: list[tuple[Session, CallInfo]] = []
        self.asked: list[str] = []
        self.refuses: set[str] = set()

    def accept(self, session: Session, info: CallInfo) -> None:
        self.answered.append((session, info))

    def authorize(self, request: HTTPConnection) -> bool:
        name = f"{request.scope['method']} {request.url.path}"
        self.asked.append(name)
        if any(name.startswith(refused) for refused in self.refuses):
            raise ConnectionError("the API is down")
        return request.headers.get("authorization") == f"Bearer {TOKEN}"

    def config(self, **options: Any) -> CallerConfig:
        return CallerConfig(url=self.url, token=TOKEN, client=CLIENT, **options)


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    async with await listen_instant(HOST) as server:
        site = Served(server)
        app = signalling_app(server, accept=site.accept, authorize=site.authorize)
        async with web_server(app) as site.url:
            yield site


def test_calls_by_bundles_that_are_kept_fresh() -> None:
    async def story() -> None:
        async with served() as site, InstantCaller(site.config(dcid=4)) as caller:
            await caller.prepare()
            await caller.prepare()
            assert (len(caller.wallet), site.asked) == (3, ["GET /v1/instant"])
            call = await caller.call()
            assert call.path in (Way.INSTANT, Way.ATTACHED)
            await until(lambda: call.path is Way.ATTACHED)
            await until(lambda: site.answered)
            [(session, info)] = site.answered
            assert call.location.endswith(info.id)
            assert len(site.server.sessions) == 1
            await call.hang_up()
            assert await asyncio.wait_for(session.closed, 5) is None
            assert site.asked[-1] == f"DELETE {call.location}"
            # a ticket was used: another bundle comes soon
            await until(lambda: len(caller.wallet) == 3)

    asyncio.run(story())


def test_a_caller_without_tickets_is_signalled() -> None:
    async def story() -> None:
        async with served() as site, InstantCaller(site.config()) as caller:
            call = await caller.call()
            assert call.path is Way.SIGNALLED
            await until(lambda: site.answered)
            assert call.location.endswith(site.answered[0][1].id)
            await call.hang_up()

    asyncio.run(story())


def test_tickets_of_a_server_that_is_no_more_cost_nothing() -> None:
    async def story() -> None:
        async with served() as old:
            caller = InstantCaller(old.config())
            await caller.prepare()
        async with served() as site:
            async with InstantCaller(site.config()) as fresh:
                fresh.wallet.put(caller.wallet._bundle, asyncio.get_running_loop().time())  # type: ignore[arg-type]
                call = await fresh.call()
                assert call.path is Way.SIGNALLED
                await until(lambda: len(site.answered) == 1)
                # the others of that bundle are worth no attempt either
                assert len(fresh.wallet) == 0
                await fresh.prepare()
                assert (await fresh.call()).path is not Way.SIGNALLED
                await call.hang_up()
            await caller.close()

    asyncio.run(story())


@pytest.mark.parametrize(("lifetime_s", "count"), [(0.0, 3), (3600.0, 1)], ids=["each", "an hour"])
def test_a_certificate_is_used_for_so_long_that_calls_may_be_linked(
    lifetime_s: float, count: int, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"

    async def story() -> None:
        used = set()
        async with served() as site:
            for _ in range(3):
                config = site.config(state=state, certificate_lifetime_s=lifetime_s)
                async with InstantCaller(config) as caller:
                    await caller.prepare()
                    call = await caller.call()
                    assert call.path is not Way.SIGNALLED
                    used.add(caller._client.certificate.der)
                    await call.hang_up()
            assert len(used) == count
            # one of which nobody knows how old it is, is too old
            kept = json.loads(state.read_text())
            del kept["certificate_made_at"]
            state.write_text(json.dumps(kept))
            async with InstantCaller(site.config(state=state)) as caller:
                await (await caller.call()).hang_up()
                assert caller._client.certificate.der not in used

    asyncio.run(story())


@pytest.mark.parametrize(
    ("fallback", "path"),
    [
        ("/whip", "/whip"),
        ("whip", "/whip"),
        ("", "/v1/realtime/calls"),
        ("https://elsewhere.example/whip", "/v1/realtime/calls"),
    ],
)
def test_offers_go_where_the_bundle_says_and_tokens_to_no_other_server(
    fallback: str, path: str
) -> None:
    async def story() -> None:
        async with served() as site, InstantCaller(site.config()) as caller:
            await caller.prepare()
            caller.wallet.fallback = fallback
            call = await caller.call()
            await until(lambda: call.path is Way.ATTACHED)
            assert f"POST {path}" in site.asked
            assert call.location.startswith(f"{path}/rtc_")

    asyncio.run(story())


@pytest.mark.slow
def test_an_offer_that_is_not_taken_is_posted_again_while_the_call_goes_on() -> None:
    async def story() -> None:
        async with served() as site, InstantCaller(site.config()) as caller:
            await caller.prepare()
            site.refuses = {"POST"}
            call = await caller.call()
            assert (call.path, call.location) == (Way.INSTANT, "")
            await until(lambda: site.answered)
            site.refuses = set()
            await until(lambda: call.path is Way.ATTACHED)
            assert call.location.endswith(site.answered[0][1].id)
            assert len(site.server.sessions) == 1

    asyncio.run(story())


def test_a_launch_finds_what_the_one_before_has_left(tmp_path: Path) -> None:
    state = tmp_path / "state.json"

    async def story() -> None:
        async with served() as site:
            async with InstantCaller(site.config(state=state)) as first:
                await first.prepare()
                await (await first.call()).hang_up()
                certificate = first._client.certificate
            assert stat.S_IMODE(state.stat().st_mode) == 0o600
            site.asked.clear()
            async with InstantCaller(site.config(state=state)) as second:
                assert second._client.certificate.der == certificate.der
                assert len(second.wallet) >= 2
                assert second.wallet.rtt_s is not None
                call = await second.call()
                assert call.path is not Way.SIGNALLED
                await until(lambda: call.path is Way.ATTACHED)
                assert "GET /v1/instant" not in site.asked

    asyncio.run(story())


@pytest.mark.parametrize("token", ["SECRET\n", "SECRET\u00e9", "SECRET\x00"])
def test_a_token_that_no_header_can_carry_is_not_repeated(token: str) -> None:
    with pytest.raises(InvalidConfig, match="a token is ASCII") as caught:
        CallerConfig(url="http://127.0.0.1:1", token=token)
    assert "SECRET" not in str(caught.value)


def test_a_state_that_cannot_be_read_is_an_error_without_its_secrets(tmp_path: Path) -> None:
    async def story() -> None:
        state = tmp_path / "state.json"
        for content in ("", "{}", "\u00e9", json.dumps({"v": 1, "private_key": "SECRET"})):
            state.write_text(content)
            with pytest.raises(InvalidConfig) as caught:
                InstantCaller(CallerConfig(url="http://127.0.0.1:1", state=state))
            assert "SECRET" not in str(caught.value)
            assert f"{state} cannot be used" in str(caught.value)
            assert "remove it" in str(caught.value)
        with pytest.raises(InvalidConfig, match="cannot read"):
            InstantCaller(CallerConfig(url="http://127.0.0.1:1", state=tmp_path))

    asyncio.run(story())


def test_a_server_that_refuses_says_why_and_no_secret_is_told() -> None:
    async def story() -> None:
        async with served() as site:
            wrong = CallerConfig(url=site.url, token="WRONG-TOKEN", client=CLIENT)
            async with InstantCaller(wrong) as caller:
                for ask in (caller.prepare, caller.call):
                    with pytest.raises(SignallingFailed, match="401 send a valid token") as caught:
                        await ask()
                    assert "WRONG-TOKEN" not in str(caught.value)
                assert "WRONG-TOKEN" not in repr(wrong)
            site.server.drain()
            async with InstantCaller(site.config()) as caller:
                with pytest.raises(SignallingFailed, match=r"503 .*no new sessions"):
                    await caller.prepare()

    asyncio.run(story())


def test_nobody_there_and_servers_without_bundles() -> None:
    async def story() -> None:
        async with InstantCaller(CallerConfig(url="http://127.0.0.1:1")) as caller:
            with pytest.raises(SignallingFailed, match="no answer from"):
                await caller.prepare()
        async with await listen(HOST) as plain:
            app = signalling_app(plain, accept=lambda session, info: None)
            async with web_server(app) as url:
                config = CallerConfig(url=url, client=CLIENT)
                async with InstantCaller(config) as caller:
                    with pytest.raises(SignallingFailed, match=r"404 .*by signalling only"):
                        await caller.prepare()
                    call = await caller.call()
                    assert call.path is Way.SIGNALLED
                    await call.hang_up()

    asyncio.run(story())


def test_an_application_that_is_mounted_below_a_path() -> None:
    async def story() -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        async with await listen_instant(HOST) as server:
            inner = signalling_app(server, accept=lambda session, info: None)
            async with web_server(Starlette(routes=[Mount("/voice", app=inner)])) as url:
                config = CallerConfig(url=f"{url}/voice/", client=CLIENT)
                async with InstantCaller(config) as caller:
                    await caller.prepare()
                    call = await caller.call()
                    await until(lambda: call.path is Way.ATTACHED)
                    assert call.location.startswith("/voice/v1/realtime/calls/rtc_")
                    await call.hang_up()
                    assert len(server.sessions) == 0

    asyncio.run(story())
