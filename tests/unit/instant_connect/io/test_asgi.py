"""Signalling as HTTP: statuses and headers of RFC 9725, refusals in JSON, who may ask."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from instant_connect.io import CallInfo, IceServer, Kind
from tests.unit.instant_connect.io.site import (
    BASE,
    CALLS,
    FRAGMENT,
    HOST,
    OFFER,
    SDP,
    open_site,
)
from tests.unit.io.support import play, turns
from tests.unit.sdp import shapes
from tests.unit.sdp.build import CAPTURES, capture
from warp.datachannel import ChannelState
from warp.io import ServerConfig, Session
from warp.sdp import parse_description

ID = "rtc_" + "0" * 40
OFFERS = {
    **{path.stem: path.read_text() for path in CAPTURES.glob("*_offer.sdp")},
    **shapes.ALL,
}


def fault(response: httpx.Response) -> dict[str, Any]:
    """What a refusal says, when it says it as every one should."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    error: dict[str, Any] = response.json()["error"]
    assert {"type", "code", "message"} <= set(error)
    return error


# -- a call ------------------------------------------------------------------------------------


def test_a_whip_session_from_begin_to_end() -> None:
    async def story() -> None:
        async with open_site() as site:
            made = await site.post()
            assert made.status_code == 201
            assert made.headers["content-type"] == "application/sdp"
            assert made.headers["cache-control"] == "no-store"
            assert made.headers["x-content-type-options"] == "nosniff"
            assert made.headers["accept-patch"] == "application/trickle-ice-sdpfrag"
            tag, place = made.headers["etag"], made.headers["location"]
            assert parse_description(made.text).ice_lite
            assert len(site.server.sessions) == 1
            trickled = await site.client.patch(
                place,
                content=f"a=candidate:1 1 udp 1 {HOST} 9 typ host\r\n",
                headers={**FRAGMENT, "If-Match": tag},
            )
            assert (trickled.status_code, trickled.content) == (204, b"")
            assert "etag" not in trickled.headers
            ended = await site.client.delete(place)
            assert ended.status_code == 200
            assert site.server.sessions == []
            for method in ("DELETE", "PATCH"):
                gone = await site.client.request(
                    method, place, content="a=mid:0\r\n", headers=FRAGMENT
                )
                assert gone.status_code == 404
                assert fault(gone)["code"] == "call_not_found"

    play(story)


def test_a_restart_gives_new_credentials_of_both_sides() -> None:
    async def story() -> None:
        async with open_site() as site:
            made = await site.post()
            fragment = "a=ice-ufrag:fresh\r\na=ice-pwd:" + "f" * 24 + "\r\n"
            place = made.headers["location"]
            response = await site.client.patch(place, content=fragment, headers=FRAGMENT)
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/trickle-ice-sdpfrag"
            assert response.headers["etag"] != made.headers["etag"]
            [session] = site.server.sessions
            assert f"a=ice-ufrag:{session.peer.local_ufrag}\r\n" in response.text
            assert session.peer.local_ufrag not in made.text
            assert "a=ice-ufrag:fresh" in session.remote_description

    play(story)


@pytest.mark.parametrize("name", sorted(OFFERS))
@pytest.mark.parametrize("path", ["/whip", CALLS])
def test_offers_of_every_kind_of_peer_are_answered(path: str, name: str) -> None:
    async def story() -> None:
        # "video first" is an offer of a lite agent: somebody has to check
        async with open_site(server=ServerConfig(lite=name != "video first")) as site:
            response = await site.post(path, OFFERS[name])
            assert response.status_code == 201, response.text
            offer, answer = parse_description(OFFERS[name]), parse_description(response.text)
            assert [m.kind for m in answer.media] == [m.kind for m in offer.media]
            assert [m.mid for m in answer.media] == [m.mid for m in offer.media]
            for section in answer.media:
                assert section.rejected is (section.kind == "video")
            # an answer is complete: nothing is gathered, nothing follows
            assert f" {HOST} {site.server.port} typ host" in response.text

    play(story)


def test_data_may_come_first_and_audio_twice() -> None:
    """Chromium with alwaysNegotiateDataChannels, and a page with two microphones."""
    data = OFFER[OFFER.index("m=application") :]
    audio = OFFER[OFFER.index("m=audio") : OFFER.index("m=application")]
    head = OFFER[: OFFER.index("m=audio")].replace("BUNDLE 0 1", "BUNDLE 1 0 2")
    offer = head + data + audio + audio.replace("a=mid:0", "a=mid:2")

    async def story() -> None:
        async with open_site() as site:
            answer = parse_description((await site.post(offer=offer)).text)
            assert [m.rejected for m in answer.media] == [False, False, True]
            assert answer.bundles == (("1", "0"),)

    play(story)


def test_a_retry_finds_its_call() -> None:
    async def story() -> None:
        async with open_site() as site:
            first, again = await site.post(), await site.post()
            assert (first.text, first.headers["location"]) == (
                again.text,
                again.headers["location"],
            )
            assert len(site.server.sessions) == len(site.answered) == 1

    play(story)


def test_a_call_of_voice_apis() -> None:
    async def story() -> None:
        async with open_site() as site:
            made = await site.post(CALLS + "?dcid=3")
            place = made.headers["location"]
            assert place.startswith(f"{CALLS}/rtc_")
            [(session, info)] = site.answered
            assert info.kind is Kind.REALTIME
            assert (info.id, info.client, info.dcid) == (place.rpartition("/")[2], "192.0.2.1", 3)
            assert info.events is not None
            assert (info.events.label, info.events.stream_id) == ("oai-events", 3)
            assert info.events.state is ChannelState.CONNECTING
            told = (await site.client.get(f"{place}/stats")).json()
            assert (told["id"], told["state"]) == (info.id, "connecting")
            assert told["signalling"]["took_ms"] >= 0
            assert told["ice"] == {"lite": True, "role": "controlled", "rtt_ms": None}
            ended = await site.client.post(f"{place}/hangup")
            assert ended.status_code == 200
            assert await session.closed is None
            assert (await site.client.get(f"{place}/stats")).status_code == 404

    play(story)


def test_a_form_carries_the_session() -> None:
    async def story() -> None:
        async with open_site() as site:
            session = {"type": "realtime", "model": "echo", "audio": {"output": {"voice": "x"}}}
            parts = {"sdp": (None, OFFER), "session": (None, json.dumps(session))}
            made = await site.client.post(CALLS, files=parts)
            assert made.status_code == 201, made.text
            assert site.answered[0][1].config == session
            # as files with types of their own, as curl sends them
            files = {
                "sdp": ("offer.sdp", shapes.FIREFOX, "application/sdp"),
                "session": ("session.json", "{}", "application/json"),
            }
            assert (await site.client.post(CALLS, files=files)).status_code == 201

    play(story)


def test_another_offer_in_mid_call() -> None:
    async def story() -> None:
        async with open_site() as site:
            made = await site.post(CALLS)
            place = made.headers["location"]
            again = OFFER.replace("a=sendrecv", "a=recvonly")
            response = await site.client.put(place, content=again, headers=SDP)
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/sdp"
            assert "a=sendonly" in response.text
            other = again.replace("5B:AB:EF", "5B:AB:EE")
            refused = await site.client.put(place, content=other, headers=SDP)
            assert (refused.status_code, fault(refused)["code"]) == (409, "not_renegotiable")
            assert "make a new connection" in fault(refused)["message"]
            # WHIP renegotiates nothing but ICE
            whip = await site.post()
            refused = await site.client.put(whip.headers["location"], content=OFFER, headers=SDP)
            assert refused.status_code == 405

    play(story)


def test_stun_and_turn_servers_are_told() -> None:
    servers = (
        IceServer(url="stun:stun.example"),
        IceServer(url="turn:turn.example", username="u", credential="secret"),
    )

    async def story() -> None:
        async with open_site(ice_servers=servers) as site:
            made = await site.post()
            assert made.headers.get_list("link") == [server.link() for server in servers]
            told = await site.client.get("/v1/client-config")
            # credentials are for those who may call
            assert told.json()["ice_servers"] == [{"urls": "stun:stun.example"}]

    play(story)


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/whip", CALLS])
@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"", SDP, 400, "empty_body"),
        (b"\xff\xfe", SDP, 400, "invalid_utf8"),
        (b"nonsense", SDP, 400, "invalid_sdp"),
        (OFFER.encode(), {}, 415, "unsupported_media_type"),
        (OFFER.encode(), {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        (b"{}", {"Content-Type": "application/json"}, 415, "unsupported_media_type"),
        (b"x" * 65_537, SDP, 413, "too_large"),
        (b"x" * 10_000_000, SDP, 413, "too_large"),
        (b"v=0\r\n" + b"a=x\r\n" * 12_000, SDP, 400, "invalid_sdp"),
    ],
)
def test_what_is_no_offer(
    path: str, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    async def story() -> None:
        async with open_site() as site:
            response = await site.client.post(path, content=body, headers=headers)
            assert (response.status_code, fault(response)["code"]) == (status, code)
            assert site.server.sessions == []
            # and the next one is served
            assert (await site.post(path)).status_code == 201

    play(story)


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        ("multipart/form-data", b"", "invalid_form"),
        ("multipart/form-data; boundary=x", b"", "invalid_form"),
        ("multipart/form-data; boundary=x", b"--x--\r\n", "missing_part"),
        ("multipart/form-data; boundary=x", b"nonsense", "invalid_form"),
    ],
)
def test_what_is_no_form(content_type: str, body: bytes, code: str) -> None:
    async def story() -> None:
        async with open_site() as site:
            headers = {"Content-Type": content_type}
            response = await site.client.post(CALLS, content=body, headers=headers)
            assert (response.status_code, fault(response)["code"]) == (400, code)
            # no form is taken by WHIP, whatever it holds
            response = await site.client.post("/whip", content=body, headers=headers)
            assert response.status_code == 415

    play(story)


def test_a_wrong_description_is_told_line_and_rule() -> None:
    async def story() -> None:
        async with open_site() as site:
            told = fault(
                await site.post(offer=OFFER.replace("a=setup:actpass", "a=setup:holdconn"))
            )
            assert (told["param"], told["rule"], told["line"]) == ("sdp", "setup", 16)
            assert "actpass, active or passive" in told["message"]

    play(story)


def test_an_offer_with_nothing_for_us_is_not_acceptable() -> None:
    video = OFFER[: OFFER.index("m=audio")].replace("BUNDLE 0 1", "BUNDLE 0") + (
        "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\na=rtcp-mux\r\na=rtpmap:96 VP8/90000\r\n"
    )

    async def story() -> None:
        async with open_site() as site:
            response = await site.post(offer=video)
            assert (response.status_code, fault(response)["code"]) == (406, "nothing_acceptable")

    play(story)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/whip", "OPTIONS, POST"),
        ("PUT", "/whip", "OPTIONS, POST"),
        ("DELETE", CALLS, "OPTIONS, POST"),
        ("GET", f"/whip/{ID}", "DELETE, OPTIONS, PATCH"),
        ("POST", f"/whip/{ID}", "DELETE, OPTIONS, PATCH"),
        ("GET", f"{CALLS}/{ID}", "DELETE, OPTIONS, PATCH, PUT"),
        ("GET", f"{CALLS}/{ID}/hangup", "OPTIONS, POST"),
        ("POST", f"{CALLS}/{ID}/stats", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/client-config", "GET, HEAD, OPTIONS"),
    ],
)
def test_methods_that_are_not_served(method: str, path: str, allowed: str) -> None:
    async def story() -> None:
        async with open_site() as site:
            response = await site.client.request(method, path)
            assert response.status_code == 405
            assert response.headers["allow"] == allowed
            assert fault(response)["code"] == "method_not_allowed"

    play(story)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("POST", "/offer"),
        ("GET", "/offer"),
        ("GET", "/v1"),
        ("GET", f"{CALLS}/{ID}/stats"),
        ("DELETE", f"{CALLS}/{ID}"),
        ("GET", f"{CALLS}/{ID}/other"),
    ],
)
def test_what_is_not_there(method: str, path: str) -> None:
    async def story() -> None:
        async with open_site() as site:
            response = await site.client.request(method, path)
            assert response.status_code == 404
            fault(response)

    play(story)


def test_an_odd_method_is_not_served_either() -> None:
    async def story() -> None:
        async with open_site() as site:
            response = await site.client.request("TRACE", "/whip")
            assert (response.status_code, fault(response)["code"]) == (405, "method_not_allowed")

    play(story)


@pytest.mark.parametrize(
    ("path", "header", "told"),
    [
        ("/whip", "accept-post", "application/sdp"),
        (CALLS, "accept-post", "application/sdp, multipart/form-data"),
        (f"/whip/{ID}", "accept-patch", "application/trickle-ice-sdpfrag"),
        (f"{CALLS}/{ID}", "accept-patch", "application/trickle-ice-sdpfrag"),
    ],
)
def test_options_tell_what_is_taken(path: str, header: str, told: str) -> None:
    async def story() -> None:
        async with open_site() as site:
            response = await site.client.options(path)
            assert (response.status_code, response.headers[header]) == (200, told)

    play(story)


def test_a_full_house_says_when_to_come_back() -> None:
    async def story() -> None:
        async with open_site(max_calls=1, retry_after_s=9) as site:
            first = await site.post()
            response = await site.post(offer=shapes.FIREFOX)
            assert (response.status_code, fault(response)["code"]) == (503, "server_full")
            assert response.headers["retry-after"] == "9"
            await site.client.delete(first.headers["location"])
            assert (await site.post(offer=shapes.FIREFOX)).status_code == 201
        async with open_site(server=ServerConfig(max_sessions=1)) as site:
            await site.post()
            response = await site.post(offer=shapes.FIREFOX)
            assert (response.status_code, fault(response)["code"]) == (503, "server_full")

    play(story)


def test_a_server_that_is_closing_says_so() -> None:
    async def story() -> None:
        async with open_site() as site:
            await site.server.close()
            assert (await site.post()).status_code == 503

    play(story)


def test_a_call_that_ends_by_itself_is_forgotten() -> None:
    async def story() -> None:
        async with open_site(max_calls=1) as site:
            made = await site.post()
            await site.server.sessions[0].close()
            await turns()
            gone = await site.client.delete(made.headers["location"])
            assert gone.status_code == 404
            assert (await site.post(offer=shapes.FIREFOX)).status_code == 201

    play(story)


# -- who may ask -------------------------------------------------------------------------------


def test_whoever_must_not_call_is_told_how() -> None:
    def authorize(request: HTTPConnection) -> bool:
        return request.headers.get("authorization") == "Bearer right"

    async def story() -> None:
        async with open_site(authorize=authorize) as site:
            good = {"Authorization": "Bearer right"}
            place = (await site.post(CALLS, **good)).headers["location"]
            asks = [
                ("POST", "/whip", SDP),
                ("POST", CALLS, SDP),
                ("PUT", place, SDP),
                ("PATCH", place, FRAGMENT),
                ("GET", f"{place}/stats", {}),
                ("POST", f"{place}/hangup", {}),
                ("DELETE", place, {}),
            ]
            for method, path, headers in asks:
                response = await site.client.request(method, path, content=OFFER, headers=headers)
                assert response.status_code == 401, (method, path)
                assert response.headers["www-authenticate"] == "Bearer"
                assert fault(response)["type"] == "authentication_error"
            # the page and what it has to know are for everybody
            told = (await site.client.get("/v1/client-config")).json()
            assert told["authorization"] == "bearer"
            assert (await site.client.get("/")).status_code == 200
            assert (await site.client.options("/whip")).status_code == 200
            assert (await site.client.delete(place, headers=good)).status_code == 200

    play(story)


def test_who_may_call_may_take_time_to_find_out() -> None:
    async def authorize(request: HTTPConnection) -> bool:
        return request.url.path == "/whip"

    async def story() -> None:
        async with open_site(authorize=authorize) as site:
            assert (await site.post("/whip")).status_code == 201
            assert (await site.post(CALLS)).status_code == 401

    play(story)


def test_pages_elsewhere_need_leave() -> None:
    page = "https://app.example"

    async def story() -> None:
        async with open_site() as site:
            refused = await site.post(Origin=page)
            assert (refused.status_code, fault(refused)["code"]) == (403, "origin_not_allowed")
            assert (await site.post(Origin=BASE)).status_code == 201
        async with open_site(cors_origins=(page,)) as site:
            made = await site.post(Origin=page)
            assert made.status_code == 201
            assert made.headers["access-control-allow-origin"] == page
            assert "Location" in made.headers["access-control-expose-headers"]
            asks = {"Origin": page, "Access-Control-Request-Method": "PATCH"}
            told = await site.client.options(made.headers["location"], headers=asks)
            assert told.status_code == 200
            assert "PATCH" in told.headers["access-control-allow-methods"]
            assert "If-Match" in told.headers["access-control-allow-headers"]
            assert told.headers["access-control-allow-origin"] == page
            # a page that may call may read why it was refused as well
            refused = await site.post(offer="nonsense", Origin=page)
            assert refused.headers["access-control-allow-origin"] == page
            asks["Origin"] = "https://evil.example"
            told = await site.client.options("/whip", headers=asks)
            assert "access-control-allow-origin" not in told.headers

    play(story)


# -- the application that answers --------------------------------------------------------------


def test_an_application_that_fails_fails_alone() -> None:
    calls: list[Session] = []

    def accept(session: Session, info: CallInfo) -> None:
        calls.append(session)
        if len(calls) == 1:
            raise ZeroDivisionError("a bug")

    reported: list[str] = []

    async def story() -> None:
        async with open_site(accept) as site:
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: reported.append(repr(context["exception"]))
            )
            failed = await site.post()
            assert (failed.status_code, fault(failed)["code"]) == (500, "internal_error")
            assert "bug" not in failed.text
            assert await calls[0].closed is None
            assert (await site.post()).status_code == 201

    play(story)
    assert reported == ["ZeroDivisionError('a bug')"]


def test_a_stream_id_that_is_taken_is_refused() -> None:
    async def story() -> None:
        async with open_site() as site:
            for dcid, status in (("65534", 201), ("65535", 400), ("x", 400)):
                made = await site.post(f"{CALLS}?dcid={dcid}", capture("chromium156_default_offer"))
                assert made.status_code == status, made.text

    play(story)
