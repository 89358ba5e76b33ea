"""A call that does not go as it should: what is told, and with which words."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from pathlib import Path
from typing import Any, cast

import pytest

from instant_connect.sessions import Path as Way
from tests.unit.tools.web_server import echo_site
from warp.errors import ConsentLost, WarpError
from warp.io import Session
from warp.io.session import Ending
from warp_tools.audio import packaged_sound, write_wav
from warp_tools.call import TraceFile, _advice, call
from warp_tools.call_plan import CallPlan
from warp_tools.call_result import CallResult, Ended, EndWatch, Patience
from warp_tools.failure import ToolFailure


async def until_some(things: Any) -> Any:
    """The first of what is not there yet."""
    async with asyncio.timeout(10):
        while not things:
            await asyncio.sleep(0.01)
    return next(iter(things))


@pytest.mark.slow
@pytest.mark.parametrize("instant", [False, True])
def test_a_server_that_hangs_up_first(tmp_path: Path, instant: bool) -> None:
    speech = tmp_path / "speech.wav"
    write_wav(speech, packaged_sound("speech"))

    async def story() -> CallResult:
        async with echo_site() as (url, echoes):
            plan = CallPlan(url=url, instant=instant)
            calling = asyncio.create_task(call(speech, plan, tmp_path / "reply.wav"))
            session: Session = await until_some(echoes._echoes)
            await session.connected()
            await session.close()
            return await calling

    result = asyncio.run(story())
    assert result.ended is not None
    assert result.ended.by == "server"
    assert result.ended.is_failure
    told = result.to_json()
    assert told["ended_by"] == "server"
    assert told["end_reason"] == "it hung up"
    assert told["unsaid_s"] == pytest.approx(5.3 - told["ended_after_s"], abs=0.02)
    assert "the server ended the call after " in str(result)


class FakeSession:
    """A session whose peer answers as long as it lives."""

    def __init__(self) -> None:
        self.end: asyncio.Future[WarpError | None] = asyncio.get_running_loop().create_future()
        self.closed = Ending(self.end)
        self.is_alive = True
        self.asked = 0
        self._received = 0

    def stats(self) -> dict[str, int]:
        self.asked += 1
        self._received += self.is_alive
        return {"datagrams_received": self._received}


def watch(error: WarpError | None) -> Ended | None:
    async def story() -> Ended | None:
        session = FakeSession()
        found = EndWatch(cast(Session, session), 0.0)
        assert await found.found() is None
        session.end.set_result(error)
        return await found.found()

    return asyncio.run(story())


QUICK = Patience(step_s=0.001, doubt_s=0.01, silence_s=0.05)


def test_a_peer_that_does_not_answer_any_more_is_gone() -> None:
    async def story() -> tuple[Ended | None, float]:
        session = FakeSession()
        watch = EndWatch(cast(Session, session), 5.0, QUICK)
        while session.asked < 5:
            await asyncio.sleep(0.001)
        session.is_alive = False
        lived_s = asyncio.get_running_loop().time() - watch.began
        while watch.silent_s < QUICK.doubt_s:
            await asyncio.sleep(0.001)
        return await watch.found(), lived_s

    ended, lived_s = asyncio.run(story())
    assert ended is not None
    assert ended.is_failure
    assert ended.by == "error"
    assert ended.after_s <= lived_s
    assert ended.unsaid_s == pytest.approx(5.0 - ended.after_s)
    told = str(ended)
    assert told.startswith("the call broke off after 0.0 s (nothing came any more, no answer to a")


def test_a_peer_that_is_silent_for_a_while_is_asked_for() -> None:
    """It says nothing as nothing is said; then it answers a check."""

    async def story() -> Ended | None:
        session = FakeSession()
        watch = EndWatch(cast(Session, session), 0.0, Patience(step_s=0.001, doubt_s=0.01))
        session.is_alive = False
        while watch.silent_s < 0.02:
            await asyncio.sleep(0.001)
        finding = asyncio.create_task(watch.found())
        asked = session.asked
        while session.asked < asked + 10:
            await asyncio.sleep(0.001)
        assert not finding.done()
        session.is_alive = True
        return await finding

    assert asyncio.run(story()) is None


def test_who_ended_it_and_whether_that_is_a_failure() -> None:
    hung_up, lost = watch(None), watch(ConsentLost("the peer is silent"))
    assert hung_up is not None
    assert not hung_up.is_failure  # everything had been said
    assert str(hung_up) == "the server ended the call after 0.0 s (it hung up)"
    assert lost is not None
    assert lost.is_failure
    assert lost.by == "error"
    assert str(lost) == "the call broke off after 0.0 s (the peer is silent)"
    unsaid = Ended(after_s=2.0, unsaid_s=3.2)
    assert unsaid.is_failure
    assert str(unsaid).endswith("(it hung up); 3.2 s of the speech were not sent")


def test_a_call_that_was_interrupted() -> None:
    ended = Ended(after_s=2.0, unsaid_s=3.2, interrupted=True)
    assert str(ended) == "interrupted after 2.0 s; 3.2 s of the speech were not sent"
    told = CallResult(seconds=2.0, frames=100, concealed=0, correlation=0.0, ended=ended).to_json()
    assert (told["ended_by"], told["end_reason"], told["unsaid_s"]) == (
        "caller",
        "interrupted",
        3.2,
    )


def test_a_call_that_we_ended() -> None:
    result = CallResult(seconds=1.0, frames=50, concealed=0, correlation=0.9)
    assert result.to_json()["ended_by"] == "caller"
    assert "ended" not in str(result)


def test_what_is_no_echo_has_no_likeness() -> None:
    echo = CallResult(seconds=1.0, frames=50, concealed=0, correlation=0.9)
    assert echo.to_json()["correlation"] == 0.9
    assert str(echo).startswith("1.0 s, 0 of 50 frames concealed, likeness to the speech sent 0.90")
    voice = CallResult(seconds=5.8, frames=132, concealed=0, correlation=0.12, unsent_s=3.16)
    told = voice.to_json()
    assert told["correlation"] is None
    assert told["unsent_s"] == 3.16
    assert "likeness" not in str(voice)
    assert "5.8 s, 0 of 132 frames concealed, 3.2 s of its silence left out; " in str(voice)


@pytest.mark.parametrize("way", Way)
def test_each_way_is_explained(way: Way) -> None:
    result = CallResult(seconds=1.0, frames=50, concealed=0, correlation=0.9, path=way.value)
    assert result.way.startswith(f"{way.value}: the ")


@pytest.mark.parametrize(
    ("url", "instant", "says"),
    [
        ("nowhere", False, "--url: 'nowhere' is not an http"),
        ("127.0.0.1:8080", False, "is not an http"),
        ("", True, "--instant: '' is not an http"),
        ("http://[::1:8080", False, "is not an http"),
        ("http://127.0.0.1:99999", False, "is not an http"),
        ("http://127.0.0.1:abc", True, "is not an http"),
        ("http://ann:secret@127.0.0.1", False, "leave user and password out"),
        ("http://ann:secret@127.0.0.1:abc", False, "no address"),
        ("http://127.0.0.1/a call", False, "%20"),
        ("http://b\u00fccher.example", True, "xn--"),
        ("https://voice.example/whip/", True, "leave out /whip"),
    ],
)
def test_addresses_that_cannot_be_called(url: str, instant: bool, says: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        CallPlan(url=url, instant=instant).check()
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "instant"),
    [
        ("http://[::1]:8080", False),
        ("HTTPS://voice.example/whip", False),
        ("http://127.0.0.1:8080/voice", True),
    ],
)
def test_addresses_that_can(url: str, instant: bool) -> None:
    CallPlan(url=url, instant=instant, token="a secret").check()


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        (ssl.SSLCertVerificationError("self-signed"), "SSL_CERT_FILE"),
        (ssl.SSLError("WRONG_VERSION_NUMBER"), "http://"),
        (http.client.RemoteDisconnected("closed"), "https://"),
        (ConnectionRefusedError(111, "refused"), "warp serve"),
        (OSError("else"), ""),
    ],
)
def test_advice(cause: Exception, says: str) -> None:
    failure = ToolFailure("no answer")
    failure.__cause__ = cause
    assert says in _advice(failure)
    assert bool(says) == bool(_advice(failure))


def test_a_trace_that_cannot_be_written_is_said_at_the_end(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        full = tmp_path / "full"  # a file that takes everything: nothing to say
    trace = TraceFile(full)
    for _ in range(3):
        trace.write("x" * 10_000)
    if full.parent == Path("/dev"):
        with pytest.raises(ToolFailure, match="cannot write /dev/full: No space left"):
            trace.close()
    with pytest.raises(ToolFailure, match="cannot write"):
        TraceFile(tmp_path)
