"""`warp probe` tells the truth about servers that are not ours: aiortc and libwebrtc over HTTP.

POST /whip ─▶ the peer answers ─▶ 201, Location      DELETE ─▶ the peer is closed
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.interop.calls import answer_of, new_peer
from tests.interop.libwebrtc import PQC, WARP, Libwebrtc
from tests.interop.loops import run
from tests.unit.tools.web_server import web_server
from warp_tools.probe import ProbeConfig, Report, probe
from warp_tools.probe.features import IN_BAND
from warp_tools.probe.grade import whole
from warp_tools.probe.observe import REQUEST, RESPONSE

pytestmark = [pytest.mark.interop, pytest.mark.slow]

# long enough for round trips to be told from the work of two processes on one machine
DELAY_S = 0.06
SECONDS = 90.0

Answer = Callable[[str, contextlib.AsyncExitStack], Awaitable[str]]


class Site:
    """Peers behind WHIP: each call is a peer of its own, until it is deleted."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls: dict[str, contextlib.AsyncExitStack] = {}
        self.begun = self.ended = 0

    async def post(self, request: Request) -> Response:
        stack = contextlib.AsyncExitStack()
        self.begun += 1
        self._calls[str(self.begun)] = stack
        sdp = await self._answer((await request.body()).decode(), stack)
        return Response(sdp, 201, {"Location": f"/calls/{self.begun}"}, "application/sdp")

    async def delete(self, request: Request) -> Response:
        self.ended += 1
        await self._calls.pop(request.path_params["id"]).aclose()
        return Response()

    async def close(self) -> None:
        for stack in self._calls.values():
            await stack.aclose()

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/whip", self.post, methods=["POST"]),
                Route("/calls/{id}", self.delete, methods=["DELETE"]),
            ]
        )


async def probed(answer: Answer, **options: object) -> Report:
    """Probe a site; every call that was begun has been ended."""
    site = Site(answer)
    try:
        async with web_server(site.app) as url:
            config = ProbeConfig(url=url, delay_s=DELAY_S, **options)
            report = await probe(config)
        assert site.begun == site.ended == len(report.calls) <= 7
    finally:
        await site.close()
    return report


async def aiortc(offer: str, stack: contextlib.AsyncExitStack) -> str:
    from aiortc import AudioStreamTrack

    peer = new_peer()
    stack.push_async_callback(peer.close)
    peer.addTrack(AudioStreamTrack())
    return await answer_of(peer, offer)


def libwebrtc(trials: str, setup: str | None = None) -> Answer:
    async def answer(offer: str, stack: contextlib.AsyncExitStack) -> str:
        peer = await stack.enter_async_context(Libwebrtc.start(trials))
        peer.tell("answer", sdp=offer, channels=[], audio=True, setup=setup)
        return str((await peer.take("description"))["sdp"])

    return answer


@pytest.mark.usefixtures("aiortc_on_loopback")
def test_aiortc() -> None:
    """DTLS 1.2 by OpenSSL, the server begins it, nothing of WARP, a slow timer."""

    async def test() -> None:
        report = await probed(aiortc)
        features, best = report.features, report.best
        assert (features.setup, features.lite) == ("active", False)
        assert (features.dtls13, features.dtls12) == (False, True)
        assert features.groups == {"x25519": True, "x25519mlkem768": False}
        assert (features.sped, features.snap_answered, features.snap_used) == (None, False, False)
        assert (features.channel, features.channel_acknowledged) == (True, True)
        assert (features.media, features.cookie) == (True, "none")
        assert features.consent_answered is True
        assert features.consent_checks >= 1
        assert [facts.name for facts in report.calls] == [
            "everything",
            "plain",
            "lost_request",
            "lost_response",
        ]
        assert all(facts.connected for facts in report.calls)
        # ICE, then DTLS 1.2 from the other end; INIT and cookie after it
        assert whole(best.round_trips(best.connected_s)) >= 3
        assert (best.channel_s or 0) > (best.connected_s or 0)
        # OpenSSL repeats a flight after a second
        assert features.lost_response is not None
        assert (features.lost_response.extra_s or 0) > 0.7
        costs = {reason.id: reason.points for reason in report.grade.reasons}
        assert costs["no_dtls13"] == 10
        assert costs["lost_response_slow"] == 5
        assert report.grade.letter > "B"

    run(test(), seconds=SECONDS)


@pytest.mark.usefixtures("libwebrtc")
def test_libwebrtc_as_it_comes() -> None:
    async def test() -> None:
        report = await probed(libwebrtc(""), consent_s=0.5, loss=False)
        features, best = report.features, report.best
        assert (features.setup, features.lite) == ("active", False)
        assert (features.dtls13, features.dtls12) == (True, True)
        assert features.groups == {"x25519": True, "x25519mlkem768": False}
        assert (features.sped, features.snap_used) == (None, False)
        assert features.channel is True
        assert features.media is True
        assert whole(best.round_trips(best.connected_s)) >= 2
        refused = next(facts for facts in report.calls if facts.name == "x25519mlkem768")
        assert not refused.connected

    run(test(), seconds=SECONDS)


@pytest.mark.usefixtures("libwebrtc")
def test_libwebrtc_with_warp() -> None:
    """SPED without a word in the answer; its ClientHello comes in a check of its own."""

    async def test() -> None:
        report = await probed(libwebrtc(WARP), consent_s=0.5, loss=False)
        features, best = report.features, report.best
        assert features.sped == IN_BAND
        assert features.flight == REQUEST
        assert (features.snap_answered, features.snap_used) == (True, True)
        assert best.channel_s == best.connected_s
        plain = next(facts for facts in report.calls if facts.name == "plain")
        assert (plain.connected_s or 0) > (best.connected_s or 0)

    run(test(), seconds=SECONDS)


@pytest.mark.usefixtures("libwebrtc")
def test_libwebrtc_passive_with_everything() -> None:
    async def test() -> None:
        report = await probed(libwebrtc(WARP + PQC, "passive"), consent_s=0.5, loss=False)
        features = report.features
        assert features.setup == "passive"
        assert features.groups == {"x25519": True, "x25519mlkem768": True}
        assert features.chosen_group == "x25519mlkem768"
        assert features.flight == RESPONSE
        assert features.snap_used
        assert report.grade.letter != "F"

    run(test(), seconds=SECONDS)
