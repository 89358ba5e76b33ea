"""Tickets beside an endpoint: where they are looked for, and a call by its first datagram."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.interop.loops import run
from tests.unit.tools.web_server import HOST, echo_site, web_server
from warp.io import listen
from warp_tools.probe import ProbeConfig, probe
from warp_tools.probe.instant import bundle_url, fetch_ticket, offers_url
from warp_tools.probe.view import lines

QUICK = {"delay_s": 0.02, "settle_s": 0.15, "consent_s": 0.15, "patience_s": 1.0, "loss": False}


@pytest.mark.parametrize(
    ("url", "bundles", "offers"),
    [
        ("https://a.example", "https://a.example/v1/instant", "https://a.example"),
        ("https://a.example/whip", "https://a.example/v1/instant", "https://a.example/whip"),
        (
            "https://a.example/voice/v1/realtime/calls?x=1",
            "https://a.example/voice/v1/instant",
            "https://a.example/voice/v1/realtime/calls?x=1",
        ),
        (
            "https://a.example/voice/v1/instant/",
            "https://a.example/voice/v1/instant",
            "https://a.example/voice/v1/realtime/calls",
        ),
        ("https://a.example/publish", "", "https://a.example/publish"),
    ],
)
def test_the_doors_of_one_application(url: str, bundles: str, offers: str) -> None:
    assert bundle_url(url) == bundles
    assert offers_url(url) == offers


@pytest.mark.slow
@pytest.mark.parametrize("path", ["", "/v1/instant"])
def test_a_server_that_gives_tickets(path: str) -> None:
    """Signalling is not waited for, and finds the call that has begun."""

    async def test() -> None:
        async with echo_site() as (url, echoes):
            report = await probe(ProbeConfig(url=url + path, **QUICK))
            assert not echoes.server.sessions
        instant = report.features.instant
        assert instant is not None and instant.connected and instant.attached
        assert (instant.round_trips or 9) < 1.5
        assert [facts.name for facts in report.calls][:2] == ["everything", "instant"]
        assert report.to_json()["features"]["instant"]["connected"] is True
        assert report.url == url + path
        assert "the first datagram begins the call, its offer joined it" in "\n".join(lines(report))

    run(test(), seconds=60)


@pytest.mark.slow
def test_a_server_that_gives_none() -> None:
    async def test() -> None:
        async with echo_site(instant=False) as (url, _):
            report = await probe(ProbeConfig(url=url, **QUICK))
        assert report.features.instant is None
        assert "instant" not in [facts.name for facts in report.calls]

    run(test(), seconds=60)


@pytest.mark.slow
def test_tickets_that_lead_nowhere_leave_the_rest_alone() -> None:
    """The bundles are another server's: no call begins, and the others are made."""

    async def test() -> None:
        plain = await listen(HOST)
        offers = 0

        async with echo_site() as (other, _):

            async def post(request: Request) -> Response:
                nonlocal offers
                offers += 1
                answer = plain.accept_offer((await request.body()).decode()).answer
                return Response(answer, 201, {"Location": f"/calls/{offers}"}, "application/sdp")

            async def bundle(_: Request) -> Response:
                ticket = await fetch_ticket(other + "/whip", "")
                assert ticket is not None
                text = ticket.bundle.to_json()
                port = str(ticket.bundle.terms.candidates[0].port)
                return PlainTextResponse(text.replace(port, str(plain.port)))

            async def delete(_: Request) -> Response:
                return Response()

            routes = [
                Route("/whip", post, methods=["POST"]),
                Route("/v1/instant", bundle),
                Route("/calls/{id}", delete, methods=["DELETE"]),
            ]
            async with web_server(Starlette(routes=routes)) as url:
                report = await probe(ProbeConfig(url=url, **QUICK))
        await plain.close()
        instant = report.features.instant
        assert instant is not None and not instant.connected and not instant.attached
        assert report.grade.letter != "F"
        assert offers == len(report.calls)
        assert "began no call" in "\n".join(lines(report))

    run(test(), seconds=60)


@pytest.mark.parametrize(
    "answer",
    [
        PlainTextResponse("no", 404),
        PlainTextResponse("{}"),
        PlainTextResponse("[" * 60_000),
        PlainTextResponse("x" * 200_000),
        PlainTextResponse(b"\xff\xfe\x00"),
        RedirectResponse("file:///etc/hostname"),
        RedirectResponse("/elsewhere"),
    ],
    ids=["absent", "empty", "deep", "endless", "no-text", "file", "elsewhere"],
)
def test_what_is_no_bundle(answer: Response) -> None:
    asked: list[str] = []

    async def bundle(request: Request) -> Response:
        asked.append(request.url.path)
        return answer

    async def test() -> None:
        app = Starlette(routes=[Route("/{path:path}", bundle)])
        async with web_server(app) as url:
            assert await fetch_ticket(url, "") is None

    run(test(), seconds=20)
    assert asked == ["/v1/instant"]
