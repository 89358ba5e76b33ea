"""The voices of a process: one media loop, one engine, and the sessions that talk with it.

    open_voices(make_host) ─▶ Voices.attend(session) ─▶ room? ─▶ authenticated? ─▶ slot ─▶ Voice
                                    │ no: NoCapacity, at once
    server's media tick ─▶ collect what all sessions have heard ─▶ 3 ms later the loop's tick

An engine that ends or hangs fails its sessions, each by an event, and is started again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from voice_backend.audio import EncoderConfig
from voice_backend.counts import FrameCounts
from voice_backend.desk import Desk, Line
from voice_backend.engine import Engine, EngineHost, InlineHost
from voice_backend.grid import PERIOD_S
from voice_backend.io.call_lines import CallLines
from voice_backend.io.crossing import Crossing
from voice_backend.io.rtp_line import RtpLine
from voice_backend.io.voice import Receive, Voice
from voice_backend.loop import LoopConfig, MediaLoop
from voice_backend.metrics import Kind, Labels, exposition, frame_families, histogram, single
from voice_backend.model import ModelInfo, NoCapacity, SessionConfig, Slot, VoiceModel
from voice_backend.seat import Failed
from warp.errors import InvalidState, UsageError
from warp.io import Session, prepare_process

_log = logging.getLogger(__name__)
COLLECT_LEAD_S: Final = 0.003
"""The asyncio thread collects what has arrived so long before the media thread wants it."""
CLOSE_TIMEOUT_S: Final = 2.0
STANDSTILL_S: Final = 5.0
_STANDSTILL: Final = f"the media loop has stood still for {STANDSTILL_S:g} s"
MAX_RESTARTS: Final = 5
RESTART_WINDOW_S: Final = 60.0
MakeHost = Callable[[], EngineHost]
AddMediaTick = Callable[[Callable[[float], None]], Callable[[], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoicesConfig:
    """How sessions are served."""

    max_sessions: int | None = None
    """None: as many as the model has slots and time for."""
    reserve_frames: int = 0
    """Frames of the model's that lie ready: each hides 20 ms of lateness, and costs 20 ms."""
    connect_timeout_s: float = 30.0
    loop: LoopConfig = field(default_factory=LoopConfig)
    encoder: EncoderConfig | None = None
    """None: 32 kbit/s, FEC, DTX."""
    prepare_process: bool = True
    """Call `warp.io.prepare_process`: the garbage collector makes frames late."""


def inline(model: Callable[[], VoiceModel]) -> MakeHost:
    """Return what makes a host that runs the model in the media thread itself."""
    return lambda: InlineHost(Engine(model()))


class Voices:
    """Made by `open_voices`."""

    def __init__(self, make_host: MakeHost, host: EngineHost, config: VoicesConfig) -> None:
        self._make_host = make_host
        self._host = host
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._crossing = Crossing(self._loop)
        self._media = MediaLoop(config.loop)
        self._desk = self._make_desk(host)
        self._voices: dict[int, Voice] = {}
        self._lines = CallLines()
        self._number = 0
        self._seen = (0, self._loop.time())
        self._stop_tick: Callable[[], None] | None = None
        self._restarts: list[float] = []
        self._unwell: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def _make_desk(self, host: EngineHost) -> Desk:
        return Desk(
            host.info.name, host, clock=self._loop.time, reserve=self._config.reserve_frames
        )

    async def start(self, add_media_tick: AddMediaTick | None) -> None:
        """Start the media thread, a little behind the server's audio clock if there is one."""
        self._media.add(self._desk)
        self._media.after_tick += [self._look_after, self._crossing.carry]
        origin: float | None = None
        if add_media_tick is not None:
            first: asyncio.Future[float] = self._loop.create_future()

            def tick(now: float) -> None:
                if not first.done():
                    first.set_result(now)
                self.handle_tick(now)

            self._stop_tick = add_media_tick(tick)
            origin = await first + COLLECT_LEAD_S
        if self._config.prepare_process:
            prepare_process()
        self._media.start(origin)

    # -- sessions ------------------------------------------------------------------------------

    @property
    def info(self) -> ModelInfo:
        """What the model is."""
        return self._host.info

    @property
    def voices(self) -> list[Voice]:
        """Those that have not ended."""
        return list(self._voices.values())

    def lack(self) -> str | None:
        """Return why a session more could not be served in time; None when it could."""
        if self._unwell is not None:
            return self._unwell
        info, count = self._host.info, len(self._voices)
        limit = min(self._config.max_sessions or info.max_slots, info.max_slots)
        if count >= limit:
            return f"all {limit} sessions are taken"
        if not self._media.load.admits(count, PERIOD_S):
            return f"the media loop has no time for more than {count} sessions"
        if not self._desk.load.admits(count, info.frame_ms / 1000):
            return f"{info.name} has no time for more than {count} sessions"
        return None

    def require_room(self) -> None:
        """Raise NoCapacity, saying why, when a session more could not be served in time."""
        why = self.lack()
        if why is not None:
            raise NoCapacity(why)

    def reserve(self, config: SessionConfig, receive: Receive | None = None) -> Voice:
        """Take a place for a session that is to come. Raises NoCapacity.

        Nothing of the model is spent on it before `attend` or `join`; `Voice.close` gives it back.
        """
        self.require_room()
        self._number += 1
        voice = self._voices[self._number] = Voice(self, self._number, config, receive)
        return voice

    async def attend(
        self,
        session: Session,
        config: SessionConfig | None = None,
        *,
        receive: Receive | None = None,
        voice: Voice | None = None,
        outlive: bool = False,
    ) -> Voice:
        """Let a voice take a call, from when its peer is authenticated; it ends with the call.

        A voice that fails ends the call too, for nobody would say anything in it; with `outlive`
        the call goes on, and whoever reads `Failed` ends it. `voice` is a place reserved before,
        else one is taken once the peer is proven: who never sends takes nothing from others. Raises
        NoCapacity, at once or then, and what ended the session if it ends first.
        """
        if voice is None:
            self.require_room()
            await self.prove(session)
            voice = self.reserve(config or SessionConfig(), receive)
        return await self._attend(session, voice, outlive=outlive)

    async def prove(self, session: Session) -> None:
        """Wait until a call's peer is authenticated; raises what ended the session before."""
        await session.connected(self._config.connect_timeout_s)

    async def _attend(self, session: Session, voice: Voice, *, outlive: bool) -> Voice:
        if not outlive:
            voice.call = session
        session.closed.add_done_callback(lambda _: self.release(voice))
        try:
            await self.prove(session)
            line = RtpLine(
                session, self._host.info, self._crossing, voice.receive, self._config.encoder
            )
            # a greeting that was queued for whoever comes plays by now: the voice is to know of it
            greeting_ms = round(session.audio_out.queued_ms)
            voice.config = replace(voice.config, greeting_ms=greeting_ms)
            await self.join(line, voice)
        except BaseException:
            self.release(voice)
            raise
        if voice.number in self._voices:
            self._lines.add(voice.number, line)
        return voice

    def _hang_up(self, voice: Voice) -> None:
        """End the call of a voice that has failed, unless it is to outlive it."""
        if voice.failure is None or voice.call is None or voice.call.closed.done():
            return
        _log.warning("voice %d: %s; its call is ended", voice.number, voice.failure)
        task = self._loop.create_task(voice.call.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def join(self, line: Line, voice: Voice) -> None:
        """Open a slot for a place that was reserved, over any kind of line. Raises NoCapacity."""
        if voice.released:
            raise InvalidState("the voice has ended")
        opened: asyncio.Future[None] = self._loop.create_future()
        voice.line = line

        def settle(error: Exception | None) -> None:
            if opened.done():
                return
            if error is None:
                opened.set_result(None)
            elif isinstance(error, UsageError):
                opened.set_exception(error)
            else:
                _log.error("%s cannot open a session: %r", self.info.name, error)
                opened.set_exception(NoCapacity("the voice cannot be opened: see the server's log"))

        def done(result: Slot | Exception, desk: Desk) -> None:
            if isinstance(result, Exception):
                self._crossing.send(settle, result)
            elif voice.released or desk is not self._desk:
                desk.close(result)
                self._crossing.send(settle, InvalidState("the voice has ended"))
            else:
                voice.seated(result, desk.seat(result, line))
                self._crossing.send(settle, None)

        self.post(lambda desk: desk.open(voice.config, lambda result: done(result, desk)))
        try:
            await opened
        except BaseException:
            self.release(voice)
            raise

    def release(self, voice: Voice) -> None:
        """End a voice: its slot is freed before the next tick. Harmless when repeated."""
        voice.released = True
        if self._voices.pop(voice.number, None) is None:
            return
        self._lines.remove(voice.number)
        self._hang_up(voice)

        def leave(desk: Desk) -> None:
            if voice.slot is not None:
                desk.leave(voice.slot)
            self._crossing.send(lambda _: voice.end(), None)

        self.post(leave)

    def post(self, work: Callable[[Desk], object]) -> None:
        """Have `work` done in the media thread before its next tick."""
        self._media.post(lambda: work(self._desk))

    def handle_tick(self, now: float) -> None:
        """Collect what all sessions have heard. Called by the server's audio clock."""
        self._lines.collect()
        done = self._media.counts.ticks
        if done != self._seen[0]:
            self._seen = (done, now)
            if self._unwell == _STANDSTILL:
                self._unwell = None
        elif now - self._seen[1] > STANDSTILL_S and self._unwell is None:
            # only a model that is called in the media thread can do that
            self._unwell = _STANDSTILL
            _log.critical("%s: %s holds it up", _STANDSTILL, self.info.name)
            for voice in self.voices:
                voice.receive([Failed(reason=_STANDSTILL, at_ms=voice.heard_ms)])

    # -- the engine's health -------------------------------------------------------------------

    def _look_after(self) -> None:
        """See whether the engine lives (the media thread's)."""
        failure = self._host.failure
        if failure is not None and self._unwell is None:
            self._unwell = failure
            self._crossing.send(self._mourn, failure)

    def _mourn(self, failure: str) -> None:
        _log.error("the engine of %s: %s", self.info.name, failure)
        task = self._loop.create_task(self._restart())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restart(self) -> None:
        """Start the engine again, unless that is of no use."""
        now = self._loop.time()
        self._restarts.append(now)
        await asyncio.to_thread(self._host.stop)
        recent = sum(now - at < RESTART_WINDOW_S for at in self._restarts)
        if recent > MAX_RESTARTS:
            self._unwell = f"the engine failed {recent} times within a minute"
            _log.error("%s: not started again", self._unwell)
            return
        self._unwell = "the engine is being started again"
        host = self._make_host()
        try:
            await asyncio.to_thread(host.start)
        except Exception as error:
            self._unwell = "the engine cannot be started again: see the server's log"
            _log.error("the engine of %s does not start: %s", self.info.name, error)
            return
        self._media.post(lambda: self._replace(host))

    def _replace(self, host: EngineHost) -> None:
        """Serve with another engine from now on (the media thread's)."""
        old = self._desk
        self._media.remove(old)
        self._host, self._desk = host, self._make_desk(host)
        self._desk.past.add(old.past)
        self._media.add(self._desk)
        self._unwell = None
        _log.info("the engine of %s was started again", host.info.name)

    # -- figures and the end -------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return counts of frames and of time, for machines."""
        busy, total = self._media.counts.busy, self._counts()
        return {
            "model": self.info.name,
            "sessions": len(self._voices),
            "frames": total.to_json(),
            "behind": self._crossing.behind,
            "ticks": self._media.counts.ticks,
            "tick_p50_ms": round(busy.quantile(0.5) * 1000, 2),
            "tick_p99_ms": round(busy.quantile(0.99) * 1000, 2),
            "woken_late": self._media.counts.woken_late,
            "passed_over": self._media.counts.passed_over,
            "restarts": len(self._restarts),
        }

    def _counts(self) -> FrameCounts:
        total = FrameCounts()
        # a voice that is released keeps its seat until the media thread's next tick
        seated = [seat.counts for seat in list(self._desk.seats.values())]
        for counts in (self._desk.past, *seated):
            total.add(counts)
        return total

    def prometheus(self, *, sessions: bool = False) -> str:
        """Return the text that Prometheus scrapes; with `sessions` each live one by its number."""
        engine: Labels = (("engine", self.info.name),)
        rows = [(engine, self._counts())]
        if sessions:
            rows = [
                ((*engine, ("session", str(one.number))), one.seat.counts)
                for one in self.voices
                if one.seat is not None
            ]
        loop, desk = self._media.counts, self._desk
        ones: list[tuple[str, Kind, str, int]] = [
            ("sessions", "gauge", "Sessions that talk", len(self._voices)),
            ("ticks_passed_over", "counter", "Periods that a stall cost", loop.passed_over),
            ("payloads_behind", "counter", "Payloads that waited too long", self._crossing.behind),
            ("engine_restarts", "counter", "Starts of an engine that failed", len(self._restarts)),
        ]
        texts = ("Work of the media loop in a period", "Work of the engine for a batch")
        return exposition(
            [
                *(single(*one, labels=engine) for one in ones),
                *frame_families(rows),
                *self._lines.families(engine, sessions=sessions),
                histogram("tick_seconds", texts[0], loop.busy, engine),
                histogram("step_seconds", texts[1], desk.steps, engine),
            ]
        )

    async def close(self) -> None:
        """End every voice, the media thread and the engine. Harmless when repeated."""
        if self._stop_tick is not None:
            self._stop_tick()
            self._stop_tick = None
        self._unwell = "the server is closing"
        voices = self.voices
        for voice in voices:
            self.release(voice)
        if voices and self._media.is_running:
            # a model that hangs in the media thread is not waited for
            await asyncio.wait([voice.closed for voice in voices], timeout=CLOSE_TIMEOUT_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._media.stop)
        await asyncio.to_thread(self._host.stop)
        for voice in voices:
            voice.end()


async def open_voices(
    make_host: MakeHost,
    config: VoicesConfig | None = None,
    *,
    add_media_tick: AddMediaTick | None = None,
) -> Voices:
    """Load a model and start the media loop over it.

    `add_media_tick` is the server's whose sessions it attends; without one `join` is the only way
    in. Raises WarpError naming the fault when the model cannot be loaded.
    """
    host = make_host()
    try:
        await asyncio.to_thread(host.start)
    except BaseException:
        await asyncio.to_thread(host.stop)
        raise
    voices = Voices(make_host, host, config or VoicesConfig())
    await voices.start(add_media_tick)
    return voices
