"""Live sessions that begin and end: `python -m warp_tools.bench.live_churn [SESSIONS]`.

    WebSocket  unstarted ─ opening (its past is taken in) ─ greeted ─ delegating ─ barging in
    media      before media ─ opening ─ greeted ─ delegating ─ barging in
    ended by   session.close · a hang-up · a goodbye · a reset · a process that is killed · a drain

Each over a real server and real sockets, with a voice that follows a script. Afterwards nothing may
be left: no task, thread, slot, file, socket, segment of shared memory, process; and memory may not
grow. First with the voice inside, then with one in a process.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
from starlette.applications import Starlette

from voice_backend.engine import EngineHost
from voice_backend.io import Voices, VoicesConfig, inline, open_voices
from voice_backend.io.live import LiveHouse, live_routes
from voice_backend.live import LiveConfig
from voice_backend.model import ModelInfo
from voice_backend.models.scripted import Ask, Say, Script, ScriptedModel
from voice_backend.worker import ProcessHost
from warp.errors import WarpError
from warp.io import Channel, Client, ClientConfig, Server, ServerConfig, Session, listen
from warp_tools.bench.child import resident_kib
from warp_tools.bench.hung_helper import HungHelper
from warp_tools.bench.live_client import PATH, WAIT_S, LiveSocket, Refused, post
from warp_tools.bench.residue import Left, count, slope
from warp_tools.opus import encoded
from warp_tools.web import open_web_port, run_web, web_url

AT_ONCE: Final = 16
SOCKET_WAYS: Final = tuple(
    product(
        ("unstarted", "opening", "greeted", "delegating", "barging in"),
        ("session.close", "goodbye", "reset"),
    )
)
MEDIA_WAYS: Final = (
    ("before media", "hang-up"),
    *product(
        ("opening", "greeted", "delegating", "barging in"), ("session.close", "hang-up", "goodbye")
    ),
)
_DRAINED: Final = 8
_KILLED: Final = 4
"""Of either kind."""
_PAST: Final = [{"role": "user", "content": [{"text": "so it went"}]}] * 128
_WORDS: Final = [Say(frames=12, text=word) for word in ("good", "day", "to", "you") * 10]
SCRIPTS: Final[dict[str, Script]] = {
    "greets": {0: _WORDS},
    "delegates": {2: [Ask(delegation_id="d1")]},
}
_VOICES: Final = {"delegating": "delegates", "greeted": "greets", "barging in": "greets"}
_WORK: Final = {"type": "responses", "responses": {"model": "m"}}
_CALL: Final = ClientConfig(host="127.0.0.1", loopback=True)
_LOUD: Final = (8_000 * np.sin(np.arange(480) / 6)).astype(np.int16)
_SLOTS: Final = 64
_SETTLE_S: Final = 45.0
"""Longer than a path's consent lasts (RFC 7675 section 5.1)."""


@dataclass(slots=True)
class Found:
    """What a run has left, and what memory did."""

    sessions: int
    left: Left = field(default_factory=Left)
    """More than before; all 0 is what is wanted."""
    ways: dict[str, int] = field(default_factory=dict)
    """How many sessions went which way to their end."""
    kib: list[tuple[int, int]] = field(default_factory=list)
    """Memory after so many sessions."""

    @property
    def kib_a_session(self) -> tuple[float, float]:
        """Growth over the second half, and its standard error."""
        return slope(self.kib[len(self.kib) // 2 :])

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left."""
        return self.left.is_nothing


def _asked(moment: str, number: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": "scripted", "transcript_views": number % 2 == 0}
    if moment in _VOICES:
        asked["audio"] = {"output": {"voice": _VOICES[moment]}}
    if moment == "opening":
        asked["input"] = _PAST
    if moment == "delegating" and number % 4 < 2:
        asked["delegation"] = _WORK
    return asked


class Churn:
    """Clients that come to a house of live sessions, and leave it."""

    def __init__(self, url: str, client: Client, speaks: Callable[[str], bool]) -> None:
        """`speaks` says whether the voice of a session, by its id, is speaking."""
        self._url, self._client, self._speaks = url, client, speaks
        self.ways: Counter[str] = Counter()
        self._speech = encoded(np.tile(_LOUD, 30))

    async def run(self, numbers: range) -> None:
        """Let sessions begin and end, some at a time, a WebSocket and a call in turn."""
        for first in range(numbers.start, numbers.stop, AT_ONCE):
            some = range(first, min(first + AT_ONCE, numbers.stop))
            await asyncio.gather(*[self.one(number) for number in some])

    async def one(self, number: int, *, stay: bool = False) -> Callable[[], Awaitable[None]]:
        """Let one begin and end, in its number's way; with `stay` whoever calls lets it end."""
        ways = (SOCKET_WAYS, MEDIA_WAYS)[number % 2]
        moment, ending = ways[number // 2 % len(ways)]
        kind = ("socket", "media")[number % 2]
        if stay and moment in ("unstarted", "before media"):
            moment = "greeted"
        begin = self._socket if kind == "socket" else self._media
        way = f"{kind}: {moment}, {'stay' if stay else ending}"
        try:
            end = await begin(moment, "goodbye" if stay else ending, number)
            if not stay:
                await end()
        except (Refused, TimeoutError, WarpError) as error:
            # a machine that is busy has no time for one more
            way = f"turned away: {error or type(error).__name__}"
            end = _nothing
        self.ways[way] += 1
        return end

    # -- over a WebSocket --------------------------------------------------------------------------

    async def _socket(self, moment: str, ending: str, number: int) -> Callable[[], Awaitable[None]]:
        live = await LiveSocket.connect(self._url)
        try:
            if moment != "unstarted":
                live.send("session.start", session=_asked(moment, number))
            if moment not in ("unstarted", "opening"):
                started = await live.until("session.started")
                await self._socket_moment(live, moment, started["session"]["id"])
        except BaseException:
            live.cut()
            raise

        async def end() -> None:
            if ending == "session.close":
                live.send("session.close")
                await live.until("session.closed")
            if ending == "reset":
                live.cut()
            else:
                await live.leave()

        return end

    async def _socket_moment(self, live: LiveSocket, moment: str, ident: str) -> None:
        if moment == "delegating":
            await live.until("session.delegation.created")
            return
        await live.until("session.output_transcript.delta")
        sound = base64.b64encode(_LOUD.tobytes()).decode()
        while moment == "barging in" and self._speaks(ident):
            live.send("session.input_audio.append", audio=sound)
            await live.until("session.output_audio.delta")

    # -- over a call -------------------------------------------------------------------------------

    async def _media(self, moment: str, ending: str, number: int) -> Callable[[], Awaitable[None]]:
        ident = ""

        async def signal(offer: str) -> str:
            nonlocal ident
            transport = {"type": "webrtc", "sdp": offer}
            body = {"session": _asked(moment, number), "transport": transport}
            created = await post(self._url, PATH, body)
            ident = created["session"]["id"]
            if moment == "before media":
                raise ConnectionError
            return str(created["transport"]["sdp"])

        async def hang_up() -> None:
            await post(self._url, f"{PATH}/{ident}/hangup", {})

        try:
            call = await self._client.connect(signal, config=_CALL)
        except ConnectionError:
            return hang_up
        try:
            channel = call.channel("oai-events")
            await call.connected(WAIT_S)
            if moment != "opening":
                await self._media_moment(call, channel, moment, ident)
        except BaseException:
            await call.close()
            raise

        async def end() -> None:
            if ending == "session.close":
                async with asyncio.timeout(WAIT_S):
                    await channel.opened()
                    channel.send('{"type": "session.close"}')
                    await call.closed
            elif ending == "hang-up":
                await hang_up()
            await call.close()

        return end

    async def _media_moment(self, call: Session, channel: Channel, moment: str, ident: str) -> None:
        if moment == "delegating":
            await _heard(channel, "session.delegation.created")
            return
        await _heard(channel, "session.output_transcript.delta")
        async with asyncio.timeout(WAIT_S):
            while moment == "barging in" and self._speaks(ident):
                for payload in self._speech:
                    call.audio_out.send(payload)
                await asyncio.sleep(0.1)


async def _heard(channel: Channel, kind: str) -> None:
    async with asyncio.timeout(WAIT_S):
        async for message in channel:
            if json.loads(message)["type"] == kind:
                return
    raise Refused(f"the call ended before {kind}")


async def _nothing() -> None:
    return None


class Place:
    """A server, a voice, and a house that stays while others are drained."""

    def __init__(self, voices: Voices, server: Server, taken: Callable[[], int]) -> None:
        self._voices, self._server, self._taken = voices, server, taken
        self._client = Client()
        self.ways: Counter[str] = Counter()

    @asynccontextmanager
    async def house(self) -> AsyncIterator[tuple[LiveHouse, Churn, str]]:
        """Serve, with clients that are to come and go."""
        config = LiveConfig(voices=frozenset(SCRIPTS))
        house = LiveHouse(self._voices, server=self._server, config=config, make_helper=HungHelper)
        listener = open_web_port("127.0.0.1", 0)
        url = web_url("127.0.0.1", listener.getsockname()[1])
        stop = asyncio.Event()
        app = Starlette(routes=live_routes(house))
        serving = asyncio.create_task(run_web(app, listener, stop))

        def speaks(ident: str) -> bool:
            return any(r.session.id == ident and r.session.talk.speaking for r in house.runs)

        churn = Churn(url, self._client, speaks)
        try:
            yield house, churn, url
        finally:
            await house.close()
            stop.set()
            await serving
            self.ways += churn.ways

    async def drain(self, first: int) -> None:
        """Have sessions of every kind, and end the house that they are in."""
        async with self.house() as (house, churn, _):
            numbers = range(first, first + _DRAINED)
            ends = await asyncio.gather(*[churn.one(number, stay=True) for number in numbers])
            await house.close()
            await asyncio.gather(*[end() for end in ends])

    def count(self) -> Left:
        """Count what there is."""
        sessions = len(self._server.sessions) + len(self._voices.voices)
        return count(slots=self._taken(), sessions=sessions + len(self._client.sessions))

    async def close(self) -> None:
        """End what clients hold."""
        await self._client.close()

    async def settled(self, wanted: Left | None) -> Left:
        """Count when what ends has ended: at once, or when its time is over."""
        seen = self.count()
        async with asyncio.timeout(_SETTLE_S):
            while wanted is None or not seen.beyond(wanted).is_nothing:
                await asyncio.sleep(0.05)
                last, seen = seen, self.count()
                if wanted is None and seen == last:
                    break
        return seen


async def _killed(url: str) -> None:
    """Sessions whose clients are gone without a word: their process is killed."""
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warp_tools.bench.live_churn", "--hold", url),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if holder.stdout is not None:
            await holder.stdout.readline()
    finally:
        holder.kill()
        await holder.wait()


async def _hold(url: str) -> None:
    """Be the process that is killed."""
    async with Client() as client:
        churn = Churn(url, client, lambda _: False)
        await asyncio.gather(*[churn.one(number, stay=True) for number in range(2, 2 + _KILLED)])
        print("there", flush=True)
        await asyncio.Event().wait()


async def live_churn(
    sessions: int, make_host: Callable[[], EngineHost], taken: Callable[[], int], rounds: int
) -> Found:
    """Let sessions begin and end, and return what is left of them.

    After each round a house is drained, and a process is killed in which clients are.
    """
    found = Found(sessions=sessions)
    async with await listen("127.0.0.1", 0, config=ServerConfig(audio_in_order=False)) as server:
        voices = await open_voices(
            make_host, VoicesConfig(prepare_process=False), add_media_tick=server.add_media_tick
        )
        place = Place(voices, server, taken)
        try:
            # what is kept for good is made by the first ones
            await place.drain(0)
            async with place.house() as (_, churn, url):
                before = await place.settled(None)
                await churn.run(range(min(sessions, 2 * AT_ONCE)))
                each = max(AT_ONCE, sessions // max(1, rounds))
                for first in range(0, sessions, each):
                    for at in range(first, min(first + each, sessions), AT_ONCE):
                        await churn.run(range(at, min(at + AT_ONCE, first + each, sessions)))
                        gc.collect()
                        found.kib.append((at + AT_ONCE, resident_kib()))
                    if rounds:
                        await place.drain(first)
                        await _killed(url)
                with suppress(TimeoutError):
                    await place.settled(before)
                found.left = place.count().beyond(before)
        finally:
            await place.close()
            await voices.close()
    found.ways = dict(place.ways)
    return found


def _model() -> ScriptedModel:
    info = ModelInfo(name="scripted", in_rate=16_000, out_rate=24_000, max_slots=_SLOTS)
    return ScriptedModel(SCRIPTS, info=info, yield_after_frames=10)


def inside(sessions: int, rounds: int = 10) -> Found:
    """Let sessions come and go with the voice in the media thread: its slots are counted."""
    model = _model()
    return asyncio.run(live_churn(sessions, inline(lambda: model), lambda: model.taken, rounds))


def apart(sessions: int, rounds: int = 10) -> Found:
    """Do so with the voice in a process of its own, which is to be gone as well at the end."""

    def run(sessions: int, rounds: int) -> Found:
        return asyncio.run(live_churn(sessions, partial(ProcessHost, _model), lambda: 0, rounds))

    run(0, 0)  # what Python keeps for shared memory stays for good
    before = count()
    found = run(sessions, rounds)
    after = count().beyond(before)
    found.left.files += after.files
    found.left.segments += after.segments
    found.left.children += after.children
    found.left.threads += after.threads
    return found


def main() -> int:
    """Run and print what was found as JSON; 1 when anything is left."""
    if sys.argv[1:2] == ["--hold"]:
        asyncio.run(_hold(sys.argv[2]))
        return 0
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    clean = True
    for name, found in (("inside", inside(sessions)), ("apart", apart(sessions // 5, rounds=2))):
        clean = clean and found.is_clean
        each, error = found.kib_a_session
        said = {**asdict(found), "kib_a_session": [round(each, 2), round(error, 2)]}
        print(json.dumps({"voice": name, "clean": found.is_clean, **said}))
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
