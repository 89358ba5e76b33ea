"""The two audio ends of a session: an iterator of what came, a paced queue of what goes.

Frames are Opus payloads; nothing here knows a codec. Pacing is on the process's one absolute clock
(`warp.io.clock`): a frame leaves at once when its slot is free, else in the next slot, so that a
pass-through adds no delay and a burst of synthesised speech leaves in real time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from warp.errors import MessageTooLarge, UsageError
from warp.io.clock import SLOT_S
from warp.peer import PeerConnection, SendPermission
from warp.rtp import AudioFrame, ReportBlock, SenderConfig

if TYPE_CHECKING:
    from warp.io.driver import Driver

CLOCK_RATE = 48_000
SLOT_TICKS = 960
MAX_TICKS = 5760  # 120 ms, RFC 6716 section 3.2.5
MAX_IN = 512
MAX_OUT = 6_000
MAX_PAYLOAD_BYTES = SenderConfig().max_payload_bytes
_MAX_CATCH_UP = 8
# frames that come one by one, and this far apart, are no burst: what jitter brings early may leave
# early, by one slot at most. Queued, all that follow would wait as well, each for its slot
_APART_S = SLOT_S / 4
# a frame up to this late continues its talkspurt: the listener's jitter buffer absorbs it
_LATE_TICKS = 3 * SLOT_TICKS


class AudioIn:
    """What the peer says: `async for frame in session.audio_in`.

    A frame with `gap` stands for what is missing. Where the configuration says
    `audio_in_order=False`, frames come as the network brings them, and only another source or a
    break in its numbers is marked by a gap (of 0 lost). Bounded: when nobody reads, the oldest
    go and `overflowed` counts them. Iteration ends when the session closes.

    Three ways to read: iterate (one task a session), `take` (one loop for many sessions), or
    `set_reader` (a function that is called with what comes: a bridge, the cheapest of them).
    """

    __slots__ = ("_closed", "_driver", "_frames", "_peer", "_reader", "_waiter", "overflowed")

    def __init__(self, driver: Driver, peer: PeerConnection) -> None:
        self._driver = driver
        self._peer = peer
        self._reader: Callable[[list[AudioFrame]], object] | None = None
        self._frames: deque[AudioFrame] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self.overflowed = 0

    def __aiter__(self) -> AudioIn:
        return self

    async def __anext__(self) -> AudioFrame:
        while not self._frames and not self._collect():
            if self._closed:
                raise StopAsyncIteration
            if self._waiter is not None and not self._waiter.done():
                raise UsageError("audio_in has one reader: another task is waiting for a frame")
            if self._reader is not None:
                raise UsageError("audio_in has one reader: set_reader(None) before you iterate")
            self._waiter = asyncio.get_running_loop().create_future()
            lane = self._peer.lane
            if lane is not None:
                lane.awaited = True
            await self._waiter
        return self._frames.popleft()

    def take(self) -> list[AudioFrame]:
        """Return what has arrived, without waiting (for one loop over many sessions)."""
        lane = self._peer.lane
        fresh = lane.take() if lane is not None else []
        if not self._frames:
            return fresh
        frames = [*self._frames, *fresh]
        self._frames.clear()
        return frames

    def set_reader(self, reader: Callable[[list[AudioFrame]], object] | None) -> None:
        """Call `reader(frames)` as soon as frames come, what waits already at once; None: no more.

        It runs in the event loop, in the midst of what else has arrived: it must not block. It may
        send on any session and close any. One that raises is reported to the loop's exception
        handler and not called again. Raises UsageError while a task iterates.
        """
        if reader is not None and self._waiter is not None and not self._waiter.done():
            raise UsageError("audio_in has one reader: a task is waiting for a frame")
        self._reader = reader
        self._ready()
        if reader is not None and (frames := self.take()):
            self._read(frames)

    def _ready(self) -> None:
        """The short way of media is open now, or somebody else reads."""
        lane = self._peer.lane
        if lane is not None:
            lane.reader, lane.reader_failed = self._reader, self._give_up

    def _read(self, frames: list[AudioFrame]) -> None:
        """Hand frames to who reads by a function."""
        if self._reader is None:
            self._queue(frames)
            return
        try:
            self._reader(frames)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """A reader has failed: that must not end the session, nor repeat itself without end."""
        self._reader = None
        self._ready()
        text = "a reader of audio_in failed and is not called again"
        self._driver.loop.call_exception_handler({"message": text, "exception": error})

    def _collect(self) -> bool:
        """Fetch what lies in order with the peer; whether there is anything."""
        lane = self._peer.lane
        if lane is not None:
            self._frames.extend(lane.take())
        return bool(self._frames)

    def _receive(self, frames: Sequence[AudioFrame]) -> None:
        if self._reader is not None:
            self._read(list(frames))
        else:
            self._queue(frames)

    def _queue(self, frames: Sequence[AudioFrame]) -> None:
        queue = self._frames
        queue.extend(frames)
        while len(queue) > MAX_IN:
            queue.popleft()
            self.overflowed += 1
        self._wake()

    def _close(self) -> None:
        self._closed = True
        self._reader = None
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            lane = self._peer.lane
            if lane is not None:
                lane.awaited = False
            if not waiter.done():
                waiter.set_result(None)


class AudioOut:
    """What we say: frames queued here leave on the 20 ms grid, with contiguous timestamps.

    Until the peer is authenticated nothing leaves but frames marked `non_personal`, and these only
    where early data is switched on (RFC 8446 section 2: data sent before the client's Finished).
    """

    __slots__ = (
        "_driver",
        "_grid",
        "_muted",
        "_next_tick",
        "_peer",
        "_phase",
        "_played_from",
        "_queue",
        "_queued_ticks",
        "_registered",
        "_sent_at",
        "_starved",
        "_talkspurt",
    )

    def __init__(self, driver: Driver, peer: PeerConnection) -> None:
        # not the session, which owns this: it goes by itself then, without the garbage collector
        self._driver = driver
        self._peer = peer
        self._queue: deque[tuple[bytes, int, bool]] = deque()
        self._queued_ticks = 0
        self._phase = driver.clock.assign_phase()
        self._grid = driver.clock.slot_start(self._phase, 0)
        self._next_tick = 0  # samples since the clock's origin
        self._played_from = 0
        """Where `_next_tick` would have been at the last `clear`, without the silences since."""
        self._registered = False
        self._sent_at = 0.0
        self._starved = True
        self._talkspurt = False
        self._muted = False

    def send(
        self, payload: bytes, *, duration: int = SLOT_TICKS, non_personal: bool = False
    ) -> None:
        """Queue one Opus payload of `duration` samples at 48 kHz (960: 20 ms).

        Raises `MessageTooLarge` when it does not fit into one packet, `UsageError` for what is no
        payload, when two minutes are queued already, or when the session is closed.
        """
        if (
            type(payload) is not bytes
            or not 0 < len(payload) <= MAX_PAYLOAD_BYTES
            or duration is not SLOT_TICKS  # the usual one; others are looked at
            or self._muted
        ):
            payload = self._checked(payload, duration)
        if not self._queue:
            if self._pass(payload, duration, non_personal):
                return
        elif len(self._queue) >= MAX_OUT:
            raise UsageError(f"audio_out holds {MAX_OUT} frames already: wait, or clear() it")
        self._queue.append((payload, duration, non_personal))
        self._queued_ticks += duration
        if not self._registered:
            self._start()

    def _checked(self, payload: bytes, duration: int) -> bytes:
        """Refuse what cannot be sent: in the queue it would stop all that is behind it."""
        if self._muted:
            raise UsageError("audio_out is closed: the session has ended")
        if not isinstance(payload, (bytes, bytearray, memoryview)) or not payload:
            raise UsageError(f"an Opus payload is one byte or more, not {payload!r:.40}")
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise MessageTooLarge(f"{len(payload)} bytes; a packet holds {MAX_PAYLOAD_BYTES}")
        if not isinstance(duration, int) or not 0 < duration <= MAX_TICKS:
            raise UsageError(f"an Opus packet holds 1 to 5760 samples at 48 kHz, not {duration}")
        return bytes(payload)

    def _pass(self, payload: bytes, duration: int, free: bool) -> bool:
        """Send a frame that finds its slot free, without the queue (the hot path)."""
        driver, peer = self._driver, self._peer
        now = driver.now()
        ahead = self._next_tick - self._begin(now)
        if ahead >= SLOT_TICKS and (ahead >= 2 * SLOT_TICKS or now < self._sent_at + _APART_S):
            return False
        marker, lane = not self._talkspurt, peer.lane
        if lane is not None:
            item = lane.make(payload, self._next_tick, now, marker)
        else:
            item = peer.make_audio(payload, self._next_tick, now, marker=marker, non_personal=free)
        if item is None:
            return False
        self._talkspurt = True
        self._sent_at = now
        self._next_tick += duration
        driver.send_datagram(item)
        return True

    def _begin(self, now: float) -> int:
        """Return where the present slot begins; after a silence, what comes next begins there."""
        # MediaClock.slot, in place
        present = int(((now - self._grid) / SLOT_S + 1e-6) // 1) * SLOT_TICKS
        if self._starved and self._next_tick < present:
            late = _LATE_TICKS if self._talkspurt else 0
            if self._next_tick < present - late:
                self._played_from += present - self._next_tick
                self._next_tick = present
                self._talkspurt = False
        return present

    @property
    def queued_ms(self) -> float:
        """Audio that waits here, in milliseconds."""
        return self._queued_ticks * 1000 / CLOCK_RATE

    @property
    def played_ms(self) -> float:
        """Audio sent since the last `clear()`, in milliseconds."""
        return (self._next_tick - self._played_from) * 1000 / CLOCK_RATE

    @property
    def report(self) -> ReportBlock | None:
        """What the peer said last of what it hears from us (RFC 3550 section 6.4.1), or None.

        Another object with each report; its `fraction_lost` is in 256ths.
        """
        lane = self._peer.lane
        return None if lane is None else lane.report

    def clear(self) -> float:
        """Drop what waits (a barge-in) and return the milliseconds sent since the last clear."""
        played = self.played_ms
        self._queue.clear()
        self._queued_ticks = 0
        self._played_from = self._next_tick
        self._starved = True
        return played

    def handle_tick(self, now: float) -> bool:
        """Send what is due in this slot. Called by the media clock."""
        self._registered = False  # should it not come to its end
        self._registered = self._pump(now)
        return self._registered

    def _ready(self) -> None:
        """Media may leave now, or leave more freely than before."""
        if self._queue and not self._registered:
            self._start()

    def _start(self) -> None:
        """Send what is due, and the rest slot by slot."""
        if self._pump(self._driver.now()):
            self._registered = True
            self._driver.clock.register(self, self._phase)

    def _allowed(self) -> bool:
        permission = self._peer.media_permission
        if permission is SendPermission.ALL:
            return True
        return permission is SendPermission.NON_PERSONAL and self._queue[0][2]

    def _pump(self, now: float) -> bool:
        """Send what is due; returns whether more waits that may leave later."""
        driver, peer, queue = self._driver, self._peer, self._queue
        lane = peer.lane  # only an authenticated peer has one, and may be sent everything
        due = self._begin(now) + SLOT_TICKS
        sent = 0
        while queue and self._next_tick < due and sent < _MAX_CATCH_UP:
            payload, duration, free = queue[0]
            fresh = not self._talkspurt
            at = self._next_tick
            if lane is not None:
                item = lane.make(payload, at, now, fresh)
            elif self._allowed():
                item = peer.make_audio(payload, at, now, marker=fresh, non_personal=free)
            else:
                break
            if item is None:
                break  # the address may not be sent more yet: the frame waits
            driver.send_datagram(item)
            queue.popleft()
            self._talkspurt = True
            self._starved = False
            self._sent_at = now
            self._next_tick += duration
            self._queued_ticks -= duration
            sent += 1
        if not queue:
            self._starved = True
            return False
        return lane is not None or self._allowed()

    def _close(self) -> None:
        self._muted = True
        self._queue.clear()
        self._queued_ticks = 0
        self._driver.clock.unregister(self, self._phase)
