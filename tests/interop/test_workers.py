"""Three processes on one port: one is killed, keys change, one drains, and every call is accounted
for. Our own clients are in it, and Chromium with the module that the server sends to pages."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from typing import Any

import pytest

from interop.browser import Page
from tests.interop.chromium import DEFAULT, Chromiums
from tests.interop.loops import run
from tests.interop.workers import (
    HOST,
    Callers,
    Served,
    Talk,
    callers,
    served,
    together,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CALLS = 300
TABS = 5
ENDED_S = 90.0
"""Consent lasts 30 s (RFC 7675), once nobody answers any more."""
POLL_S = 0.25
CALL_FROM_PAGE = """(async (count) => {
  const { InstantConnect } = await import("/instant-connect.js");
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
  const [track] = microphone.getAudioTracks();
  const options = { bundleUrl: "/v1/instant", offerUrl: "/v1/realtime/calls" };
  globalThis.calls = [];
  const ids = [];
  for (let index = 0; index < count; index++) {
    const connect = new InstantConnect(options);
    await connect.prepare();
    let told;
    const created = new Promise((resolve) => (told = resolve));
    globalThis.calls.push(await connect.connect({ track, onMessage: told }));
    ids.push([JSON.parse(await created).session.id, globalThis.calls.at(-1).path]);
    connect.close();
  }
  return ids;
})(%d)"""
HANG_UP_IN_PAGE = "globalThis.calls.map(({ pc }) => pc.close()).length"
STATES_OF_PAGE = "globalThis.calls.map(({ pc }) => pc.connectionState)"


class Tabs:
    """Chromium's calls, in the order in which they were made."""

    def __init__(self, page: Page, made: list[list[str]]) -> None:
        self._page = page
        self.ids = [call_id for call_id, _ in made]
        self.paths = {path for _, path in made}

    def of(self, worker: int) -> list[bool]:
        """Which of them a worker has."""
        return [int(call_id[4:8], 16) == worker for call_id in self.ids]

    async def connected(self) -> list[bool]:
        states = await self._page.evaluate(STATES_OF_PAGE)
        return [state == "connected" for state in states]


async def until(condition: Any, timeout_s: float) -> None:
    """Wait for something that other processes bring about."""
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(POLL_S)


async def all_alive(talks: list[Talk]) -> bool:
    return all(await together([talk.alive() for talk in talks]))


async def a_worker_is_killed(site: Served, made: Callers, talks: list[Talk], victim: int) -> None:
    """Its calls are over, at once for who asks; another takes its place; the rest goes on."""
    said = len(site.lines)
    site.tell(victim, signal.SIGKILL)
    await site.line(rf"worker {victim} is gone \(it ended by SIGKILL\)", said)
    others = [talk for talk in talks if talk.worker != victim]
    assert await all_alive(others)
    await site.line(rf"worker {victim} serves", said)
    gone = [talk for talk in talks if talk.worker == victim]
    assert set(await together([made.stats(talk.call_id) for talk in gone])) == {404}
    assert set(await together([made.stats(talk.call_id) for talk in others[:30]])) == {200}
    assert await all_alive(others)


async def keys_are_rotated(site: Served, made: Callers) -> list[Talk]:
    """Tickets of before and of after begin calls; returns those."""
    before = [await made.bundle() for _ in range(4)]
    said = len(site.lines)
    site.tell(None, signal.SIGHUP)
    await site.line("other keys from now on", said)
    after = [await made.bundle() for _ in range(4)]
    assert {bundle.fingerprint for bundle in before}.isdisjoint(b.fingerprint for b in after)
    opened: list[Talk] = await together([made.open(bundle) for bundle in (*before, *after)])
    assert all(talk.is_instant for talk in opened)
    return opened


async def a_worker_drains(site: Served, made: Callers, talks: list[Talk], dry: int) -> list[Talk]:
    """It takes nothing new and keeps what it has; returns calls that came meanwhile."""
    said = len(site.lines)
    site.tell(dry, signal.SIGUSR1)
    await site.line(rf"no new calls for worker {dry}", said)
    opened: list[Talk] = await together([made.open() for _ in range(20)])
    assert dry not in {talk.worker for talk in opened}
    assert all(talk.is_instant for talk in opened)
    kept = [talk for talk in talks if talk.worker == dry]
    assert kept and await all_alive(kept)
    return opened


@pytest.mark.timeout(200)
def test_every_call_is_accounted_for(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            served(3) as site,
            callers(site) as made,
        ):
            talks: list[Talk] = await together([made.open() for _ in range(CALLS)])
            page = await browser.open(site.url)
            tabs = Tabs(page, await page.evaluate(CALL_FROM_PAGE % TABS, timeout_s=60))
            # one session each, by its first datagram, and its offer found it wherever both came
            assert len({*(talk.call_id for talk in talks), *tabs.ids}) == CALLS + TABS
            assert all(talk.is_instant for talk in talks)
            assert set(made.statuses) == {"attached"}
            assert tabs.paths <= {"instant", "attached"}
            assert sum((await made.counts("proven_total")).values()) == CALLS + TABS
            by_worker = Counter(talk.worker for talk in talks)
            assert sorted(by_worker) == [0, 1, 2]

            victim, dry = [number for number, _ in by_worker.most_common(2)]
            await a_worker_is_killed(site, made, talks, victim)
            others = [talk for talk in talks if talk.worker != victim]
            rotated = await keys_are_rotated(site, made)
            late = await a_worker_drains(site, made, talks, dry)

            # whoever was with the one that was killed notices, and nobody else
            async def lost() -> bool:
                ended = [talk for talk in talks if talk.session.closed.done()]
                return {id(t) for t in ended} == {id(t) for t in talks if t.worker == victim}

            async def tabs_lost() -> bool:
                return await tabs.connected() == [not theirs for theirs in tabs.of(victim)]

            await until(lost, ENDED_S)
            await until(tabs_lost, ENDED_S)
            living = [*others, *rotated, *late]
            assert await all_alive(living)
            assert await tabs.connected() == [not theirs for theirs in tabs.of(victim)]
            sessions = await made.counts("sessions")
            assert sessions.pop("confirmed") == len(living) + tabs.of(victim).count(False)
            assert set(sessions.values()) == {0}
            ids = [talk.call_id for talk in (*talks, *rotated, *late)]
            assert len(set(ids)) == len(ids)
            said = len(site.lines)
            # a page that is merely closed says no goodbye, and its calls last 30 s more
            assert await page.evaluate(HANG_UP_IN_PAGE) == TABS
            await made.client.close()
            # the one that drained has nobody left, and makes place for a fresh one
            await site.line(rf"worker {dry} serves", said)
            await page.close()
            took_s = await site.end()
            assert took_s < 5.0  # 1 s, and a machine that has other things to do
            assert not site.left()
            free = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            free.bind((HOST, site.udp_port))
            free.close()

    run(test(), seconds=170.0)
