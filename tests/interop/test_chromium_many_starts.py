"""A hundred starts in a row on a path that loses a tenth of all datagrams each way.

Every one connects, and nothing is left in either process. The same seeds lose the same datagrams
as long as both ends send the same number of them.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from interop.chromium import ChromiumConfig, ChromiumPage, ChromiumProcess
from interop.page_peer import PagePeer
from tests.interop.browsers import TALK, Desk, open_desk, prepared
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import END_S, other_tasks_end, run
from tests.interop.on_the_wire import check_attributes
from tests.interop.test_chromium_driver import group_members
from warp.io import Server, Session
from warp.peer import PeerConnection

pytestmark = [pytest.mark.interop, pytest.mark.slow]

STARTS = 50
"""In each of two rows: as Chromium is, and with all of WARP."""
LOSS = 0.1
LONGEST_START_S = 20.0
KEPT = (Session, PeerConnection)


async def one_start(page: ChromiumPage, desk: Desk, number: int) -> None:
    """Connect, exchange a message each way under loss, and hang up in turn."""
    desk.wire.lose(LOSS)
    async with asyncio.timeout(LONGEST_START_S):
        peer = await PagePeer.connect(page, "/offer", channels=[TALK])
        session, channel = desk.sessions[-1], desk.channels[-1]
        assert channel is not None
        await channel.opened()
        await peer.happened("open:talk", within_s=LONGEST_START_S)
        await peer.send("talk", f"{number} to us")
        channel.send(f"{number} to them")
        assert await anext(channel) == f"{number} to us"
        assert await peer.receive("talk") == [f"{number} to them"]
    # a goodbye that is lost is a matter of consent, which takes its 30 s
    desk.wire.lose(0.0)
    if number % 2:
        await peer.close()
    else:
        await session.close()
        await peer.happened("closed:talk", within_s=END_S)
        await peer.close()
    async with asyncio.timeout(END_S):
        assert await session.closed is None
    desk.sessions.clear()
    desk.channels.clear()
    desk.said.clear()


def udp_sockets(process: ChromiumProcess) -> int:
    """Return how many UDP sockets a browser holds, but for those of multicast DNS."""
    inodes = set()
    for table in ("udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if not fields[1].endswith(":14E9"):
                inodes.add(f"socket:[{fields[9]}]")
    held = 0
    for pid in group_members(process.pid):
        folder = Path(f"/proc/{pid}/fd")
        for name in os.listdir(folder) if folder.is_dir() else []:
            try:
                held += os.readlink(folder / name) in inodes
            except FileNotFoundError:
                # closed since
                continue
    return held


async def peer_connections(page: ChromiumPage) -> int:
    """Return how many connections the page's engine keeps after a garbage collection."""
    await page.command("HeapProfiler.collectGarbage")
    metrics = (await page.command("Performance.getMetrics"))["metrics"]
    return int({one["name"]: one["value"] for one in metrics}["RTCPeerConnections"])


def check_server(server: Server) -> None:
    """Nothing in it knows of a session any more: no name, no address, no timer, no tick."""
    driver = server._driver
    assert server.sessions == []
    assert server._by_ufrag == {}
    assert [port._routes for port in driver.ports.values() if port._routes] == []
    assert [entry for entry in driver._heap if entry[2].deadline is not None] == []
    assert not any(driver.clock._members)


async def row(process: ChromiumProcess) -> None:
    """A row of starts from one page."""
    async with process.attach() as browser, open_desk(prepare=prepared, seed=1) as desk:
        page = await browser.open(desk.site.url)
        await page.command("Performance.enable")
        await one_start(page, desk, 0)
        sockets, connections = udp_sockets(process), await peer_connections(page)
        for number in range(1, STARTS + 1):
            await one_start(page, desk, number)
        check_server(desk.server)
        assert await page.call("open") == 0
        assert page.errors == []
        async with asyncio.timeout(5):
            while await peer_connections(page) > connections:
                await asyncio.sleep(0.1)
            while udp_sockets(process) > sockets:
                await asyncio.sleep(0.1)
        assert check_attributes(desk.wire) > STARTS


def test_a_hundred_starts(chromium: Chromiums) -> None:
    rows: list[ChromiumConfig] = [DEFAULT, WARP]

    async def test() -> None:
        processes = [chromium(config) for config in rows]
        before = {id(thing) for thing in gc.get_objects() if isinstance(thing, KEPT)}
        async with asyncio.TaskGroup() as group:
            for process in processes:
                group.create_task(row(process))
        await other_tasks_end()
        gc.collect()
        kept = [t for t in gc.get_objects() if isinstance(t, KEPT) and id(t) not in before]
        assert kept == []

    run(test(), seconds=100)
