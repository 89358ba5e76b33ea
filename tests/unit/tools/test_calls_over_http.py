"""Whole calls over real HTTP and real UDP on loopback, and what clients should not do in them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import websockets

from instant_connect.sdpfrag import Fragment, credentials_of, parse_sdpfrag, restarted_offer
from tests.unit.tools.web_server import HOST, echo_site
from warp.ice import IceCredentials
from warp.io import ClientConfig, ServerConfig, Session, connect
from warp.trace import MemoryTrace
from warp_tools.audio import packaged_sound
from warp_tools.opus import encoded

SDP = {"Content-Type": "application/sdp"}
CALLS = "/v1/realtime/calls"
DEAD = "candidate:9 1 udp 2130706431 192.0.2.77 9 typ host"
Munge = Callable[[str], str]


class Caller:
    """One side of a call through HTTP: `session` is ours, `response` is what the POST brought."""

    def __init__(self, web: httpx.AsyncClient) -> None:
        self.web = web
        self.response: httpx.Response
        self.session: Session

    async def call(
        self, path: str, munge: Munge = str, wait_s: float = 0.0, **options: Any
    ) -> Session:
        async def signal(offer: str) -> str:
            self.response = await self.web.post(path, content=munge(offer), headers=SDP)
            assert self.response.status_code == 201, self.response.text
            await asyncio.sleep(wait_s)
            return self.response.text

        config = ClientConfig(host=HOST, loopback=True)
        self.session = await connect(signal, config=config, **options)
        return self.session

    @property
    def place(self) -> str:
        return self.response.headers["location"]

    async def stats(self) -> dict[str, Any]:
        call_id = self.place.rpartition("/")[2]
        found: dict[str, Any] = (await self.web.get(f"{CALLS}/{call_id}/stats")).json()
        return found


@asynccontextmanager
async def caller(
    server: ServerConfig | None = None, *, instant: bool | None = None
) -> AsyncIterator[Caller]:
    """A caller before a served echo; its session is closed at the end."""
    async with (
        echo_site(server=server, instant=instant) as (url, _),
        httpx.AsyncClient(base_url=url) as web,
    ):
        made = Caller(web)
        try:
            yield made
        finally:
            if hasattr(made, "session"):
                await made.session.close()


async def until(what: Callable[[], bool]) -> None:
    """Wait for something that is about to be so."""
    async with asyncio.timeout(10):
        while not what():
            await asyncio.sleep(0.005)


def selected(trace: MemoryTrace) -> int:
    """How many ICE sessions have found their path."""
    return len(trace.named("ice:pair_selected"))


async def hear(session: Session) -> None:
    """Wait for the greeting's first frame."""
    async with asyncio.timeout(10):
        await anext(aiter(session.audio_in))


@pytest.mark.parametrize("instant", [True, False])
def test_a_call_with_events_and_the_servers_view_of_it(instant: bool) -> None:
    async def story() -> None:
        async with caller(instant=instant) as made:
            session = await made.call(f"{CALLS}?dcid=4")
            events = session.channel("oai-events", negotiated=True, stream_id=4)
            created = json.loads(str(await anext(events)))
            assert created["type"] == "session.created"
            assert created["session"]["id"] == made.place.rpartition("/")[2]
            events.send(json.dumps({"type": "response.create", "event_id": "mine"}))
            error = json.loads(str(await anext(events)))
            assert (error["type"], error["error"]["code"]) == ("error", "unknown_event")
            assert error["error"]["event_id"] == "mine"
            await hear(session)
            session.audio_out.send(encoded(packaged_sound("speech")[:960])[0])
            told = await made.stats()
            while "first_media_received" not in told["milestones_ms"]:
                told = await made.stats()
            assert told["state"] == "connected"
            assert told["path"] == ("signalled" if instant else None)
            assert told["dtls"] == {
                "version": "1.3",
                "group": "X25519MLKEM768",
                "post_quantum": True,
                "role": "server",
            }
            assert told["sped"]["used"] is True
            assert "sped" in told["sped"]["options"]
            assert told["snap"]["used"] is True
            at = told["milestones_ms"]
            assert at["first_check"] == 0.0
            assert at["srtp_ready"] <= min(at["first_media_sent"], at["dtls_connected"])
            assert at["dtls_connected"] <= at["channel_open"] <= told["now_ms"]
            assert told["signalling"]["offer_read_ms"] <= told["signalling"]["answered_ms"] <= 0
            assert told["traffic"]["datagrams_received"] > 3
            assert (await made.web.post(f"{made.place}/hangup")).status_code == 200
            assert await session.closed is None

    asyncio.run(story())


def test_events_over_a_channel_that_the_client_opens() -> None:
    async def story() -> None:
        async with caller() as made:
            session = await made.call(CALLS)
            events = session.channel("oai-events")
            assert json.loads(str(await anext(events)))["type"] == "session.created"
            events.send(b"\x00")
            error = json.loads(str(await anext(events)))
            assert error["error"]["code"] == "invalid_event"

    asyncio.run(story())


def test_ice_is_restarted_by_a_fragment_alone() -> None:
    """RFC 9725 section 4.3.3, with a real client: the rest of the descriptions stays as it was."""

    async def story() -> None:
        async with caller() as made:
            trace = MemoryTrace()
            session = await made.call("/whip", trace=trace)
            await session.connected()
            await until(lambda: selected(trace) == 1)
            first = made.response.text

            async def restart(offer: str) -> str:
                ufrag, pwd = credentials_of(offer)
                response = await made.web.patch(
                    made.place,
                    content=f"a=ice-ufrag:{ufrag}\r\na=ice-pwd:{pwd}\r\n",
                    headers={
                        "Content-Type": "application/trickle-ice-sdpfrag",
                        "If-Match": "*",
                    },
                )
                assert response.status_code == 200, response.text
                assert response.headers["etag"] != made.response.headers["etag"]
                return restarted_offer(first, parse_sdpfrag(response.text))

            ufrag = session.peer.local_ufrag
            await session.renegotiate(restart, ice_restart=True)
            assert session.peer.local_ufrag != ufrag
            await until(lambda: selected(trace) == 2)
            await hear(session)
            assert (await made.stats())["state"] == "connected"

    asyncio.run(story())


def test_media_changes_in_mid_call() -> None:
    async def story() -> None:
        async with caller() as made:
            session = await made.call(CALLS)
            await session.connected()

            async def put(offer: str) -> str:
                response = await made.web.put(made.place, content=offer, headers=SDP)
                assert response.status_code == 200, response.text
                return response.text

            await session.renegotiate(put)
            await session.renegotiate(put, ice_restart=True)
            await hear(session)

    asyncio.run(story())


def replace_init(value: str) -> Munge:
    def munge(offer: str) -> str:
        lines = [
            f"a=sctp-init:{value}" if line.startswith("a=sctp-init:") else line
            for line in offer.split("\r\n")
        ]
        assert f"a=sctp-init:{value}" in lines
        return "\r\n".join(lines)

    return munge


@pytest.mark.parametrize(
    "value",
    [
        "AAAA",  # base64, and no chunk
        "",
        "not base64!",
        "AgAAHmzTwjAAUAAA/////xUXXq3AAAAEgAgABoLA",  # an INIT ACK
        "AQAAHgAAAAAAUAAA/////xUXXq3AAAAEgAgABoLA",  # an initiate tag of 0
        "AQAAHmzTwjAAUAAA//8=",  # cut short
        "AQAA" * 1_000,  # long
    ],
)
def test_an_init_that_is_none_means_the_classic_start(value: str) -> None:
    async def story() -> None:
        async with caller() as made:
            session = await made.call(f"{CALLS}?dcid=0", replace_init(value))
            assert "a=sctp-init" not in made.response.text
            events = session.channel("oai-events", negotiated=True, stream_id=0)
            assert json.loads(str(await anext(events)))["type"] == "session.created"
            assert (await made.stats())["snap"] == {"used": False, "mode": "classic"}

    asyncio.run(story())


@pytest.mark.parametrize(("offered", "role"), [("active", "server"), ("passive", "client")])
def test_a_role_that_the_offer_insists_on(offered: str, role: str) -> None:
    """RFC 8842 section 5.3; a page can munge this into its own description."""

    async def story() -> None:
        async with caller() as made:
            session = await made.call(
                f"{CALLS}?dcid=0",
                lambda offer: offer.replace("a=setup:actpass", f"a=setup:{offered}"),
            )
            events = session.channel("oai-events", negotiated=True, stream_id=0)
            await events.opened()
            await hear(session)
            assert (await made.stats())["dtls"]["role"] == role

    asyncio.run(story())


@pytest.mark.parametrize("length", [4, 256])
def test_ufrags_at_their_limits(length: int) -> None:
    async def story() -> None:
        async with caller() as made:
            chosen = IceCredentials("u" * length, "p" * 24)
            session = await made.call("/whip", credentials=chosen)
            assert session.peer.local_ufrag == "u" * length
            await session.connected()
            await hear(session)

    asyncio.run(story())


@pytest.mark.parametrize("length", [3, 257])
def test_ufrags_beyond_their_limits(length: int) -> None:
    async def story() -> None:
        async with caller() as made:
            await made.call("/whip")
            offer = restarted_offer(
                made.session.remote_description, Fragment("u" * length, "p" * 24)
            )
            response = await made.web.post("/whip", content=offer, headers=SDP)
            assert response.status_code == 400
            assert response.json()["error"]["rule"] == "ice_ufrag"

    asyncio.run(story())


@pytest.mark.parametrize("lite", [True, False])
def test_candidates_that_never_answer(lite: bool) -> None:
    """In the offer and trickled: the ones that do are used."""

    def munge(offer: str) -> str:
        return offer.replace("a=ice-ufrag", f"a={DEAD}\r\na=ice-ufrag", 1)

    async def story() -> None:
        async with caller(ServerConfig(lite=lite)) as made:
            session = await made.call("/whip", munge)
            fragment = "".join(f"a={DEAD}\r\n".replace(":9", f":{n}") for n in range(20))
            headers = {
                "Content-Type": "application/trickle-ice-sdpfrag",
                "If-Match": made.response.headers["etag"],
            }
            trickled = await made.web.patch(made.place, content=fragment, headers=headers)
            assert trickled.status_code == 204
            await session.connected()
            await hear(session)

    asyncio.run(story())


@pytest.mark.slow
def test_an_answer_that_is_applied_late() -> None:
    async def story() -> None:
        async with caller() as made:
            session = await made.call("/whip", wait_s=1.5)
            await session.connected()
            await hear(session)

    asyncio.run(story())


def test_http_2_without_tls() -> None:
    async def story() -> None:
        async with (
            echo_site() as (url, _),
            httpx.AsyncClient(base_url=url, http1=False, http2=True) as web,
        ):
            made = Caller(web)
            session = await made.call("/whip")
            assert made.response.http_version == "HTTP/2"
            await session.connected()
            assert (await web.delete(made.place)).status_code == 200
            assert await session.closed is None

    asyncio.run(story())


def test_a_huge_body_is_refused_in_words_and_calls_go_on() -> None:
    async def story() -> None:
        async with caller() as made:
            session = await made.call("/whip")
            for size in (70_000, 10_000_000):
                response = await made.web.post("/whip", content=b"x" * size, headers=SDP)
                assert response.status_code == 413
                assert response.json()["error"]["code"] == "too_large"
            await session.connected()
            await hear(session)

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/v1/live/sessions", "/whip", "/"])
def test_a_websocket_that_nobody_serves_is_told_where_there_is_one(path: str) -> None:
    async def story() -> None:
        async with echo_site() as (url, _):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(url.replace("http", "ws", 1) + path)
        response = refused.value.response
        assert (response.status_code, response.headers["content-type"]) == (404, "application/json")
        error = json.loads(response.body)["error"]
        assert error["code"] == "not_found"
        assert "(without --workers)" in error["message"]

    asyncio.run(story())


async def refused_in_mid_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, web: httpx.AsyncClient
) -> bytes:
    """The status line that a POST gets whose body comes after the server has seen its head."""
    head = "POST /whip HTTP/1.1\r\nHost: here\r\nContent-Type: application/sdp\r\n"
    writer.write(f"{head}Content-Length: 70000\r\n\r\n".encode())
    await writer.drain()
    await web.get("/v1/client-config")
    writer.write(b"x" * 70_000)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", answer)
    assert length is not None
    await reader.readexactly(int(length.group(1)))
    return answer.partition(b"\r\n")[0]


def test_a_refusal_costs_nobody_the_connection() -> None:
    async def story() -> None:
        async with (
            echo_site(authorize=lambda _: False) as (url, _),
            httpx.AsyncClient(base_url=url) as web,
        ):
            where = httpx.URL(url)
            reader, writer = await asyncio.open_connection(where.host, where.port)
            for _ in range(2):
                async with asyncio.timeout(10):
                    status = await refused_in_mid_request(reader, writer, web)
                assert status.startswith(b"HTTP/1.1 401")
            writer.close()

    asyncio.run(story())
