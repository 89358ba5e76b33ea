"""Many pages of one Chromium at one server of ours; and a server that goes and comes back."""

from __future__ import annotations

import asyncio

import pytest

from interop.page_peer import PagePeer
from tests.interop.browsers import HOST, TALK, Desk, open_desk, prepared
from tests.interop.chromium import DEFAULT, Chromiums
from tests.interop.loops import END_S, run, sound
from warp.io import Channel, Server, Session, listen

pytestmark = [pytest.mark.interop, pytest.mark.slow]


MICROPHONES = 16
"""How often Chromium opens a device for input at a time; other tabs speak from a file."""


async def call_from(browser, desk: Desk, number: int) -> tuple[PagePeer, Session, Channel]:
    """Call from a new tab and exchange the tab's name."""
    name = f"tab {number}"
    page = await browser.open(desk.site.url)
    audio = "microphone" if number < MICROPHONES else {"play": "/speech.wav"}
    peer = await PagePeer.connect(page, "/offer", channels=[TALK], audio=audio)
    await peer.say()
    ufrag = (await peer.states())["remote"]
    [at] = [n for n, (_, answer) in enumerate(desk.said) if same_session(answer, ufrag or "")]
    session, channel = desk.sessions[at], desk.channels[at]
    assert channel is not None
    await peer.happened("open:talk", within_s=15)
    await peer.send("talk", name)
    assert await anext(channel) == name
    channel.send(f"to {name}")
    assert await peer.receive("talk") == [f"to {name}"]
    return peer, session, channel


def same_session(answer: str, remote: str) -> bool:
    """Whether a page's remote description is this answer of ours."""
    return next(line for line in answer.splitlines() if line.startswith("a=ice-ufrag:")) in remote


@pytest.mark.parametrize("count", [2, 20])
def test_tabs(chromium: Chromiums, count: int) -> None:
    """All talk at once; each is heard and hears for itself; they hang up one by one."""

    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser, open_desk(prepare=prepared) as desk:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(call_from(browser, desk, n)) for n in range(count)]
            calls = [task.result() for task in tasks]
            assert len({id(session) for _, session, _ in calls}) == count
            for _, session, _ in calls:
                session.audio_in.take()
                await sound(session)
            flows = {session.stats()["flow"] for _, session, _ in calls}
            assert len(flows) == count
            for left, (peer, session, _) in zip(reversed(range(count)), calls, strict=True):
                await peer.close()
                async with asyncio.timeout(END_S):
                    assert await session.closed is None
                assert len(desk.server.sessions) == left
            assert all(peer.page.errors == [] for peer, _, _ in calls)

    run(test(), seconds=60)


async def restart(desk: Desk) -> Server:
    """Put a server that knows nothing on the port of the one that was."""
    await desk.server.close()
    desk.server = await listen(HOST, desk.server.port, trace=desk.trace)
    return desk.server


def test_a_server_is_restarted(chromium: Chromiums) -> None:
    """It says goodbye; the page sees its channel close and calls again."""

    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser, open_desk(prepare=prepared) as desk:
            peer, session, _ = await call_from(browser, desk, 0)
            server = await restart(desk)
            assert await session.closed is None
            await peer.happened("closed:talk", within_s=END_S)
            # the page has not let go yet: its checks come to a server that knows nothing of them
            again = await PagePeer.connect(peer.page, "/offer", channels=[TALK])
            await again.happened("open:talk")
            await again.send("talk", "after")
            channel = desk.channels[-1]
            assert channel is not None
            assert await anext(channel) == "after"
            assert server.sessions == [desk.sessions[-1]]
            await peer.close()
            await again.close()
            await desk.sessions[-1].closed
            assert server.sessions == []
            await server.close()

    run(test())
