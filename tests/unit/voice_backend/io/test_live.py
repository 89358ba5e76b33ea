"""Live sessions over real sockets, by the contract's public client."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx
import pytest
import websockets
from openai import APIStatusError

from tests.unit.voice_backend.io.live_site import live_site
from voice_backend.live import LiveConfig
from voice_backend.models.scripted import Raise, Say
from warp_tools import web

WAIT_S = 20.0
FRAME = base64.b64encode(bytes(960)).decode()


async def until(connection: Any, kind: str, seen: list[Any]) -> Any:
    async with asyncio.timeout(WAIT_S):
        async for event in connection:
            seen.append(event)
            if event.type == kind:
                return event
    raise AssertionError(f"the connection ended before {kind}")


@pytest.mark.slow
def test_a_conversation_over_a_websocket() -> None:
    async def main() -> None:
        async with (
            live_site() as site,
            site.client() as client,
            client.live.connect() as connection,
        ):
            seen: list[Any] = []
            await connection.session.start(
                session={
                    "model": "scripted",
                    "audio": {"format": {"type": "audio/pcm", "rate": 24000}},
                    "delegation": {"type": "client", "acknowledgement_delay_ms": 60_000},
                }
            )
            started = await until(connection, "session.started", seen)
            assert started.session.id.startswith("live_")

            async def speak() -> None:
                while True:
                    await connection.session.input_audio.append(audio=FRAME)
                    await asyncio.sleep(0.02)

            speaking = asyncio.create_task(speak())
            created = await until(connection, "session.delegation.created", seen)
            assert (created.delegation.id, created.delegation.target) == ("dlg_1", "client")
            await connection.session.commentary.append(
                content="It is noon.", delegation_id=created.delegation.id
            )
            heard = await until(connection, "session.commentary.appended", seen)
            assert heard.start_ms >= 500
            said = ""
            while "It is noon." not in said:
                said += (await until(connection, "session.output_transcript.delta", seen)).delta
            assert said == "let me see It is noon."
            speaking.cancel()
            await connection.session.close()
            closed = await until(connection, "session.closed", seen)
            assert closed.reason == "close_requested"
            assert closed.usage.seconds > 1.0
            asked = [e for e in seen if e.type == "session.input_transcript.delta"]
            assert [(e.delta, e.end_ms) for e in asked] == [("what is the time", 520)]
            sound = b"".join(
                base64.b64decode(e.delta) for e in seen if e.type == "session.output_audio.delta"
            )
            assert len(sound) > 48_000  # silence included, in step with time
            assert max(sound) > 0
            # the server closes the connection after its last event
            with pytest.raises(websockets.ConnectionClosedOK):
                async with asyncio.timeout(WAIT_S):
                    await connection.recv()

    asyncio.run(main())


@pytest.mark.slow
def test_no_sound_comes_before_the_session_has_started() -> None:
    async def main() -> None:
        # a voice that speaks in its very first frame
        async with live_site({"": {0: [Say(frames=500, text="hello")]}}) as site:
            url = site.url.replace("http", "ws", 1) + "/v1/live/sessions"
            for _ in range(5):
                async with websockets.connect(url) as socket:
                    start = {"type": "session.start", "session": {"model": "m"}}
                    await socket.send(json.dumps(start))
                    kinds: list[str] = []
                    async with asyncio.timeout(WAIT_S):
                        while kinds.count("session.output_audio.delta") < 3:
                            kinds.append(json.loads(await socket.recv())["type"])
                    assert kinds[0] == "session.started"

    asyncio.run(main())


@pytest.mark.slow
def test_what_is_sent_after_bad_input_is_still_served() -> None:
    async def main() -> None:
        async with live_site() as site:
            url = site.url.replace("http", "ws", 1) + "/v1/live/sessions"
            async with websockets.connect(url, max_size=None) as socket:
                for text in (
                    "{",
                    "[]",
                    '{"type": "session.dance", "event_id": "e"}',
                    "x" * 10_000_000,
                ):
                    await socket.send(text)
                await socket.send(b"\xff\x00")
                codes = [json.loads(await socket.recv())["error"]["code"] for _ in range(5)]
                assert codes == [
                    "invalid_json", "invalid_json", "unknown_event", "event_too_large",
                    "invalid_json",
                ]  # fmt: skip
                await socket.send(json.dumps({"type": "session.start", "session": {"model": "m"}}))
                event = json.loads(await socket.recv())
                while event["type"] != "session.started":
                    event = json.loads(await socket.recv())
            # gone without a word: its slot is freed
            async with asyncio.timeout(WAIT_S):
                while site.house.runs:
                    await asyncio.sleep(0.01)
            assert site.model.taken == 0

    asyncio.run(main())


@pytest.mark.slow
def test_who_may_and_what_is_not_there() -> None:
    async def main() -> None:
        def authorize(connection: Any) -> bool:
            return bool(connection.headers.get("authorization") == "Bearer sk-test")

        async with live_site(authorize=authorize) as site:
            url = site.url.replace("http", "ws", 1) + "/v1/live/sessions"
            for path, headers, status in [
                ("", {}, 401),
                ("/live_x/attach", {"Authorization": "Bearer sk-test"}, 404),
                ("", {"Authorization": "Bearer sk-test", "Origin": "https://evil.example"}, 403),
            ]:
                with pytest.raises(websockets.InvalidStatus) as refused:
                    await websockets.connect(url + path, additional_headers=headers)
                assert refused.value.response.status_code == status
            for path in ("/..", "/", "/live_x", "/live_x/hangup"):
                with pytest.raises(websockets.InvalidStatus) as refused:
                    await websockets.connect(url + path)
                assert refused.value.response.status_code == 404
                said = json.loads(refused.value.response.body)["error"]
                assert said["code"] == "not_found"
                assert "sessions begin at /v1/live/sessions" in said["message"]
            client = site.client()
            with pytest.raises(APIStatusError) as error:
                await client.live.create(
                    session={"model": "m"}, transport={"type": "webrtc", "sdp": "v=0"}
                )
            assert (error.value.status_code, error.value.code) == (404, "not_served")
            # what could not be told again is refused before there is a session
            for value in ('"\\ud800"', "[" * 40 + "]" * 40, "NaN"):
                asked = '{"delegation": {"type": "responses", "responses": {"tools": [%s]}}}'
                async with httpx.AsyncClient() as http:
                    response = await http.post(
                        f"{site.url}/v1/live/sessions",
                        content='{"session": %s, "transport": {"type": "webrtc", "sdp": "v=0"}}'
                        % (asked % f'{{"a": {value}}}'),
                        headers={"Authorization": "Bearer sk-test"},
                    )
                assert response.status_code == 400
                assert response.json()["error"]["code"] == "invalid_json"
            async with httpx.AsyncClient() as http:
                for path in ("/v1/live/elsewhere", "/v1/live/sessions/live_x/attach"):
                    response = await http.get(site.url + path)
                    assert response.status_code == 404
                    assert response.json()["error"]["code"] == "not_found"
            with pytest.raises(APIStatusError) as error:
                await client.live.sessions.hangup("live_x")
            assert (error.value.status_code, error.value.code) == (404, "session_not_found")
            with pytest.raises(APIStatusError) as error:
                await client.live.sessions.refer("live_x", target_uri="sip:x")
            assert error.value.code == "not_served"
            await client.close()

    asyncio.run(main())


@pytest.mark.slow
def test_a_voice_that_fails_ends_its_session_only() -> None:
    async def main() -> None:
        scripts = {"bad": {5: [Raise()]}, "": {}}
        config = LiveConfig(voices=frozenset(scripts))
        async with (
            live_site(scripts, config=config) as site,
            site.client().live.connect() as good,
            site.client().live.connect() as bad,
        ):
            await good.session.start(session={"model": "m"})
            await until(good, "session.started", [])
            await bad.session.start(session={"model": "m", "audio": {"output": {"voice": "bad"}}})
            seen: list[Any] = []
            closed = await until(bad, "session.closed", seen)
            (error,) = [e.error for e in seen if e.type == "error"]
            assert (error.code, error.type) == ("voice_failed", "server_error")
            assert closed.reason == "connection_lost"
            await good.session.close()
            assert (await until(good, "session.closed", [])).reason == "close_requested"

    asyncio.run(main())


@pytest.mark.slow
def test_requests_that_are_none() -> None:
    async def main() -> None:
        async with live_site() as site, httpx.AsyncClient(base_url=site.url) as http:
            path = "/v1/live/sessions"
            for body, status, code in [
                (b"{", 400, "invalid_json"),
                (b"[1]", 400, "invalid_value"),
                (b"\xff", 400, "invalid_json"),
                (b"{}", 400, "invalid_value"),
                (b'{"transport": {"type": "webrtc", "sdp": 7}}', 400, "missing_parameter"),
                (b'{"transport": {"type": "sip", "sdp": "v=0"}}', 400, "invalid_value"),
                (b'{"transport": {"type": "webrtc", "sdp": "v=0"}}', 400, "invalid_value"),
                (b"[" * 100_000, 400, "invalid_json"),
                (b"x" * 10_000_000, 413, "too_large"),
            ]:
                answer = await http.post(path, content=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
                assert answer.headers["cache-control"] == "no-store"
            for method, where, status in [
                ("GET", path, 405),
                ("DELETE", path, 405),
                ("GET", f"{path}/live_1/hangup", 405),
                ("GET", f"{path}/live_1/content", 404),
            ]:
                answer = await http.request(method, where)
                assert answer.status_code == status, where
                assert answer.json()["error"]["message"]
            evil = {"Origin": "https://evil.example"}
            answer = await http.post(path, content=b"{}", headers=evil)
            assert answer.status_code == 403
            assert site.house.runs == []

    asyncio.run(main())


@pytest.mark.slow
def test_one_address_does_not_take_the_places_of_all_who_are_about_to_start() -> None:
    async def main() -> None:
        config = LiveConfig(unstarted=6, unstarted_each=4, start_timeout_s=30.0)
        async with live_site(config=config) as site:
            url = site.url.replace("http", "ws", 1) + "/v1/live/sessions"

            async def refused(address: str) -> str:
                with pytest.raises(websockets.InvalidStatus) as no:
                    await websockets.connect(url, local_addr=(address, 0))
                assert no.value.response.status_code == 503
                assert no.value.response.headers["Retry-After"]
                return str(json.loads(no.value.response.body or b"")["error"]["message"])

            mine = [await websockets.connect(url, local_addr=("127.0.0.1", 0)) for _ in range(4)]
            assert "4 connections of this address" in await refused("127.0.0.1")
            others = [await websockets.connect(url, local_addr=("127.0.0.2", 0)) for _ in range(2)]
            assert "6 connections have not" in await refused("127.0.0.3")
            # who starts, or goes, makes room
            await mine[0].send(json.dumps({"type": "session.start", "session": {"model": "m"}}))
            while json.loads(await mine[0].recv())["type"] != "session.started":
                pass
            await others[0].close()
            async with asyncio.timeout(WAIT_S):
                while len(site.house.runs) > 5:
                    await asyncio.sleep(0.01)
            mine.append(await websockets.connect(url, local_addr=("127.0.0.1", 0)))
            for socket in (*mine, *others):
                await socket.close()

    asyncio.run(main())


@pytest.mark.slow
def test_who_drains_takes_no_new_sessions_and_ends_none() -> None:
    async def main() -> None:
        async with (
            live_site(webrtc=True) as site,
            site.client() as client,
            client.live.connect() as connection,
        ):
            await connection.session.start(session={"model": "m"})
            started = await until(connection, "session.started", [])
            site.house.drain()
            url = site.url.replace("http", "ws", 1) + "/v1/live/sessions"
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(url)
            assert refused.value.response.status_code == 503
            assert refused.value.response.headers["Retry-After"]
            with pytest.raises(APIStatusError) as error:
                await client.live.create(
                    session={"model": "m"}, transport={"type": "webrtc", "sdp": "v=0"}
                )
            assert (error.value.status_code, error.value.code) == (503, "session_capacity")
            # who looks on, and what is under way, is served to its end
            async with websockets.connect(f"{url}/{started.session.id}/attach") as sideband:
                assert json.loads(await sideband.recv())["type"] == "session.started"
            await connection.session.close()
            assert (await until(connection, "session.closed", [])).reason == "close_requested"

    asyncio.run(main())


@pytest.mark.slow
def test_a_session_has_so_many_sidebands_and_no_more() -> None:
    async def main() -> None:
        config = LiveConfig(sidebands=2)
        async with live_site(config=config) as site, site.client().live.connect() as connection:
            await connection.session.start(session={"model": "m"})
            started = await until(connection, "session.started", [])
            url = site.url.replace("http", "ws", 1) + f"/v1/live/sessions/{started.session.id}"
            sidebands = [await websockets.connect(f"{url}/attach") for _ in range(2)]
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(f"{url}/attach")
            assert refused.value.response.status_code == 409
            error = json.loads(refused.value.response.body or b"")["error"]
            assert error["code"] == "too_many_sidebands"
            assert "close another" in error["message"]
            await sidebands.pop().close()
            async with asyncio.timeout(WAIT_S):
                while site.house._sidebands.total() > 1:
                    await asyncio.sleep(0.01)
            sidebands.append(await websockets.connect(f"{url}/attach"))
            assert json.loads(await sidebands[1].recv())["type"] == "session.started"
            await connection.session.close()
            await until(connection, "session.closed", [])
            for sideband in sidebands:
                await sideband.wait_closed()
            assert not site.house._sidebands

    asyncio.run(main())


@pytest.mark.slow
def test_a_message_that_nobody_could_take_closes_its_own_connection_with_the_code() -> None:
    """RFC 6455 section 7.4.1: 1009. Below that, an event that is too large is refused by name."""

    async def main() -> None:
        async with live_site() as site, site.client().live.connect() as good:
            await good.session.start(session={"model": "m"})
            await until(good, "session.started", [])
            url = site.url.replace("http", "ws", 1) + "/v1/live/sessions"
            async with websockets.connect(url, max_size=None, close_timeout=1) as socket:
                await socket.send(json.dumps({"type": "session.start", "session": {"model": "m"}}))
                append = '{"type": "session.input_audio.append", "audio": "%s"}'
                await socket.send(append % ("A" * 10_000_000))
                kinds: list[dict[str, Any]] = []
                while not kinds or kinds[-1]["type"] != "error":
                    kinds.append(json.loads(await socket.recv()))
                assert kinds[-1]["error"]["code"] == "event_too_large"
                await socket.send('{"type": "session.input_audio.mute"}')
                while json.loads(await socket.recv())["type"] != "session.input_audio.muted":
                    pass
                with pytest.raises(websockets.ConnectionClosedError) as closed:
                    await socket.send("x" * 17_000_000)
                    while True:
                        await socket.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
            async with asyncio.timeout(WAIT_S):
                while len(site.house.runs) > 1 or site.model.taken > 1:
                    await asyncio.sleep(0.01)
            await good.session.close()
            assert (await until(good, "session.closed", [])).reason == "close_requested"

    asyncio.run(main())


@pytest.mark.slow
def test_work_that_no_service_would_do_is_refused_with_the_fix() -> None:
    async def main() -> None:
        asked = {"model": "m", "delegation": {"type": "responses", "responses": {"model": "gpt"}}}
        async with live_site() as site, site.client().live.connect() as connection:
            await connection.session.start(session=asked)
            error = (await until(connection, "error", [])).error
            assert (error.code, error.param) == ("unsupported_parameter", "session.delegation.type")
            assert "--responses-url" in error.message
        async with (
            live_site(make_helper=lambda backend: Nobody()) as site,
            site.client().live.connect() as connection,
        ):
            await connection.session.start(session=asked)
            await until(connection, "session.started", [])

    asyncio.run(main())


@pytest.mark.slow
def test_who_only_listens_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_READ_TIMEOUT_S", 0.6)

    async def main() -> None:
        async with live_site() as site:
            url = site.url.replace("http", "ws", 1) + "/v1/live/sessions"
            async with websockets.connect(url, ping_interval=None) as socket:
                await socket.send(json.dumps({"type": "session.start", "session": {"model": "m"}}))
                sounds = 0
                async with asyncio.timeout(WAIT_S):
                    while sounds < 60:  # 1.2 s: twice as long as nothing may be read
                        event = json.loads(await socket.recv())
                        sounds += event["type"] == "session.output_audio.delta"

    asyncio.run(main())


class Nobody:
    """A helper that has nothing to do."""

    async def open(self, context: str) -> None:
        return None

    async def close(self) -> None:
        return None
