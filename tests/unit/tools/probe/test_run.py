"""Whole probes of our own server over real sockets; and of endpoints that are none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from instant_connect.io import signalling_app
from tests.interop.loops import run
from tests.unit.tools.web_server import HOST, echo_site, web_server
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.io import ServerConfig, WarpOptions, listen
from warp_tools.failure import ToolFailure
from warp_tools.probe import ProbeConfig, Report, probe
from warp_tools.probe.attempt import _is_loopback
from warp_tools.probe.view import lines
from warp_tools.serve import open_echo_server

pytestmark = pytest.mark.slow

QUICK = {"delay_s": 0.02, "settle_s": 0.15, "consent_s": 0.15, "patience_s": 3.0}
SECONDS = 60.0


class Door:
    """An endpoint whose answers come from a function; counts what it was asked."""

    def __init__(self, answer: Callable[[str], str], *, location: bool = True) -> None:
        self.answer = answer
        self.location = location
        self.offers = 0
        self.ended: list[str] = []

    async def post(self, request: Request) -> Response:
        self.offers += 1
        headers = {"Location": f"/calls/{self.offers}"} if self.location else {}
        body = self.answer((await request.body()).decode())
        return Response(body, 201, headers, "application/sdp")

    async def delete(self, request: Request) -> Response:
        self.ended.append(request.path_params["id"])
        return Response()

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/whip", self.post, methods=["POST"]),
                Route("/calls/{id}", self.delete, methods=["DELETE"]),
            ]
        )


def test_our_echo() -> None:
    async def test() -> None:
        async with echo_site() as (url, _):
            said: list[str] = []
            # a delay that leaves early media time to be early on a busy machine
            report = await probe(ProbeConfig(url=url, **{**QUICK, "delay_s": 0.05}), said.append)
        features = report.features
        assert report.best.connected_trips == report.best.channel_trips == 1.0
        assert not {"round_trips", "channel_round_trips"} & {r.id for r in report.grade.reasons}
        assert (features.setup, features.lite) == ("passive", True)
        assert (features.dtls13, features.dtls12) == (True, True)
        assert features.groups == {"x25519": True, "x25519mlkem768": True}
        assert (features.sped, features.flight) == ("sped", "response")
        assert (features.snap_answered, features.snap_used) == (True, True)
        assert (features.channel, features.channel_acknowledged) == (True, True)
        assert (features.media, features.early_media) == (True, True)
        assert features.cookie == "none"
        assert [facts.name for facts in report.calls] == [
            "everything",
            "instant",
            "plain",
            "dtls12",
            "x25519",
            "lost_request",
            "lost_response",
        ]
        assert all(facts.connected for facts in report.calls)
        assert report.ends_sessions
        assert len(said) == len(report.calls)
        assert json.loads(json.dumps(report.to_json()))["grade"] == report.grade.letter
        text = "\n".join(lines(report))
        assert "as `sped`; its first flight rides in the answer to a check" in text
        assert "7 calls" in text

    run(test(), seconds=SECONDS)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ServerConfig(warp=WarpOptions(sped=False)), {"sped": None, "snap_used": True}),
        (ServerConfig(warp=WarpOptions(snap=False)), {"sped": "sped", "snap_used": False}),
        (ServerConfig(lite=False, passive=False), {"lite": False, "setup": "active"}),
        (
            ServerConfig(warp=WarpOptions(versions=(DtlsVersion.DTLS12,))),
            {"dtls13": False, "dtls12": True},
        ),
        (
            ServerConfig(warp=WarpOptions(versions=(DtlsVersion.DTLS13,))),
            {"dtls13": True, "dtls12": False},
        ),
        (
            ServerConfig(warp=WarpOptions(groups=(NamedGroup.X25519,))),
            {"groups": {"x25519": True, "x25519mlkem768": False}},
        ),
        (ServerConfig(data=False), {"channel": None, "snap_answered": False}),
        (ServerConfig(early_data=False), {"early_media": False}),
    ],
    ids=[
        "no-sped",
        "no-snap",
        "full-active",
        "only-1.2",
        "only-1.3",
        "no-hybrid",
        "no-data",
        "late",
    ],
)
def test_servers_that_lack_something(config: ServerConfig, expected: dict) -> None:
    async def test() -> None:
        # Instant Connect's first profile is audio and channels: others have ordinary servers
        instant = config.lite and config.data
        async with echo_site(config, instant=instant) as (url, _):
            quick = {**QUICK, "patience_s": 1.0}
            report = await probe(ProbeConfig(url=url, loss=False, **quick))
        assert {name: getattr(report.features, name) for name in expected} == expected

    run(test(), seconds=SECONDS)


async def held_report(door: Door, **changes: object) -> Report:
    async with web_server(door.app) as url:
        return await probe(ProbeConfig(url=url, loss=False, **{**QUICK, **changes}))


def test_every_call_is_ended() -> None:
    async def test() -> None:
        server = await listen(HOST)
        door = Door(lambda offer: server.accept_offer(offer).answer)
        try:
            report = await held_report(door)
            assert door.ended == [str(number + 1) for number in range(door.offers)]
            assert door.offers == len(report.calls)
        finally:
            await server.close()

    run(test(), seconds=SECONDS)


def test_an_endpoint_without_a_location() -> None:
    async def test() -> None:
        server = await listen(HOST)
        door = Door(lambda offer: server.accept_offer(offer).answer, location=False)
        try:
            report = await held_report(door)
            assert not report.ends_sessions
            assert "none of which it lets us end by HTTP" in "\n".join(lines(report))
        finally:
            await server.close()

    run(test(), seconds=SECONDS)


def test_an_answer_that_is_none() -> None:
    async def test() -> None:
        door = Door(lambda _: "<!doctype html><html>hello</html>")
        with pytest.raises(ToolFailure, match=r"is no usable session description.*<!doctype html>"):
            await held_report(door)
        assert door.ended == ["1"]

    run(test(), seconds=SECONDS)


def test_a_server_whose_udp_is_silent() -> None:
    async def test() -> None:
        server = await listen(HOST)
        silent = await listen(HOST)

        def answer(offer: str) -> str:
            real = server.accept_offer(offer).answer
            return real.replace(f" {server.port} typ", f" {silent.port} typ")

        door = Door(answer)
        try:
            with pytest.raises(ToolFailure, match=rf"nothing comes over UDP from .*:{silent.port}"):
                await held_report(door, patience_s=0.5)
            assert door.offers == 1
            assert door.ended == ["1"]
        finally:
            await server.close()
            await silent.close()

    run(test(), seconds=SECONDS)


def test_an_answer_without_candidates() -> None:
    async def test() -> None:
        server = await listen(HOST)

        def answer(offer: str) -> str:
            real = server.accept_offer(offer).answer.split("\r\n")
            return "\r\n".join(line for line in real if not line.startswith("a=candidate"))

        try:
            with pytest.raises(ToolFailure, match="answers without a candidate"):
                await held_report(Door(answer), patience_s=0.5)
        finally:
            await server.close()

    run(test(), seconds=SECONDS)


def test_an_application_below_a_path() -> None:
    """Its address leads to its endpoint, and from there to its tickets."""

    async def test() -> None:
        echoes = await open_echo_server(HOST, 0, ServerConfig(early_data=True), instant=True)
        app = Starlette()
        app.mount("/voice", signalling_app(echoes.server, accept=echoes.receive_call))
        try:
            async with web_server(app) as url:
                config = ProbeConfig(url=f"{url}/voice/", loss=False, **QUICK)
                report = await probe(config)
            assert report.url == f"{url}/voice/"
            assert "instant" in [facts.name for facts in report.calls]
            assert report.features.instant is not None and report.features.instant.connected
            assert report.ends_sessions
        finally:
            await echoes.close()

    run(test(), seconds=SECONDS)


def test_a_certificate_that_does_not_fit() -> None:
    """It is heard, and yet no call connects: grade F, and the reason in words."""

    async def test() -> None:
        server = await listen(HOST)

        def answer(offer: str) -> str:
            real = server.accept_offer(offer).answer.split("\r\n")
            forged = [
                line[:-2] + ("00" if line[-2:] != "00" else "11")
                if line.startswith("a=fingerprint:")
                else line
                for line in real
            ]
            return "\r\n".join(forged)

        try:
            report = await held_report(Door(answer), patience_s=1.0)
            assert report.grade.letter == "F"
            assert "certificate" in report.grade.reasons[0].text
            assert "grade F (0 of 100)" in "\n".join(lines(report))
        finally:
            await server.close()

    run(test(), seconds=SECONDS)


def test_a_probe_that_is_cancelled_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with echo_site() as (url, echoes):
            probing = asyncio.ensure_future(probe(ProbeConfig(url=url, **QUICK)))
            async with asyncio.timeout(5):
                while not echoes.server.sessions:
                    await asyncio.sleep(0.005)
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
            assert probing.cancelled()

    run(test(), seconds=SECONDS)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080/whip", True),
        ("http://[::1]/whip", True),
        ("http://localhost", True),
        ("https://example.com", False),
        ("http://192.0.2.1", False),
    ],
)
def test_loopback_is_for_this_machine(url: str, expected: bool) -> None:
    assert _is_loopback(url) is expected
