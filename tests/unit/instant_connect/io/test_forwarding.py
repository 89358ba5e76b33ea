"""Requests at any process of a port, answered by the one that has the call."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from instant_connect.answers import Status
from instant_connect.calls import server_of
from instant_connect.exchange import Ask, AttemptNames
from instant_connect.io import CallInfo, Kind, SignallingConfig, signalling_app
from instant_connect.io import forwarding as module
from instant_connect.io.client import InstantClient, Posted
from instant_connect.io.errand import Errand
from instant_connect.io.forwarding import Forwarding
from instant_connect.router import Roster
from tests.unit.instant_connect.io.crowd import Crowd, crowd
from tests.unit.instant_connect.io.instant_site import OFFER
from tests.unit.instant_connect.io.site import BASE, CALLS, SDP
from tests.unit.instant_connect.io.test_server import CLIENT, fill
from tests.unit.io.support import play
from warp.io import Session

UNKNOWN = "rtc_0001" + "0" * 36


class Doors:
    """An application before every server of a crowd."""

    def __init__(self, made: Crowd) -> None:
        self.crowd = made
        self.forwardings: list[Forwarding] = []
        self.webs: list[httpx.AsyncClient] = []
        self.answered: list[tuple[int, CallInfo]] = []

    def add(self, number: int, **config: Any) -> None:
        def accept(session: Session, info: CallInfo) -> None:
            self.answered.append((number, info))

        forwarding = Forwarding(self.crowd.clusters[number], number)
        app = signalling_app(
            self.crowd.servers[number],
            accept=accept,
            forward=forwarding.forward,
            config=SignallingConfig(**config),
        )
        web = httpx.ASGITransport(app=forwarding.wrap(app, app.state.open), client=("192.0.2.1", 1))
        self.forwardings.append(forwarding)
        self.webs.append(httpx.AsyncClient(transport=web, base_url=BASE))

    async def post(self, door: int, offer: str = OFFER, **headers: str) -> httpx.Response:
        return await self.webs[door].post(CALLS, content=offer, headers={**SDP, **headers})


@asynccontextmanager
async def doors(count: int = 3, **config: Any) -> AsyncIterator[Doors]:
    async with crowd(count) as made:
        opened = Doors(made)
        for number in range(count):
            opened.add(number, **config)
        try:
            yield opened
        finally:
            for web in opened.webs:
                await web.aclose()
            for forwarding in opened.forwardings:
                await forwarding.close()


def id_of(response: httpx.Response) -> str:
    assert response.status_code == 201, response.text
    return response.headers["location"].rpartition("/")[2]


def test_an_offer_is_answered_once_whichever_doors_it_comes_through() -> None:
    async def story() -> None:
        async with doors() as made:
            first = await made.post(0)
            call_id = id_of(first)
            for door in (0, 1, 2):
                again = await made.post(door)
                assert (id_of(again), again.text) == (call_id, first.text)
                assert again.headers["etag"] == first.headers["etag"]
            held = [server.stats()["held_offers"] for server in made.crowd.servers]
            assert sorted(held) == [0, 0, 1]
            assert held[server_of(call_id) or 0] == 1

    play(story)


def test_offers_are_spread() -> None:
    async def story() -> None:
        async with doors() as made:
            owners = set()
            for number in range(24):
                ufrag = f"a=ice-ufrag:u{number:03d}"
                offer = re.sub(r"a=ice-ufrag:\S+", ufrag, OFFER)
                owners.add(server_of(id_of(await made.post(0, offer))))
            assert owners == {0, 1, 2}

    play(story)


def test_a_call_is_known_at_every_door_until_it_has_ended() -> None:
    async def story() -> None:
        async with doors() as made:
            path = f"{CALLS}/{id_of(await made.post(1))}"
            for web in made.webs:
                stats = await web.get(f"{path}/stats")
                assert (stats.status_code, stats.json()["id"]) == (200, path.rpartition("/")[2])
                patch = await web.patch(path, content="", headers={})
                assert patch.status_code == 415
                assert patch.headers["accept-patch"] == "application/trickle-ice-sdpfrag"
            assert (await made.webs[2].post(f"{path}/hangup")).status_code == 200
            for web in made.webs:
                assert (await web.get(f"{path}/stats")).status_code == 404

    play(story)


def test_what_nobody_has_is_nobodys_at_every_door() -> None:
    async def story() -> None:
        async with doors() as made:
            for web in made.webs:
                for call_id in (UNKNOWN, "rtc_ffff" + "0" * 36, "rtc_1", "x"):
                    assert (await web.get(f"{CALLS}/{call_id}/stats")).status_code == 404
                assert (await web.get("/nothing")).status_code == 404
                assert (await web.get("/v1/client-config")).status_code == 200

    play(story)


@pytest.mark.parametrize("delay_s", [0.0, 0.1])
def test_an_offer_beside_an_attempt_finds_it(delay_s: float) -> None:
    async def story() -> None:
        async with doors() as made:
            answers: list[httpx.Response] = []

            async def post(offer: str, headers: Mapping[str, str]) -> Posted:
                await asyncio.sleep(delay_s)  # sooner or later than the first datagram
                for door in (0, 1, 2):
                    answers.append(await made.post(door, offer, **headers))
                last = answers[-1]
                return Posted(Status(last.headers["instant-status"]), last.text)

            for server in (0, 1, 2):
                answers.clear()
                async with InstantClient(post=post, config=CLIENT) as client:
                    fill(client, made.crowd.servers[server])
                    await client.connect()
                    async with asyncio.timeout(5):
                        while len(answers) < 3:
                            await asyncio.sleep(0.01)
                    assert {a.headers["instant-status"] for a in answers} == {"attached"}
                    assert len({id_of(answer) for answer in answers}) == 1
                    owner = server_of(id_of(answers[0]))
                    assert made.answered[-1][0] == owner

    play(story)


def test_pipecats_names_lead_to_their_server_too() -> None:
    async def story() -> None:
        async with doors() as made:
            body = {"sdp": OFFER, "type": "offer"}
            told = (await made.webs[0].post("/api/offer", json=body)).json()
            candidates = {"pc_id": told["pc_id"], "candidates": []}
            for web in made.webs:
                assert (await web.patch("/api/offer", json=candidates)).status_code == 200
                again = await web.post("/api/offer", json={**body, "pc_id": told["pc_id"]})
                assert again.json()["pc_id"] == told["pc_id"]
            gone = {**candidates, "pc_id": UNKNOWN}
            assert (await made.webs[0].patch("/api/offer", json=gone)).status_code == 404

    play(story)


def test_a_door_whose_server_drains_takes_offers_to_others_and_gives_out_tickets() -> None:
    async def story() -> None:
        async with doors() as made:
            before = id_of(await made.post(0))
            dry = server_of(before) or 0
            made.crowd.tell(draining=[dry])
            assert server_of(id_of(await made.post(dry, OFFER.replace("ufrag:", "ufrag:x")))) != dry
            assert (await made.webs[dry].get("/v1/instant")).status_code == 200
            assert (await made.webs[1].get(f"{CALLS}/{before}/stats")).status_code == 200
            made.crowd.tell(draining=[0, 1, 2])
            refused = await made.post(1, OFFER.replace("ufrag:", "ufrag:y"))
            assert refused.status_code == 503
            assert (await made.webs[0].get("/v1/instant")).status_code == 503

    play(story)


def test_what_a_server_that_has_gone_had_is_gone() -> None:
    async def story() -> None:
        async with doors() as made:
            call_id = id_of(await made.post(0))
            owner = server_of(call_id) or 0
            left = Roster.of(*({0, 1, 2} - {owner}))
            for number in left.alive:
                made.crowd.clusters[number].set_roster(left)
            [one, two] = sorted(left.alive)
            assert (await made.webs[one].get(f"{CALLS}/{call_id}/stats")).status_code == 404
            # and its offers are answered by those who are left, once
            assert id_of(await made.post(one)) == id_of(await made.post(two))

    play(story)


def test_a_server_that_does_not_answer_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.05)

    async def story() -> None:
        async with doors(2) as made:
            call_id = "rtc_0001" + "1" * 36
            streams: list[socket.socket] = []
            for answer in (streams.append, socket.socket.close):
                made.crowd.clusters[1].set_answer(answer)
                got = await made.webs[0].get(f"{CALLS}/{call_id}/stats")
                assert got.status_code == 404
            [stream] = streams
            stream.close()

    play(story)


def test_what_asks_nonsense_is_not_answered() -> None:
    async def story() -> None:
        async with doors(2) as made:
            for said in (b"", b"\xff" * 8, b"\0\0\0\2[]\0\0\0\0", b"\0\0\0\2{}\0\0\0\0"):
                stream = made.crowd.clusters[0].ask(1)
                reader, writer = await asyncio.open_connection(sock=stream)
                writer.write(said)
                writer.write_eof()
                async with asyncio.timeout(5):
                    assert await reader.read() == b""
                writer.close()

    play(story)


def test_an_application_that_fails_fails_for_whoever_asked() -> None:
    async def story() -> None:
        async with crowd(2) as made:
            reported: list[Any] = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))

            async def broken(scope: Any, receive: Any, send: Any) -> None:
                assert (await receive())["body"] == b""
                assert (await receive())["type"] == "http.disconnect"
                raise ValueError("broken")

            async def unused(ask: Any, kind: Any) -> Any:
                raise NotImplementedError

            one, two = [Forwarding(made.clusters[number], number) for number in (0, 1)]
            two.wrap(broken, unused)
            transport = httpx.ASGITransport(app=one.wrap(broken, unused))
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as web:
                response = await web.get(f"{CALLS}/rtc_0001{'1' * 36}/stats")
            assert response.status_code == 500
            assert [str(error) for error in reported] == ["broken"]
            loop.set_exception_handler(None)

    play(story)


def test_too_many_at_a_time_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ERRANDS", 0)

    async def story() -> None:
        async with doors(2) as made:
            call_id = "rtc_0001" + "1" * 36
            assert (await made.webs[0].get(f"{CALLS}/{call_id}/stats")).status_code == 404

    play(story)


def test_a_body_that_is_too_long_is_refused_where_it_comes() -> None:
    async def story() -> None:
        async with doors(2) as made:
            for size in (200_000, 300_000):
                refused = await made.post(0, "a=ice-ufrag:abcd" + "x" * size)
                assert refused.status_code == 413

    play(story)


def test_counts_are_those_of_all() -> None:
    async def story() -> None:
        async with doors() as made:
            for number in range(4):
                await made.post(number % 3, OFFER.replace("ufrag:", f"ufrag:{number}"))
            for web in made.webs:
                text = (await web.get("/metrics")).text
                assert "\ninstant_connect_calls 4\n" in text
                assert "\ninstant_connect_held_offers 4\n" in text
                assert text.count("# TYPE instant_connect_calls gauge") == 1

    play(story)


def test_an_errand_shows_no_secret() -> None:
    attempt = AttemptNames(ufrag="secret", proof="secret")
    errand = Errand.of_ask(Ask(body=b"x", attempt=attempt), Kind.WHIP)
    assert "secret" not in repr(errand)
    asked = errand.ask()
    assert asked is not None
    assert asked[0].attempt == attempt


def test_an_application_has_to_be_there() -> None:
    async def story() -> None:
        async with crowd(2) as made:
            forwarding = Forwarding(made.clusters[0], 0)
            web = httpx.ASGITransport(app=forwarding)
            async with httpx.AsyncClient(transport=web, base_url=BASE) as client:
                with pytest.raises(RuntimeError, match="wrap"):
                    await client.get("/")

    play(story)
