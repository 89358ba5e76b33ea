"""Offers and candidates in JSON, as pipecat's clients send them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from instant_connect.io import Kind
from instant_connect.sessions import Path
from tests.unit.instant_connect.io.instant_site import CLIENT, OFFER, open_instant_site, until
from tests.unit.instant_connect.io.site import HOST, open_site
from tests.unit.io.support import play
from warp.io import Client

DOOR = "/api/offer"
CANDIDATE = {
    "candidate": f"candidate:1 1 udp 1 {HOST} 9 typ host",
    "sdp_mid": "0",
    "sdp_mline_index": 0,
}


def offer(**more: Any) -> dict[str, Any]:
    return {"sdp": OFFER, "type": "offer", **more}


def fault(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def talk(web: httpx.AsyncClient, answered: list[Any]) -> str:
    """A call with candidates, another offer and a restart; its name."""
    told: list[dict[str, Any]] = []

    async def signal(sdp: str) -> str:
        body = {"sdp": sdp, "type": "offer", "request_data": {"voice": "x"}}
        response = await web.post(DOOR, json=body)
        assert response.status_code == 200, response.text
        told.append(response.json())
        items = [CANDIDATE, {**CANDIDATE, "candidate": ""}]
        patch = {"pc_id": told[0]["pc_id"], "candidates": items}
        trickled = await web.patch(DOOR, json=patch)
        assert (trickled.status_code, trickled.json()) == (200, {"status": "success"})
        return str(told[0]["sdp"])

    async def again(sdp: str) -> str:
        body = {"sdp": sdp, "type": "offer", "pc_id": told[0]["pc_id"]}
        response = await web.post(DOOR, json=body)
        assert response.json()["pc_id"] == told[0]["pc_id"]
        return str(response.json()["sdp"])

    async with Client(CLIENT) as client:
        session = await client.connect(signal)
        await session.connected(5)
        assert set(told[0]) == {"sdp", "type", "pc_id"}
        assert told[0]["type"] == "answer"
        await session.renegotiate(again)
        await session.renegotiate(again, ice_restart=True)
        await until(lambda: answered)
        ended = await web.delete(f"/v1/realtime/calls/{told[0]['pc_id']}")
        assert ended.status_code == 200
    return str(told[0]["pc_id"])


def test_a_call_from_its_offer_to_its_end() -> None:
    async def story() -> None:
        async with open_instant_site() as site:
            name = await talk(site.web, site.answered)
            _, info = await site.accepted()
            assert (info.id, info.kind, info.path) == (name, Kind.PIPECAT, Path.SIGNALLED)
            assert info.config == {"voice": "x"}

    play(story)


def test_a_call_where_only_signalling_makes_sessions() -> None:
    async def story() -> None:
        async with open_site() as site:
            name = await talk(site.client, site.answered)
            [(_, info)] = site.answered
            assert (info.id, info.kind, info.path) == (name, Kind.PIPECAT, None)

    play(story)


def test_a_restarted_connection_is_another_call() -> None:
    async def story() -> None:
        async with open_instant_site() as site:
            first = (await site.web.post(DOOR, json=offer())).json()["pc_id"]
            body = offer(pc_id=first, restart_pc=True)
            second = (await site.web.post(DOOR, json=body)).json()["pc_id"]
            assert second != first
            assert site.server.stats()["held_offers"] == 1
            gone = await site.web.delete(f"/v1/realtime/calls/{first}")
            assert gone.status_code == 404
            # a name that nobody has begins a call, and a retry finds the call that it began
            third = (await site.web.post(DOOR, json=offer(pc_id="nobody"))).json()["pc_id"]
            assert third == second

    play(story)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("nonsense", "invalid_json"),
        ("[]", "invalid_session"),
        ('{"type": "offer"}', "missing_sdp"),
        ('{"sdp": 3, "type": "offer"}', "missing_sdp"),
        ('{"sdp": "v=0", "type": "answer"}', "invalid_type"),
        ('{"sdp": "v=0", "type": "offer"}', "invalid_sdp"),
        ('{"sdp": "v=0", "type": "offer", "pc_id": 7}', "invalid_pc_id"),
        ("", "empty_body"),
    ],
)
def test_what_is_no_offer(body: str, code: str) -> None:
    async def story() -> None:
        async with open_instant_site() as site:
            headers = {"Content-Type": "application/json"}
            response = await site.web.post(DOOR, content=body, headers=headers)
            assert fault(response) == (400, code)
            wrong = await site.web.post(DOOR, content=body, headers={"Content-Type": "text/x"})
            assert wrong.status_code == 415

    play(story)


@pytest.mark.parametrize("candidates", [None, [3], [{}], [{"candidate": "x"}] * 101])
def test_what_are_no_candidates(candidates: Any) -> None:
    async def story() -> None:
        async with open_instant_site() as site:
            name = (await site.web.post(DOOR, json=offer())).json()["pc_id"]
            body = {"pc_id": name, "candidates": candidates}
            refused = await site.web.patch(DOOR, json=body)
            assert fault(refused) == (400, "invalid_candidates")
            unknown = await site.web.patch(DOOR, json={"pc_id": "x", "candidates": []})
            assert fault(unknown) == (404, "call_not_found")
            # one that cannot be used is left out
            odd = {"pc_id": name, "candidates": [{"candidate": "candidate:nonsense"}]}
            assert (await site.web.patch(DOOR, json=odd)).status_code == 200

    play(story)
