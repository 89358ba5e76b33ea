"""Sessions that begin and end: `python -m warp_tools.bench.churn [SESSIONS]` says what they leave.

Real calls over a real port, with a voice each, ended in turn: before they are connected, as they
begin, in mid-greeting, in mid-prefill, while work is delegated. Nothing may be left of them: no
task, thread, slot, open file; and memory may not grow.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from dataclasses import asdict, dataclass
from typing import Final

from voice_backend.io import Voice, Voices, VoicesConfig, inline, open_voices
from voice_backend.model import Context, Delegate, Message, SessionConfig
from voice_backend.models.scripted import Ask, ScriptedModel
from warp.errors import WarpError
from warp.io import Client, ClientConfig, Server, ServerConfig, Session, listen
from warp_tools.bench.child import resident_kib
from warp_tools.bench.residue import Left, count, slope

AT_ONCE: Final = 16
WAYS: Final = ("unconnected", "at once", "in mid-greeting", "in mid-prefill", "delegating")
_ROUNDS: Final = 10
_MESSAGES: Final = 400
_CLIENT = ClientConfig(host="127.0.0.1", loopback=True, audio=True, data=False)
_SCRIPTS = {"delegating": {2: [Ask(delegation_id="d1")]}}


@dataclass(slots=True)
class Found:
    """What a run has left, and what memory did."""

    sessions: int
    left: Left
    """More than before; all 0 is what is wanted."""
    kib: list[int]
    """Memory after each tenth of the sessions."""

    @property
    def kib_a_session(self) -> float:
        """Growth over the second half, by least squares."""
        each = max(1, self.sessions // len(self.kib))
        half = len(self.kib) // 2
        return slope([(at * each, kib) for at, kib in enumerate(self.kib[half:])])[0]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left."""
        return self.left.is_nothing


class Churn:
    """A server with voices, and a client that hangs up."""

    def __init__(self, server: Server, voices: Voices, model: ScriptedModel) -> None:
        self._server, self._voices, self._model = server, voices, model
        self._client = Client()

    def count(self) -> Left:
        """Count what there is."""
        sessions = len(self._server.sessions) + len(self._voices.voices)
        return count(slots=self._model.taken, sessions=sessions)

    async def run(self, sessions: int) -> None:
        """Let so many sessions begin and end."""
        for first in range(0, sessions, AT_ONCE):
            now = range(first, min(first + AT_ONCE, sessions))
            await asyncio.gather(*(self._one(WAYS[n % len(WAYS)]) for n in now))

    async def _one(self, way: str) -> None:
        got: list[object] = []
        past = Context(messages=(Message(role="user", text="so it went"),) * _MESSAGES)
        config = SessionConfig(
            voice=way,
            greeting="good day to you" if way == "in mid-greeting" else "",
            context=past if way == "in mid-prefill" else Context(),
        )
        served: list[Session] = []
        attending: list[asyncio.Task[Voice]] = []

        async def signal(offer: str) -> str:
            session = self._server.accept_offer(offer)
            served.append(session)
            work = self._voices.attend(session, config, receive=got.append)
            attending.append(asyncio.create_task(work))
            if way == "unconnected":
                raise ConnectionError
            return session.answer

        try:
            call = await self._client.connect(signal, config=_CLIENT)
        except (ConnectionError, WarpError):
            await served[0].close()
        else:
            await self._talk(way, call, attending[0], got)
            await call.close()
        await asyncio.gather(*attending, return_exceptions=True)
        for session in served:
            await session.closed

    async def _talk(
        self, way: str, call: Session, attending: asyncio.Task[Voice], got: list[object]
    ) -> None:
        # one that is hung up before it stands is not told, and ends in its own time
        await call.connected()
        if way == "at once":
            return
        voice = await attending
        async with asyncio.timeout(30):
            while voice.heard_ms < 60:
                await asyncio.sleep(0.005)
            while way == "delegating" and not any(isinstance(e, Delegate) for e in got):
                await asyncio.sleep(0.005)


async def churn(sessions: int) -> Found:
    """Let sessions begin and end, and return what is left of them."""
    model = ScriptedModel(_SCRIPTS)
    async with await listen("127.0.0.1", 0, config=ServerConfig(audio_in_order=False)) as server:
        voices = await open_voices(
            inline(lambda: model),
            VoicesConfig(prepare_process=False),
            add_media_tick=server.add_media_tick,
        )
        try:
            made = Churn(server, voices, model)
            # what is kept for good is made by the first ones
            await made.run(2 * AT_ONCE)
            before, kib = await _settled(made, None), []
            for _ in range(_ROUNDS):
                await made.run(sessions // _ROUNDS)
                gc.collect()
                kib.append(resident_kib())
            after = await _settled(made, before)
        finally:
            await voices.close()
    return Found(sessions=sessions, left=after.beyond(before), kib=kib)


async def _settled(made: Churn, wanted: Left | None) -> Left:
    """Count when what ends has ended: at once, or when two looks see the same."""
    seen = made.count()
    for _ in range(200):
        await asyncio.sleep(0.02)
        last, seen = seen, made.count()
        if seen == (wanted or last):
            break
    return seen


def main() -> int:
    """Run and print what was found as JSON; 1 when anything is left."""
    found = asyncio.run(churn(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
    said = {**asdict(found), "kib_a_session": found.kib_a_session, "clean": found.is_clean}
    print(json.dumps(said, indent=2))
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
