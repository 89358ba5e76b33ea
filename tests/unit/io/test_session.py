"""A session from connect to its end, on real sockets; every way of ending it leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.io.support import HOST, LOOPBACKS, OPUS, Call, open_call, play, shifted, turns
from warp.errors import ConsentLost, HandshakeTimedOut, InternalError, InvalidState, UsageError
from warp.io import ChannelClosedError, ClientConfig, Session
from warp.io.session import MAX_UNCLAIMED
from warp.peer import ConnectionState

Story = Callable[[Call], Awaitable[None]]


def call(story: Story, **options: Any) -> None:
    """Run a story with a connected call, close what it leaves open, and look for left-overs."""

    async def run() -> None:
        made = await open_call(**options)
        try:
            await story(made)
        finally:
            await made.close()
        assert_nothing_left(made)

    play(run)


def assert_nothing_left(made: Call) -> None:
    server = made.server
    assert server.sessions == [] and made.client.sessions == []
    assert dict(server._by_ufrag) == {}
    for driver in (server._driver, made.client._driver):
        assert driver.ports == {} and driver._heap == [] and driver.touched == []
        assert not any(driver.clock._members)
    for session in (made.local, made.remote):
        assert session.routes == [] and session.closed.done()


# -- a call ------------------------------------------------------------------------------------


def test_audio_and_channels_go_both_ways() -> None:
    async def story(made: Call) -> None:
        ours = made.local.channel("x", negotiated=True, stream_id=0)
        theirs = made.remote.channel("x", negotiated=True, stream_id=0)
        await asyncio.gather(ours.opened(), theirs.opened())
        ours.send("text")
        theirs.send(b"bytes")
        assert await anext(theirs) == "text"
        assert await anext(ours) == b"bytes"
        made.local.audio_out.send(OPUS)
        made.remote.audio_out.send(OPUS + b"!")
        assert (await anext(made.remote.audio_in)).payload == OPUS
        assert (await anext(made.local.audio_in)).payload == OPUS + b"!"
        assert made.local.state is ConnectionState.CONNECTED
        assert made.local.stats()["state"] == "connected"

    call(story)


def test_channels_that_the_peer_opens_are_iterated() -> None:
    async def story(made: Call) -> None:
        opened = made.remote.channels()
        for label in ("a", "b"):
            made.local.channel(label)
        assert {(await anext(opened)).label, (await anext(opened)).label} == {"a", "b"}
        rest = asyncio.ensure_future(collect(opened))
        await turns()
        await made.local.close()
        assert await asyncio.wait_for(rest, 1) == []

    call(story)


async def collect(source: Any) -> list[Any]:
    return [item async for item in source]


@pytest.mark.parametrize("negotiated", [True, False])
def test_what_was_sent_before_the_end_is_read_after_it(negotiated: bool) -> None:
    """Messages, and the channel they came on, that arrive together with the goodbye."""

    async def story(made: Call) -> None:
        options: Any = {"negotiated": True, "stream_id": 0} if negotiated else {}
        ours = made.local.channel("x", **options)
        if negotiated:
            theirs = made.remote.channel("x", **options)
            reader = asyncio.ensure_future(collect(theirs))
        await ours.opened()
        for number in range(5):
            ours.send(str(number))
        await turns(1)
        await made.local.close()
        await made.remote.closed
        if not negotiated:
            [theirs] = await collect(made.remote.channels())
            reader = asyncio.ensure_future(collect(theirs))
        assert await asyncio.wait_for(reader, 1) == list("01234")

    call(story)


def test_an_abandoned_iteration_over_channels_leaves_no_task() -> None:
    async def story(made: Call) -> None:
        before = asyncio.all_tasks()
        reader = asyncio.ensure_future(collect(made.remote.channels()))
        await turns()
        reader.cancel()
        await asyncio.wait({reader})
        assert asyncio.all_tasks() == before
        made.local.channel("late")
        assert (await anext(made.remote.channels())).label == "late"

    call(story)


def test_channels_that_nobody_iterates_over_are_closed() -> None:
    class Unwanted:
        closed = 0

        def close(self) -> None:
            self.closed += 1

    async def story(made: Call) -> None:
        channel: Any = Unwanted()
        for _ in range(MAX_UNCLAIMED + 3):
            made.remote._announce(channel)
        assert channel.closed == 3
        assert made.remote.channels().unread == MAX_UNCLAIMED

    call(story)


@pytest.mark.parametrize("host", LOOPBACKS)
def test_both_families(host: str) -> None:
    async def story(made: Call) -> None:
        flow = made.remote.stats()["flow"]
        assert (flow.local[0], flow.remote[0]) == (host, host)
        made.local.audio_out.send(OPUS)
        assert (await anext(made.remote.audio_in)).payload == OPUS
        assert all(port.unroutable == 0 for port in made.server._driver.ports.values())

    call(story, host=host)


def test_sender_reports_tell_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warp.io.credentials.time.time", lambda: 1_700_000_000.0)

    async def story(made: Call) -> None:
        now = shifted().time()
        for session in (made.local, made.remote):
            offset = session.peer._config.wall_offset_s
            assert now + offset == pytest.approx(1_700_000_000.0, abs=5)

    call(story)


# -- every way of closing ----------------------------------------------------------------------


class Waiters:
    """Tasks that wait for everything a session can be waited for."""

    def __init__(self, session: Session) -> None:
        self.channel = session.channel("waiting", negotiated=True, stream_id=9)
        self.tasks = {
            name: asyncio.ensure_future(work)
            for name, work in {
                "audio": collect(session.audio_in),
                "messages": collect(self.channel),
                "channels": collect(session.channels()),
                "candidates": collect(session.local_candidates()),
                "closed": self._wait(session.closed),
            }.items()
        }

    @staticmethod
    async def _wait(ending: Any) -> Any:
        return await ending

    async def results(self) -> dict[str, Any]:
        done = await asyncio.wait_for(asyncio.gather(*self.tasks.values()), 1)
        return dict(zip(self.tasks, done, strict=True))


NOTHING = {"audio": [], "messages": [], "channels": [], "candidates": [], "closed": None}


async def close_local(made: Call) -> None:
    await made.local.close()


async def close_remote(made: Call) -> None:
    await made.remote.close()


async def close_client(made: Call) -> None:
    await made.client.close()


async def close_server(made: Call) -> None:
    await made.server.close()


@pytest.mark.parametrize("end", [close_local, close_remote, close_client, close_server])
def test_whoever_waits_on_either_side_is_released(end: Story) -> None:
    async def story(made: Call) -> None:
        local, remote = Waiters(made.local), Waiters(made.remote)
        await asyncio.gather(local.channel.opened(), remote.channel.opened())
        await end(made)
        assert await local.results() == NOTHING
        assert await remote.results() == NOTHING
        assert made.local.state is made.remote.state is ConnectionState.CLOSED
        with pytest.raises(ChannelClosedError):
            await local.channel.opened()
        with pytest.raises(UsageError):
            local.channel.send("too late")
        with pytest.raises(UsageError):
            made.local.audio_out.send(OPUS)
        with pytest.raises(InvalidState):
            made.local.channel("too late")

    call(story)


def test_closing_twice_and_from_two_tasks_is_harmless() -> None:
    async def story(made: Call) -> None:
        await asyncio.gather(made.local.close(), made.local.close(), made.remote.close())
        await made.local.close()
        await made.server.close()
        await made.server.close()

    call(story)


def test_a_drain_wakes_at_the_end() -> None:
    async def story(made: Call) -> None:
        ours = made.local.channel("x", negotiated=True, stream_id=0)
        made.remote.channel("x", negotiated=True, stream_id=0)
        await ours.opened()
        # nobody reads on the other side: it no longer hears us at all
        for port in made.server._driver.ports.values():
            port.sock.close()
        while ours.buffered_amount < 2 * 1024 * 1024:
            ours.send(bytes(100_000))
        draining = asyncio.ensure_future(ours.drain())
        await turns()
        assert not draining.done()
        await made.local.close()
        await asyncio.wait_for(draining, 1)

    call(story)


def test_a_call_that_is_closed_before_it_connects() -> None:
    async def story(made: Call) -> None:
        waiting = asyncio.ensure_future(made.remote.connected())
        await turns(1)
        await made.remote.close()
        with pytest.raises(UsageError, match="before it connected"):
            await waiting
        await made.local.close()

    call(story, connected=False)


def test_cancelling_the_wait_for_the_end_harms_nothing() -> None:
    async def story(made: Call) -> None:
        waiting = asyncio.ensure_future(Waiters._wait(made.local.closed))
        await turns()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled() and not made.local.closed.done()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Waiters._wait(made.local.closed), 0.001)
        seen: list[Any] = []
        made.local.closed.add_done_callback(lambda ending: seen.append(ending.result()))
        await made.local.close()
        await turns()
        assert seen == [None]
        assert await made.local.closed is None

    call(story)


def test_cancelling_a_close_closes_all_the_same() -> None:
    async def story(made: Call) -> None:
        closing = asyncio.ensure_future(made.local.close())
        closing.cancel()
        await asyncio.wait({closing})
        await made.local.close()

    call(story)


# -- ends that nobody asked for ----------------------------------------------------------------


def test_a_client_that_vanishes_is_given_up() -> None:
    """RFC 7675 section 5.1: consent expires 30 s after the last request."""

    async def story(made: Call) -> None:
        waiters = Waiters(made.remote)
        vanish(made)
        await shifted().pass_time(29)
        assert not made.remote.closed.done()
        await shifted().pass_time(10)
        results = await waiters.results()
        assert isinstance(results.pop("closed"), ConsentLost)
        assert results == {name: value for name, value in NOTHING.items() if name != "closed"}
        assert made.server.sessions == [] and made.server._driver._heap == []
        assert made.remote.state is ConnectionState.FAILED

    call(story)


def vanish(made: Call) -> None:
    """Let the client's process disappear: its sockets are gone, nothing is said."""
    for port in list(made.client._driver.ports.values()):
        made.client._driver.remove_port(port)


def test_a_server_that_vanishes_is_given_up() -> None:
    async def story(made: Call) -> None:
        for port in list(made.server._driver.ports.values()):
            port.sock.close()
        await shifted().pass_time(60)
        assert isinstance(await made.local.closed, ConsentLost)
        assert made.client.sessions == [] and made.client._driver.ports == {}

    call(story)


def test_a_call_that_never_comes_about_ends_at_its_deadline() -> None:
    async def story(made: Call) -> None:
        vanish(made)
        for port in list(made.server._driver.ports.values()):
            port.sock.close()
        await shifted().pass_time(31)
        for session in (made.local, made.remote):
            assert session.closed.done() and session.closed.result() is not None
        with pytest.raises(type(made.local.closed.result())):
            await made.local.connected()

    call(story, connected=False)


def test_waiting_for_a_connection_has_a_limit() -> None:
    async def story(made: Call) -> None:
        vanish(made)
        with pytest.raises(HandshakeTimedOut, match=r"0\.001 s"):
            await made.local.connected(0.001)
        assert not made.local.closed.done()

    call(story, connected=False)


def test_a_bug_of_ours_ends_one_session_with_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[Any] = []

    async def story() -> None:
        made = await open_call()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        waiters = Waiters(made.remote)
        await waiters.channel.opened()
        receive_events = Session.receive_events

        def fail(session: Session, now: float) -> None:
            if session is made.remote:
                raise ZeroDivisionError("a bug")
            receive_events(session, now)

        monkeypatch.setattr(Session, "receive_events", fail)
        made.local.audio_out.send(OPUS)
        results = await waiters.results()
        error = results.pop("closed")
        assert isinstance(error, InternalError) and "a bug" in str(error)
        assert results == {name: value for name, value in NOTHING.items() if name != "closed"}
        assert made.server.sessions == []
        # the server serves on
        other = await open_on(made)
        await other.connected(5)
        await made.close()

    play(story)
    assert [type(error) for error in reported] == [ZeroDivisionError]


async def open_on(made: Call) -> Session:
    """Place another call to the same server."""

    async def signal(offer: str) -> str:
        return made.server.accept_offer(offer).answer

    return await made.client.connect(signal, config=ClientConfig(host=HOST))


# -- negotiating again -------------------------------------------------------------------------


def test_an_ice_restart_goes_on_with_the_call() -> None:
    async def story(made: Call) -> None:
        async def signal(offer: str) -> str:
            return made.remote.accept_offer(offer)

        before = made.remote.peer.local_ufrag
        await made.local.renegotiate(signal, ice_restart=True)
        assert made.remote.peer.local_ufrag != before
        assert made.server._by_ufrag[made.remote.peer.local_ufrag] is made.remote
        for _ in range(9):
            await made.local.renegotiate(signal, ice_restart=True)
        assert set(made.server._by_ufrag) == set(made.remote.peer.local_ufrags)
        made.local.audio_out.send(OPUS)
        assert (await anext(made.remote.audio_in)).payload == OPUS
        await shifted().pass_time(3, step=0.1)
        for session in (made.local, made.remote):
            assert session.state is ConnectionState.CONNECTED

    call(story)


def test_an_offer_that_nobody_answers_is_withdrawn() -> None:
    async def story(made: Call) -> None:
        async def refuse(offer: str) -> str:
            raise ConnectionError("the signalling is down")

        for _ in range(2):
            with pytest.raises(ConnectionError):
                await made.local.renegotiate(refuse)

        async def signal(offer: str) -> str:
            return made.remote.accept_offer(offer)

        await made.local.renegotiate(signal)
        assert made.local.state is ConnectionState.CONNECTED

    call(story)
