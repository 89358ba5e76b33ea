"""The example runs: somebody else's application, our routes beside theirs, a call through it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from tests.unit.io.support import OPUS
from tests.unit.tools.web_server import web_server
from warp.io import ClientConfig, connect

PATH = Path(__file__).resolve().parents[3] / "examples" / "fastapi_app.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fastapi_app", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_call_through_somebody_elses_application() -> None:
    async def story() -> None:
        async with (
            web_server(example().app) as url,
            httpx.AsyncClient(base_url=url) as web,
        ):
            assert (await web.get("/health")).json() == {"status": "ok"}
            assert (await web.get("/voice/")).headers["content-type"].startswith("text/html")
            assert (await web.get("/voice")).is_redirect
            told = (await web.get("/voice/v1/client-config")).json()
            assert told["endpoints"]["calls"] == "/voice/v1/realtime/calls"
            places = []

            async def signal(offer: str) -> str:
                path = f"{told['endpoints']['calls']}?dcid={told['events']['dcid']}"
                response = await web.post(
                    path, content=offer, headers={"Content-Type": "application/sdp"}
                )
                places.append(response.headers["location"])
                return response.text

            config = ClientConfig(host="127.0.0.1", loopback=True)
            async with await connect(signal, config=config) as session:
                dcid = told["events"]["dcid"]
                events = session.channel("oai-events", negotiated=True, stream_id=dcid)
                [place] = places
                assert place.startswith("/voice/v1/realtime/calls/rtc_")
                created = json.loads(str(await anext(events)))
                assert created["session"]["id"] == place.rpartition("/")[2]
                for _ in range(10):
                    session.audio_out.send(OPUS)
                frame = await anext(aiter(session.audio_in))
                assert frame.payload == OPUS
                assert (await web.delete(place)).status_code == 200
                assert await session.closed is None

    asyncio.run(story())
