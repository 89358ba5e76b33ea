"""Bundles and offers over HTTP, first datagrams over UDP: they meet, in every order."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from starlette.requests import HTTPConnection

from instant_connect.admission import AdmissionConfig
from instant_connect.bundle import parse_bundle
from instant_connect.io import CallInfo, Kind, signalling_app
from instant_connect.io.client import InstantClient
from instant_connect.io.listening import InstantConfig
from instant_connect.sessions import Path
from tests.unit.instant_connect.io.instant_site import (
    CLIENT,
    OFFER,
    InstantSite,
    open_instant_site,
    until,
)
from tests.unit.instant_connect.io.site import CALLS, FRAGMENT, HOST, SDP, open_site
from tests.unit.io.support import OPUS, play, shifted, turns
from warp.io import Client, ClientConfig, Session, WarpError

OTHER_OFFER = re.sub(r"a=ice-ufrag:\S+", "a=ice-ufrag:another", OFFER)


def client_of(site: InstantSite) -> InstantClient:
    return InstantClient(post=site.post, config=CLIENT)


# -- bundles -----------------------------------------------------------------------------------


def test_a_bundle_is_given_out_and_stored_by_nobody() -> None:
    async def story() -> None:
        async with open_instant_site(policy=lambda request: int(request.headers["x-plan"])) as site:
            response = await site.web.get("/v1/instant", headers={"X-Plan": "7"})
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/json"
            assert response.headers["cache-control"] == "no-store"
            bundle = parse_bundle(response.text)
            assert len(bundle.tickets) == 3
            assert bundle.fallback == CALLS
            assert bundle.terms.candidates[0].address == (HOST, site.server.port)
            again = await site.web.get("/v1/instant", headers={"X-Plan": "7"})
            assert not set(parse_bundle(again.text).tickets) & set(bundle.tickets)
            told = (await site.web.get("/v1/client-config")).json()
            assert told["endpoints"]["instant"] == "/v1/instant"

    play(story)


def test_a_bundle_needs_what_a_call_needs() -> None:
    def authorize(request: HTTPConnection) -> bool:
        return request.headers.get("authorization") == "Bearer it-is-me"

    async def story() -> None:
        async with open_instant_site(authorize=authorize) as site:
            refused = await site.web.get("/v1/instant")
            assert refused.status_code == 401
            assert "tickets" not in refused.text
            given = await site.web.get("/v1/instant", headers={"Authorization": "Bearer it-is-me"})
            assert given.status_code == 200
            assert (await site.web.post("/v1/instant")).status_code == 405

    play(story)


def test_a_draining_server_gives_out_no_bundles_and_takes_no_offers() -> None:
    async def story() -> None:
        async with open_instant_site(retry_after_s=9) as site, client_of(site) as client:
            await site.fill(client)
            session = await client.connect()
            await site.accepted()
            site.server.drain()
            for response in (
                await site.web.get("/v1/instant"),
                await site.web.post(CALLS, content=OFFER, headers=SDP),
            ):
                assert response.status_code == 503
                assert response.headers["retry-after"] == "9"
            assert site.live == 1
            session.audio_out.send(OPUS)
            frame = await asyncio.wait_for(anext(site.answered[0][0].audio_in), 5)
            assert frame.payload == OPUS
            with pytest.raises((WarpError, AssertionError)):
                await client.connect(timeout_s=0.5)
            assert site.live == 1

    play(story)


def test_a_server_that_begins_sessions_by_signalling_only_has_no_bundles() -> None:
    async def story() -> None:
        async with open_site() as site:
            response = await site.client.get("/v1/instant")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "not_instant"
            assert (await site.client.get("/v1/client-config")).json()["endpoints"][
                "instant"
            ] is None
            # and whoever has one of an earlier server is told that it is of no use
            made = await site.post(**{"Instant-Ufrag": "u" * 151})
            assert made.headers["instant-status"] == "new"

    play(story)


# -- offers and first datagrams ----------------------------------------------------------------


@pytest.mark.parametrize("first", ["datagram", "offer", "both"])
def test_offer_and_datagram_meet(first: str) -> None:
    async def story() -> None:
        async with open_instant_site() as site, client_of(site) as client:
            await site.fill(client)
            if first != "both":
                site.hold = asyncio.Event()
            if first == "offer":
                # nothing of the first way arrives before the offer has been answered
                port = site.server.server.find_port((HOST, site.server.port))
                assert port is not None
                kept, port.unknown = port.unknown, lambda *_: None
                site.hold.set() if site.hold else None
                calling = asyncio.ensure_future(client.connect())
                await until(lambda: site.responses)
                assert site.live == 0
                port.unknown = kept
                session = await calling
            else:
                session = await client.connect()
            accepted, info = await site.accepted()
            if site.hold is not None and first == "datagram":
                assert (info.path, info.kind, info.events is None) == (
                    Path.INSTANT,
                    Kind.INSTANT,
                    False,
                )
                site.hold.set()
            await until(lambda: site.responses)
            [response] = site.responses
            assert response.headers["instant-status"] == "attached"
            place = response.headers["location"]
            assert place.rpartition("/")[2] == info.id
            assert site.live == 1
            told = (await site.web.get(f"{place}/stats")).json()
            assert (told["state"], told["path"]) == ("connected", "attached")
            # the first check is where the server's clock begins, answered at T0 or later
            assert told["milestones_ms"]["first_check"] == 0
            assert (await site.web.delete(place)).status_code == 200
            assert await asyncio.wait_for(accepted.closed, 5) is None
            assert await asyncio.wait_for(session.closed, 5) is None
            assert (await site.web.delete(place)).status_code == 404
            assert len(site.answered) == 1

    play(story)


def test_an_offer_alone_makes_no_session_and_calls_nobody() -> None:
    async def story() -> None:
        async with open_instant_site() as site, Client(CLIENT) as client:
            made: list[str] = []

            async def signal(offer: str) -> str:
                response = await site.web.post(f"{CALLS}?dcid=2", content=offer, headers=SDP)
                assert response.status_code == 201
                assert "instant-status" not in response.headers
                made.append(response.headers["location"])
                await turns()
                assert (site.live, site.answered) == (0, [])
                told = (await site.web.get(f"{made[0]}/stats")).json()
                assert (told["state"], told["path"]) == ("new", "signalled")
                return response.text

            session = await client.connect(signal)
            accepted, info = await site.accepted()
            assert (info.path, info.kind, info.dcid) == (Path.SIGNALLED, Kind.REALTIME, 2)
            assert info.events is not None
            events = session.channel("oai-events", negotiated=True, stream_id=2)
            await events.opened()
            events.send("hello")
            assert await asyncio.wait_for(anext(info.events), 5) == "hello"
            await session.close()
            await asyncio.wait_for(accepted.closed, 5)
            await turns()
            assert (await site.web.get(f"{made[0]}/stats")).status_code == 404

    play(story)


def test_the_application_hears_of_nobody_before_its_finished() -> None:
    """T1 is a shell: whoever replays a first datagram reaches no application."""

    async def story() -> None:
        async with open_instant_site() as site, client_of(site) as client:
            await site.fill(client)
            seen: list[int] = []
            kept = site.server.server.sessions
            assert kept == []
            site.server.set_greet(lambda arrival: seen.append(len(site.answered)))
            await client.connect()
            await site.accepted()
            assert seen == [0]

    play(story)


def test_a_coroutine_answers_calls_and_one_that_fails_ends_its_call_alone() -> None:
    heard: list[str] = []

    async def accept(session: Session, info: CallInfo) -> None:
        if not heard:
            heard.append("failed")
            raise ZeroDivisionError("a bug")
        heard.append(info.id)
        await session.closed
        heard.append("ended")

    async def story() -> None:
        async with open_instant_site(accept) as site, client_of(site) as client:
            await site.fill(client)
            reported: list[str] = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, what: reported.append(repr(what["exception"])))
            first = await client.connect()
            assert await asyncio.wait_for(first.closed, 5) is None
            assert reported == ["ZeroDivisionError('a bug')"]
            second = await client.connect()
            await until(lambda: len(heard) == 2)
            await second.close()
            await until(lambda: heard[-1] == "ended")

    play(story)


def test_an_application_that_raises_at_once_ends_its_call() -> None:
    def accept(session: Session, info: CallInfo) -> None:
        raise ZeroDivisionError("a bug")

    async def story() -> None:
        async with open_instant_site(accept) as site, client_of(site) as client:
            await site.fill(client)
            reported: list[str] = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, what: reported.append(repr(what["exception"])))
            session = await client.connect()
            assert await asyncio.wait_for(session.closed, 5) is None
            assert reported == ["ZeroDivisionError('a bug')"]

    play(story)


# -- asking again ------------------------------------------------------------------------------


def test_a_retry_finds_its_call_before_and_after_the_first_datagram() -> None:
    async def story() -> None:
        async with open_instant_site() as site, client_of(site) as client:
            await site.fill(client)
            await client.connect()
            _, info = await site.accepted()
            await until(lambda: site.responses)
            [first] = site.responses
            request = first.request
            again = await site.web.post(
                CALLS, content=request.content, headers=dict(request.headers)
            )
            assert (again.text, again.headers["location"]) == (
                first.text,
                first.headers["location"],
            )
            # Firefox needs a second connection, and may need a third: the attempt names the call
            headers = {**dict(request.headers), "content-length": str(len(OTHER_OFFER))}
            other = await site.web.post(CALLS, content=OTHER_OFFER, headers=headers)
            assert other.status_code == 201
            assert other.headers["instant-status"] == "attached"
            assert other.headers["location"].endswith(info.id)
            assert (site.live, len(site.answered)) == (1, 1)

    play(story)


def test_whoever_has_seen_a_ufrag_gets_a_call_of_his_own() -> None:
    async def story() -> None:
        async with open_instant_site() as site, client_of(site) as client:
            await site.fill(client)
            await client.connect()
            _, info = await site.accepted()
            await until(lambda: site.responses)
            ufrag = site.responses[0].request.headers["instant-ufrag"]
            for proof in ("", "x" * 32):
                response = await site.web.post(
                    CALLS,
                    content=OTHER_OFFER + f"a=x-{proof}\r\n",
                    headers={**SDP, "Instant-Ufrag": ufrag, "Instant-Proof": proof},
                )
                assert response.status_code == 201
                assert response.headers["instant-status"] == "new"
                assert not response.headers["location"].endswith(info.id)
                assert ufrag not in response.text

    play(story)


def test_a_stale_attempt_gets_a_new_call() -> None:
    async def story() -> None:
        async with open_instant_site() as site, client_of(site) as client:
            async with open_instant_site() as old:
                await old.fill(client)
            await client.connect()
            _, info = await site.accepted()
            assert info.path is Path.SIGNALLED
            assert site.responses[0].headers["instant-status"] == "new"
            assert site.live == 1

    play(story)


# -- before the first datagram -----------------------------------------------------------------


async def late(site: InstantSite, change: object) -> list[str]:
    """Place a call whose first datagram waits for `change(place)`, which returns the answer."""
    places: list[str] = []

    async def signal(offer: str) -> str:
        response = await site.web.post(CALLS, content=offer, headers=SDP)
        places.append(response.headers["location"])
        answer: str = await change(places[0], offer, response)  # type: ignore[operator]
        return answer

    async with Client(ClientConfig(host=HOST)) as client:
        session = await client.connect(signal)
        try:
            await session.connected(1.0)
            places.append("connected")
        except WarpError:
            places.append("not connected")
    return places


def test_a_call_that_is_hung_up_before_it_begins_never_begins() -> None:
    async def story() -> None:
        async with open_instant_site() as site:

            async def change(place: str, offer: str, response: object) -> str:
                assert (await site.web.delete(place)).status_code == 200
                assert (await site.web.delete(place)).status_code == 404
                return response.text  # type: ignore[attr-defined,no-any-return]

            assert (await late(site, change))[-1] == "not connected"
            assert (site.live, site.answered) == (0, [])

    play(story)


def test_another_offer_before_the_first_datagram() -> None:
    async def story() -> None:
        async with open_instant_site() as site:

            async def change(place: str, offer: str, response: object) -> str:
                put = await site.web.put(place, content=offer, headers=SDP)
                assert put.status_code == 200
                tag = response.headers["etag"]  # type: ignore[attr-defined]
                assert put.headers["etag"] == tag
                return put.text

            assert (await late(site, change))[-1] == "connected"
            assert (site.live, len(site.answered)) == (0, 1)

    play(story)


def test_candidates_before_the_first_datagram() -> None:
    async def story() -> None:
        async with open_instant_site() as site:

            async def change(place: str, offer: str, response: object) -> str:
                tag = response.headers["etag"]  # type: ignore[attr-defined]
                trickled = await site.web.patch(
                    place,
                    content=f"a=candidate:1 1 udp 1 {HOST} 9 typ host\r\na=end-of-candidates\r\n",
                    headers={**FRAGMENT, "If-Match": tag},
                )
                assert (trickled.status_code, trickled.content) == (204, b"")
                return response.text  # type: ignore[attr-defined,no-any-return]

            assert (await late(site, change))[-1] == "connected"

    play(story)


def test_a_restart_before_the_first_datagram() -> None:
    async def story() -> None:
        async with open_instant_site() as site:
            made = await site.web.post(CALLS, content=OFFER, headers=SDP)
            place = made.headers["location"]
            fragment = "a=ice-ufrag:fresh\r\na=ice-pwd:" + "f" * 24 + "\r\n"
            restarted = await site.web.patch(place, content=fragment, headers=FRAGMENT)
            assert restarted.status_code == 200
            assert restarted.headers["etag"] != made.headers["etag"]
            first = re.findall(r"a=ice-ufrag:(\S+)", made.text)[0]
            second = re.findall(r"a=ice-ufrag:(\S+)", restarted.text)[0]
            assert first != second
            assert (await site.web.get(f"{place}/stats")).json()["state"] == "new"
            assert site.server.stats()["held_offers"] == 1
            assert (await site.web.delete(place)).status_code == 200
            assert site.server.stats()["held_offers"] == 0

    play(story)


def test_a_call_that_nobody_takes_up_is_forgotten() -> None:
    async def story() -> None:
        instant = InstantConfig(limits=AdmissionConfig(hold_s=5.0))
        async with open_instant_site(instant=instant) as site:
            made = await site.web.post(CALLS, content=OFFER, headers=SDP)
            place = made.headers["location"]
            await shifted().pass_time(4.0)
            assert (await site.web.get(f"{place}/stats")).status_code == 200
            await shifted().pass_time(2.0)
            assert (await site.web.get(f"{place}/stats")).status_code == 404
            # the same offer again is a new call
            again = await site.web.post(CALLS, content=OFFER, headers=SDP)
            assert again.headers["location"] != place

    play(story)


# -- limits ------------------------------------------------------------------------------------


def test_one_call_too_many_is_refused_also_beside_a_stale_attempt() -> None:
    async def story() -> None:
        async with open_instant_site(max_calls=1) as site:
            assert (await site.web.post(CALLS, content=OFFER, headers=SDP)).status_code == 201
            for headers in ({}, {"Instant-Ufrag": "u" * 151}):
                refused = await site.web.post(
                    CALLS, content=OTHER_OFFER, headers={**SDP, **headers}
                )
                assert refused.status_code == 503
            assert site.server.stats()["held_offers"] == 1

    play(story)


def test_calls_by_tickets_are_calls_too() -> None:
    """Beyond `max_calls` a first datagram is dropped, and its offer told why."""

    async def story() -> None:
        async with (
            open_instant_site(max_calls=1) as site,
            client_of(site) as one,
            client_of(site) as two,
        ):
            for client in (one, two):
                await site.fill(client)
            session = await one.connect()
            await site.accepted()
            with pytest.raises((WarpError, AssertionError)):
                await two.connect(timeout_s=1.0)
            assert (site.live, len(site.answered)) == (1, 1)
            assert site.responses[-1].status_code == 503
            assert site.server.stats()["dropped"]
            # and then there is room again
            await session.close()
            await until(lambda: site.live == 0)
            await site.fill(two)
            await two.connect()
            await site.accepted(2)

    play(story)


def test_whoever_answers_says_when_there_is_no_room_also_for_tickets() -> None:
    async def story() -> None:
        full: list[str] = []
        async with (
            open_instant_site(room=lambda: full[0] if full else None) as site,
            client_of(site) as client,
        ):
            await site.fill(client)
            full.append("all 16 voices are talking")
            with pytest.raises((WarpError, AssertionError)):
                await client.connect(timeout_s=1.0)
            assert site.live == 0
            refused = site.responses[-1]
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            assert refused.json()["error"]["code"] == "session_capacity"
            assert full[0] in refused.json()["error"]["message"]
            full.clear()
            await client.connect()
            await site.accepted()

    play(story)


def test_whoever_asks_too_often_is_told_when_to_come_back() -> None:
    async def story() -> None:
        async with open_instant_site(rate_per_s=0.5, burst=3) as site:
            for _ in range(3):
                assert (await site.web.get("/v1/instant")).status_code == 200
            refused = await site.web.post(CALLS, content=OFFER, headers=SDP)
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "2"
            assert refused.json()["error"]["code"] == "rate_limited"
            # what does not begin anything is not counted
            assert (await site.web.get("/v1/client-config")).status_code == 200
            await shifted().pass_time(2.0)
            assert (await site.web.get("/v1/instant")).status_code == 200
            assert (await site.web.get("/v1/instant")).status_code == 429

    play(story)


def test_one_token_is_one_client_and_guesses_are_counted() -> None:
    def authorize(request: HTTPConnection) -> bool:
        return request.headers.get("authorization") in ("Bearer one", "Bearer two")

    async def story() -> None:
        async with open_instant_site(authorize=authorize, rate_per_s=0.1, burst=4) as site:
            seen = []
            for token in ("guess", "one", "one", "two", "one"):
                headers = {"Authorization": f"Bearer {token}"}
                seen.append((await site.web.get("/v1/instant", headers=headers)).status_code)
            assert seen == [401, 200, 200, 200, 429]

    play(story)


def test_metrics_are_there_for_whoever_may_call() -> None:
    def authorize(request: HTTPConnection) -> bool:
        return request.headers.get("authorization") == "Bearer one"

    async def story() -> None:
        async with open_instant_site(authorize=authorize) as site:
            assert (await site.web.get("/metrics")).status_code == 401
            headers = {"Authorization": "Bearer one"}
            await site.web.post(CALLS, content=OFFER, headers={**SDP, **headers})
            response = await site.web.get("/metrics", headers=headers)
            assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert "instant_connect_calls 1" in response.text
            assert "instant_connect_held_offers 1" in response.text
        async with open_site(more_metrics=lambda: "voices 3\n") as plain:
            text = (await plain.client.get("/metrics")).text
            assert "instant_connect_calls 0" in text
            assert text.endswith("\nvoices 3\n")

    play(story)


def test_an_application_beside_another() -> None:
    """Closing an application ends what it was given, and what it has promised."""

    async def story() -> None:
        async with open_instant_site() as site:
            await site.web.post(CALLS, content=OFFER, headers=SDP)
            app = signalling_app(site.server, accept=lambda session, info: None)
            async with app.router.lifespan_context(app):
                pass
            assert site.server.stats()["held_offers"] == 1

    play(story)


def test_no_secret_in_refusals_and_representations() -> None:
    async def story() -> None:
        async with open_instant_site() as site:
            text = (await site.web.get("/v1/instant")).text
            secrets = [item[name] for item in json.loads(text)["tickets"] for name in ("t", "pwd")]
            bundle = parse_bundle(text)
            shown = repr((bundle, bundle.tickets, site.server.host.entrance.keyring))
            refused = await site.web.post(
                CALLS,
                content="nonsense",
                headers={**SDP, "Instant-Ufrag": secrets[0], "Instant-Proof": secrets[1]},
            )
            assert refused.status_code == 400
            for secret in secrets:
                assert secret not in shown
                assert secret not in refused.text

    play(story)
