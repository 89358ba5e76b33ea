"""What may go wrong with a call that begins with its first packet, in browsers.

Chromium takes a provisional answer, Firefox needs a second connection: both are asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from interop.browser import Browser, Page
from interop.instant import InstantSite, instant_site
from tests.interop.chromium import DEFAULT
from tests.interop.loops import run
from tests.unit.instant_connect.door import NOW, make_host

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CALLS = "/v1/realtime/calls"
OPTIONS = {"offerUrl": CALLS, "bundleUrl": "/v1/instant"}
Attach = Callable[[], AbstractAsyncContextManager[Browser]]


@pytest.fixture(params=["chromium", "firefox"])
def attach(request: pytest.FixtureRequest) -> Iterator[Attach]:
    """How to connect to either browser; ends the test when that one is absent."""
    found = request.getfixturevalue(request.param)
    yield (lambda: found(DEFAULT).attach()) if request.param == "chromium" else found.attach


@asynccontextmanager
async def page_at(attach: Attach, **options: Any) -> AsyncIterator[tuple[InstantSite, Page]]:
    """A page that is ready for a call, and the site that it came from."""
    async with instant_site() as site, attach() as browser:
        page = await browser.open(site.page)
        assert await page.call("prepare", {**OPTIONS, **options}) == ""
        yield site, page


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.02)


async def nothing_is_left(site: InstantSite, page: Page) -> None:
    assert await page.call("open") == 0
    await until(lambda: not site.server.server.sessions)


async def path_becomes(page: Page, path: str) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while (found := await page.call("look"))["path"] != path:
            await asyncio.sleep(0.05)
    return dict(found)


def no_offers(status: int) -> Callable[[str, str], int | None]:
    return lambda method, path: status if method == "POST" and path == CALLS else None


def test_a_call_lives_while_signalling_fails_and_is_joined_later(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach) as (site, page):
            site.far.refuse = no_offers(500)
            await page.call("start")
            found = await page.call("look")
            assert (found["path"], found["location"]) == ("instant", None)
            assert len(site.begun) == 1
            site.far.refuse = None
            found = await path_becomes(page, "attached")
            assert found["location"].startswith(site.url)
            assert found["connection"] == "connected"
            assert len(site.begun) == 1
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


def test_a_call_lives_when_signalling_refuses_it_for_good(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach) as (site, page):
            site.far.refuse = no_offers(403)
            await page.call("start")
            await until_stable(page)
            found = await page.call("look")
            assert (found["path"], found["location"]) == ("instant", None)
            assert found["connection"] == "connected"
            assert await page.call("open") == 1  # who needed a second one has closed it
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


async def until_stable(page: Page) -> None:
    async with asyncio.timeout(10):
        while (await page.call("look"))["signaling"] != "stable" or await page.call("open") > 1:
            await asyncio.sleep(0.05)


def test_signalling_that_is_late_joins_a_call_that_runs(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach) as (site, page):
            site.far.hold = asyncio.Event()
            await page.call("start")
            assert (await page.call("look"))["path"] == "instant"
            site.far.hold.set()
            await path_becomes(page, "attached")
            assert len(site.begun) == 1
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


def test_a_call_that_was_joined_restarts_ice_at_its_address(attach: Attach) -> None:
    """Though the offer that joined it was another connection's."""

    async def test() -> None:
        async with page_at(attach) as (site, page):
            await page.call("start")
            before = (await path_becomes(page, "attached"))["received"]
            ufrag = await page.call("restart")
            assert ufrag not in (site.begun[0].ufrag, "")
            await until(lambda: ufrag in site.begun[0].session.peer.local_ufrags)
            async with asyncio.timeout(10):
                while (await page.call("look"))["received"] < before + 50:
                    await asyncio.sleep(0.1)
            assert (await page.call("look"))["connection"] == "connected"
            assert len(site.begun) == 1
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


def test_who_is_connected_is_not_changed_for_another(attach: Attach) -> None:
    """Signalling that has no part in the attempt answers anew, too late: nobody takes that up."""

    async def test() -> None:
        async with page_at(attach) as (site, page):
            site.far.hold = asyncio.Event()
            await page.call("start")
            # every ticket is forgotten with its keys: what is asked about it now is answered anew
            site.server.host.entrance.keyring = make_host().entrance.keyring
            site.far.hold.set()
            await until_stable(page)
            found = await page.call("look")
            assert (found["path"], found["connection"]) == ("instant", "connected")
            assert len(site.begun) == 1
            assert site.server.stats()["stale"] != {}
            await until(lambda: site.server.stats()["held_offers"] == 0)
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


def test_where_nothing_comes_through_a_call_ends_and_says_so(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach, timeoutMs=2500) as (site, page):
            site.far.wire.rule = lambda rung: None
            failure = await page.call("fail")
            assert (failure["name"], failure["kind"]) == ("InstantError", "no-path")
            assert "UDP" in failure["message"]
            await nothing_is_left(site, page)
            assert site.begun == []

    run(test())


def test_a_server_that_is_full_says_so_soon(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach) as (site, page):
            site.far.wire.rule = lambda rung: None
            site.far.refuse = no_offers(503)
            failure = await page.call("fail")
            assert (failure["kind"], failure["status"]) == ("refused", 503)
            await nothing_is_left(site, page)

    run(test())


def test_clicks_at_once_take_a_ticket_each(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach) as (site, page):
            paths = await page.call("startMany", 2)
            assert set(paths) <= {"instant", "attached"}
            assert len(site.begun) == 2
            assert len({arrival.ufrag for arrival in site.begun}) == 2
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


def test_without_a_ticket_left_a_call_is_signalled(attach: Attach) -> None:
    async def test() -> None:
        async with instant_site() as site, attach() as browser:
            site.far.edit_bundle = lambda bundle: bundle["tickets"].__delitem__(slice(1, None))
            page = await browser.open(site.page)
            assert await page.call("prepare", OPTIONS) == ""
            paths = await page.call("startMany", 2)
            assert "signalled" in paths
            assert len(site.begun) == 2
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


def test_given_up_in_the_middle_nothing_is_left(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach) as (site, page):
            assert await page.call("giveUp") == "enough"
            await nothing_is_left(site, page)

    run(test())


def test_a_microphone_that_is_refused_while_the_call_begins(attach: Attach) -> None:
    async def test() -> None:
        async with page_at(attach) as (site, page):
            site.far.wire.rule = lambda rung: None
            failure = await page.call("refuse")
            assert failure["message"] == "denied"
            await nothing_is_left(site, page)

    run(test())


def test_a_server_without_tickets_answers_offers(attach: Attach) -> None:
    async def test() -> None:
        async with instant_site() as site, attach() as browser:
            site.far.refuse = lambda method, path: 404 if path == "/v1/instant" else None
            page = await browser.open(site.page)
            problem = await page.call("prepare", OPTIONS)
            assert problem.startswith("no tickets: The server answered 404")
            await page.call("start")
            assert (await page.call("look"))["path"] == "signalled"
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


@pytest.mark.parametrize(
    ("rtc", "problem"),
    [
        ({"iceTransportPolicy": "relay"}, "calls are relayed"),
        ({"iceServers": [{"urls": ["stun:a", "turn:b"]}]}, "calls are relayed"),
        ({"iceServers": [{"urls": "stun:a"}]}, ""),
    ],
)
def test_who_needs_a_relay_is_signalled(attach: Attach, rtc: dict[str, Any], problem: str) -> None:
    async def test() -> None:
        async with instant_site() as site, attach() as browser:
            page = await browser.open(site.page)
            assert await page.call("prepare", {**OPTIONS, "rtc": rtc}) == problem

    run(test())


def test_without_udp_a_call_is_signalled_until_there_is_a_network(attach: Attach) -> None:
    async def test() -> None:
        async with instant_site() as site, attach() as browser:
            page = await browser.open(site.page)
            found = await page.call("prepareBlind", OPTIONS)
            assert found == ["this browser sends nothing over UDP", ""]
            await page.call("start")
            await path_becomes(page, "attached")
            await page.call("end")
            await nothing_is_left(site, page)

    run(test())


@pytest.mark.parametrize(
    ("lives", "seen"),
    [
        # fresh; another with the network; none more for being looked at too soon
        ([600], [True, "", 1, 2, 2, 2]),
        # two seconds before it expires a ticket is as good as gone
        ([2], [False, "the tickets have expired", 1, 2, 2, 2]),
        ([{"status": 401}, 600], [False, "no tickets: The server answered 401: ", 1, 2, 2, 2]),
        ([{"status": 503}, 600], [False, "no tickets: The server answered 503: ", 1, 2, 2, 2]),
    ],
    ids=["fresh", "expired", "not for us", "not now"],
)
def test_when_tickets_are_fetched(attach: Attach, lives: list[Any], seen: list[Any]) -> None:
    bundle = make_host().bundle(NOW).to_json()

    async def test() -> None:
        async with instant_site() as site, attach() as browser:
            page = await browser.open(site.page)
            found = await page.evaluate(f"interop.watchTickets({bundle}, {lives!r})")
            assert found[0] == "prepare() has not been called"
            assert found[1:] == seen

    run(test())
