"""Signalling over HTTP/3, asked by aioquic: bundles, an offer, its end; named by HTTP/2 before."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from instant_connect.bundle import parse_bundle
from instant_connect.calls import server_of
from instant_connect.io import listen_instant, signalling_app
from tests.interop.workers import served
from tests.unit.sdp.build import capture
from tests.unit.tools.test_web import make_tls
from tests.unit.tools.web_server import HOST, web_server

pytestmark = pytest.mark.interop
PATIENCE_S = 30.0
OFFER = capture("chromium156_warp_offer")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@asynccontextmanager
async def http3(port: int, trust: Path) -> AsyncIterator[Callable[..., Any]]:
    """A connection; what it yields asks: `await ask("GET", "/path")`."""
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3_ALPN, H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration

    class Asker(QuicConnectionProtocol):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.http = H3Connection(self._quic)
            self.heads: dict[int, dict[str, str]] = {}
            self.bodies: dict[int, bytes] = {}
            self.done: dict[int, asyncio.Future[None]] = {}

        async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
            number = self._quic.get_next_available_stream_id()
            self.done[number] = asyncio.get_running_loop().create_future()
            names = {":method": method, ":scheme": "https", ":authority": HOST, ":path": path}
            given = {**names, **{k.replace("_", "-"): v for k, v in headers.items()}}
            head = [(key.encode(), value.encode()) for key, value in given.items()]
            self.http.send_headers(number, head, not body)
            if body:
                self.http.send_data(number, body, True)
            self.transmit()
            await asyncio.wait_for(self.done[number], 10)
            told = self.heads[number]
            return Answer(int(told[":status"]), told, self.bodies.get(number, b""))

        def quic_event_received(self, event: Any) -> None:
            for found in self.http.handle_event(event):
                number = getattr(found, "stream_id", -1)
                if isinstance(found, HeadersReceived):
                    told = {key.decode(): value.decode() for key, value in found.headers}
                    self.heads[number] = told
                elif isinstance(found, DataReceived):
                    self.bodies[number] = self.bodies.get(number, b"") + found.data
                done = self.done.get(number)
                if getattr(found, "stream_ended", False) and done and not done.done():
                    done.set_result(None)

    config = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True)
    config.load_verify_locations(cafile=str(trust))
    async with connect(HOST, port, configuration=config, create_protocol=Asker) as asker:
        assert isinstance(asker, Asker)
        yield asker.ask


def test_signalling_over_http_3(require_peer: Callable[[str], None], tmp_path: Path) -> None:
    require_peer("aioquic")
    tls = make_tls(tmp_path)

    async def story() -> None:
        trust = ssl.create_default_context(cafile=tls.certificate)
        async with await listen_instant(HOST) as server:
            app = signalling_app(server, accept=lambda session, info: None)
            async with (
                web_server(app, tls, http3=True) as url,
                httpx.AsyncClient(verify=trust, http2=True) as web,
            ):
                port = int(url.rpartition(":")[2])
                told = await web.get(f"{url}/v1/client-config")
                assert told.http_version == "HTTP/2"
                assert f'h3=":{port}"' in told.headers["alt-svc"]
                async with http3(port, tls.certificate) as ask:
                    bundle = await ask("GET", "/v1/instant")
                    assert (bundle.status, bundle.headers["cache-control"]) == (200, "no-store")
                    assert len(parse_bundle(bundle.body.decode()).tickets) == 3
                    made = await ask(
                        "POST", "/whip", OFFER.encode(), content_type="application/sdp"
                    )
                    assert made.status == 201
                    assert b"a=ice-lite" in made.body
                    ended = await ask("DELETE", made.headers["location"])
                    assert ended.status == 200
                    gone = await ask("DELETE", made.headers["location"])
                    assert gone.status == 404

    asyncio.run(story())


@pytest.mark.slow
def test_http_3_of_several_workers(require_peer: Callable[[str], None], tmp_path: Path) -> None:
    """The kernel gives each connection to a worker; whichever it is, calls are found by name."""
    require_peer("aioquic")
    tls = make_tls(tmp_path)
    options = ("--tls-cert", str(tls.certificate), "--tls-key", str(tls.key), "--http3")

    async def story() -> None:
        trust = ssl.create_default_context(cafile=tls.certificate)
        async with served(2, *options) as site, asyncio.timeout(PATIENCE_S):
            port = int(site.url.rpartition(":")[2])
            async with httpx.AsyncClient(verify=trust, http2=True) as web:
                told = await web.get(f"{site.url}/v1/client-config")
                assert f'h3=":{port}"' in told.headers["alt-svc"]
            places: list[str] = []
            while {server_of(place.rpartition("/")[2]) for place in places} != {0, 1}:
                async with http3(port, tls.certificate) as ask:
                    bundle = await ask("GET", "/v1/instant")
                    assert (bundle.status, bundle.headers["cache-control"]) == (200, "no-store")
                    # an offer is known by its ICE credentials: another one each time
                    offer = OFFER.replace("a=ice-ufrag:", f"a=ice-ufrag:u{len(places)}")
                    made = await ask(
                        "POST", "/whip", offer.encode(), content_type="application/sdp"
                    )
                    assert made.status == 201
                    places.append(made.headers["location"])
            async with http3(port, tls.certificate) as ask:
                for place in places:
                    assert (await ask("DELETE", place)).status == 200
                    assert (await ask("DELETE", place)).status == 404

    asyncio.run(story())
