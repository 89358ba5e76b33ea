from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.io.support import OPUS, FakeLoop, StubPeer, play, turns
from warp.errors import UsageError
from warp.io.audio import MAX_IN, MAX_OUT, SLOT_TICKS, AudioIn, AudioOut
from warp.io.clock import MediaClock
from warp.peer import SendPermission
from warp.rtp import AudioFrame


class Surroundings:
    """The driver and the peer of one AudioOut."""

    def __init__(self) -> None:
        self.loop: Any = FakeLoop()
        self.now = self.loop.time
        self.clock = MediaClock(self.loop)
        self.peer = StubPeer()
        self.sent: list[Any] = []
        self.out = self.another()

    def another(self) -> AudioOut:
        """Return one more AudioOut, as of another session."""
        driver: Any = self
        peer: Any = self.peer
        return AudioOut(driver, peer)

    def send_datagram(self, item: Any) -> None:
        self.sent.append(item)

    def say(self, count: int, first: int = 0, **options: Any) -> None:
        for number in range(first, first + count):
            self.out.send(OPUS + bytes([number]), **options)

    @property
    def numbers(self) -> list[int]:
        return [payload[-1] for payload, _, _, _ in self.peer.audio]

    @property
    def timestamps(self) -> list[int]:
        return [at for _, at, _, _ in self.peer.audio]

    @property
    def markers(self) -> list[bool]:
        return [marker for _, _, _, marker in self.peer.audio]

    @property
    def times(self) -> list[float]:
        return [now for _, _, now, _ in self.peer.audio]


def steps(values: list[int]) -> set[int]:
    return {b - a for a, b in itertools.pairwise(values)}


# -- pacing ------------------------------------------------------------------------------------


def test_a_burst_leaves_one_frame_a_slot() -> None:
    around = Surroundings()
    around.say(50)
    assert around.numbers == [0]  # the first at once
    assert around.out.queued_ms == 49 * 20
    around.loop.advance(0.5)
    assert len(around.numbers) == 26
    around.loop.advance(1.0)
    assert around.numbers == list(range(50))
    assert steps(around.timestamps) == {SLOT_TICKS}
    gaps = [b - a for a, b in itertools.pairwise(around.times[1:])]
    assert gaps == pytest.approx([0.02] * 48)
    assert around.out.queued_ms == 0
    assert around.out.played_ms == 1000
    # nothing is left to tick for
    assert around.loop.scheduled == 0


def test_a_frame_passed_through_leaves_at_once() -> None:
    around = Surroundings()
    for number in range(50):
        around.loop.advance(0.02)
        around.say(1, number)
        assert around.numbers[-1] == number
        assert around.times[-1] == around.loop.now
    assert steps(around.timestamps) == {SLOT_TICKS}
    assert around.markers == [True] + [False] * 49
    assert around.out.queued_ms == 0


def test_jitter_of_what_is_passed_through_keeps_timestamps_contiguous() -> None:
    """Frames up to three slots late continue the talkspurt: no gap is invented."""
    around = Surroundings()
    for number, wait in enumerate([0.02, 0.005, 0.035, 0.02, 0.045, 0.0, 0.015] * 20):
        around.loop.advance(wait)
        around.say(1, number)
    around.loop.advance(0.2)
    assert around.numbers == list(range(140))
    assert steps(around.timestamps) == {SLOT_TICKS}
    assert sum(around.markers) == 1


def test_a_pause_shows_in_the_timestamps_and_starts_a_talkspurt() -> None:
    around = Surroundings()
    around.say(3)
    around.loop.advance(1.0)
    around.say(3, 3)
    around.loop.advance(0.1)
    assert around.numbers == list(range(6))
    assert around.markers == [True, False, False, True, False, False]
    assert around.timestamps[3] - around.timestamps[2] == pytest.approx(0.96 * 48_000, abs=960)
    # the pause is as long in the timestamps as it was
    heard = (around.timestamps[3] - around.timestamps[0]) / 48_000
    assert heard == pytest.approx(around.times[3] - around.times[0], abs=0.02)


@pytest.mark.parametrize(("duration", "count"), [(480, 100), (1920, 25), (2880, 20), (120, 400)])
def test_other_frame_lengths_leave_in_real_time(duration: int, count: int) -> None:
    around = Surroundings()
    around.say(0)
    for number in range(count):
        around.out.send(OPUS + bytes([number % 256]), duration=duration)
    around.loop.advance(2.0)
    assert len(around.numbers) == count
    assert steps(around.timestamps) == {duration}
    length = duration * count / 48_000
    assert around.times[-1] - around.times[0] == pytest.approx(length, abs=0.07)
    assert around.out.played_ms == pytest.approx(length * 1000)


def test_a_stalled_loop_catches_up_without_a_flood() -> None:
    around = Surroundings()
    around.say(100)
    around.loop.advance(0.1)
    sent = len(around.numbers)
    around.loop.stall(0.4)
    around.loop.advance(0.0)
    assert len(around.numbers) - sent == 8
    around.loop.advance(1.7)
    assert around.numbers == list(range(100))
    assert steps(around.timestamps) == {SLOT_TICKS}


def test_several_frames_of_one_slot_leave_in_one_tick() -> None:
    around = Surroundings()
    for _ in range(8):
        around.out.send(OPUS, duration=480)
    before = len(around.sent)
    around.loop.advance(0.02)
    assert len(around.sent) - before >= 2
    assert len(set(around.times[before:])) == 1
    assert len(around.sent) == len(around.peer.audio)


# -- what may leave ------------------------------------------------------------------------------


def test_nothing_leaves_until_it_may() -> None:
    around = Surroundings()
    around.peer.media_permission = SendPermission.NONE
    around.say(3)
    around.loop.advance(0.5)
    assert around.numbers == []
    assert around.loop.scheduled == 0  # waiting costs no ticks
    assert around.out.queued_ms == 60
    around.peer.media_permission = SendPermission.ALL
    around.out._ready()
    assert around.numbers == [0]
    around.loop.advance(0.1)
    assert around.numbers == [0, 1, 2]
    assert steps(around.timestamps) == {SLOT_TICKS}


def test_early_only_what_is_marked_leaves() -> None:
    around = Surroundings()
    around.peer.media_permission = SendPermission.NON_PERSONAL
    around.say(2, non_personal=True)
    around.say(2, 2)
    around.loop.advance(0.2)
    assert around.numbers == [0, 1]
    around.peer.media_permission = SendPermission.ALL
    around.out._ready()
    around.loop.advance(0.1)
    assert around.numbers == [0, 1, 2, 3]


def test_a_frame_waits_for_credit_and_is_not_lost() -> None:
    """An unvalidated address may be sent three times what it sent."""
    around = Surroundings()
    around.peer.media_permission = SendPermission.NON_PERSONAL
    around.peer.credit = 2
    around.say(5, non_personal=True)
    around.loop.advance(0.2)
    assert around.numbers == [0, 1]
    around.peer.credit = 10
    around.loop.advance(0.2)
    assert around.numbers == [0, 1, 2, 3, 4]
    assert steps(around.timestamps) == {SLOT_TICKS}


# -- clear, limits, the end ----------------------------------------------------------------------


def test_clear_drops_what_waits_and_tells_what_was_played() -> None:
    around = Surroundings()
    around.say(50)
    around.loop.advance(0.09)
    sent = len(around.numbers)
    assert around.out.clear() == sent * 20
    assert around.out.queued_ms == 0
    around.loop.advance(0.5)
    assert len(around.numbers) == sent
    assert around.out.played_ms == 0
    around.say(2, 50)
    around.loop.advance(0.1)
    assert around.numbers[-2:] == [50, 51]
    assert around.out.clear() == 40


def test_what_follows_a_clear_at_once_continues_the_timestamps() -> None:
    around = Surroundings()
    around.say(50)
    around.loop.advance(0.09)
    around.out.clear()
    around.say(10, 100)
    around.loop.advance(0.3)
    assert around.numbers[-10:] == list(range(100, 110))
    assert steps(around.timestamps) == {SLOT_TICKS}


def test_what_follows_long_after_a_clear_is_no_burst() -> None:
    around = Surroundings()
    around.say(4)
    around.peer.media_permission = SendPermission.NONE
    around.loop.advance(0.1)
    around.out.clear()
    around.loop.advance(10.0)
    around.peer.media_permission = SendPermission.ALL
    around.say(5, 10)
    assert around.numbers[-1] == 10
    around.loop.advance(0.2)
    assert around.numbers[-5:] == [10, 11, 12, 13, 14]
    assert around.markers[-5:] == [True, False, False, False, False]


def test_what_is_queued_is_bounded() -> None:
    around = Surroundings()
    around.peer.media_permission = SendPermission.NONE
    for _ in range(MAX_OUT):
        around.out.send(OPUS)
    with pytest.raises(UsageError, match="clear"):
        around.out.send(OPUS)
    assert around.out.queued_ms == MAX_OUT * 20


@pytest.mark.parametrize("payload", [None, "text", 5, [1], b"", OPUS * 20])
def test_what_is_no_payload_is_refused_and_stops_nothing(payload: Any) -> None:
    around = Surroundings()
    around.say(2)
    with pytest.raises(UsageError):
        around.out.send(payload)
    around.say(2, first=2)
    around.loop.advance(0.2)
    assert around.numbers == [0, 1, 2, 3]


def test_a_payload_that_is_reused_leaves_as_it_was() -> None:
    around = Surroundings()
    around.say(1)
    buffer: Any = bytearray(OPUS + b"1")
    around.out.send(buffer)
    buffer[-1] = 0
    around.loop.advance(0.2)
    assert around.peer.audio[-1][0] == OPUS + b"1"


@pytest.mark.parametrize("duration", [0, -1, 5761, 960.0, "960"])
def test_impossible_durations(duration: Any) -> None:
    around = Surroundings()
    with pytest.raises(UsageError, match="1 to 5760"):
        around.out.send(OPUS, duration=duration)


def test_after_the_end_nothing_is_taken_and_nothing_ticks() -> None:
    around = Surroundings()
    around.say(5)
    around.out._close()
    around.loop.advance(1.0)
    assert around.numbers == [0]
    assert around.loop.scheduled == 0
    assert around.out.queued_ms == 0
    with pytest.raises(UsageError, match="ended"):
        around.out.send(OPUS)


def test_sessions_are_spread_over_the_phases() -> None:
    around = Surroundings()
    outs = [around.out, *(around.another() for _ in range(3))]
    for number, out in enumerate(outs):
        for _ in range(10):
            out.send(OPUS + bytes([number]))
    around.loop.advance(0.1)
    offsets = {
        payload[-1]: round((now - 1000.0) * 1000) % 20 for payload, _, now, _ in around.peer.audio
    }
    assert offsets == {0: 0, 1: 5, 2: 10, 3: 15}


# -- audio in ------------------------------------------------------------------------------------


def audio_in(peer: Any = None, loop: Any = None) -> AudioIn:
    driver: Any = SimpleNamespace(loop=loop)
    return AudioIn(driver, peer or StubPeer())


def frame(number: int) -> AudioFrame:
    return AudioFrame(OPUS, number * 960, number, False, 111, None, 0.0)


def test_frames_come_in_order_and_the_iteration_ends() -> None:
    async def story() -> None:
        audio = audio_in()
        audio._receive([frame(0), frame(1)])
        heard: list[int] = []

        async def listen() -> None:
            async for one in audio:
                heard.append(one.sequence)

        task = asyncio.ensure_future(listen())
        await turns()
        assert heard == [0, 1]
        audio._receive([frame(2)])
        audio._close()
        await task
        assert heard == [0, 1, 2]
        with pytest.raises(StopAsyncIteration):
            await anext(audio)

    play(story)


def test_take_returns_what_is_there() -> None:
    audio = audio_in()
    audio._receive([frame(0), frame(1)])
    assert [one.sequence for one in audio.take()] == [0, 1]
    assert audio.take() == []


def test_of_too_many_frames_the_oldest_go() -> None:
    audio = audio_in()
    audio._receive([frame(number) for number in range(MAX_IN + 3)])
    assert audio.overflowed == 3
    assert audio.take()[0].sequence == 3


def test_a_second_reader_is_told() -> None:
    async def story() -> None:
        audio = audio_in()
        first = asyncio.ensure_future(anext(audio))
        await turns()
        with pytest.raises(UsageError, match="one reader"):
            await anext(audio)
        audio._receive([frame(7)])
        assert (await first).sequence == 7

    play(story)


def test_a_reader_that_is_cancelled_leaves_the_frames_to_the_next() -> None:
    async def story() -> None:
        audio = audio_in()
        first = asyncio.ensure_future(anext(audio))
        await turns()
        first.cancel()
        await asyncio.wait({first})
        audio._receive([frame(7)])
        assert (await anext(audio)).sequence == 7

    play(story)


def heard(audio: AudioIn) -> list[int]:
    """Let a function read; returns the numbers of what it will have been given."""
    numbers: list[int] = []
    audio.set_reader(lambda frames: numbers.extend(one.sequence for one in frames))
    return numbers


def test_a_function_that_reads_is_given_what_waits_and_then_what_comes() -> None:
    audio = audio_in()
    audio._receive([frame(0), frame(1)])
    numbers = heard(audio)
    assert numbers == [0, 1]
    audio._receive([frame(2)])
    assert numbers == [0, 1, 2]
    assert audio.take() == []


def test_a_function_reads_from_the_short_way_as_soon_as_there_is_one() -> None:
    peer: Any = StubPeer()
    audio = audio_in(peer)
    numbers = heard(audio)
    peer.lane = SimpleNamespace(reader=None, take=list)
    audio._ready()
    peer.lane.reader([frame(5)])
    assert numbers == [5]
    audio.set_reader(None)
    assert peer.lane.reader is None
    audio._receive([frame(6)])
    assert numbers == [5]
    assert [one.sequence for one in audio.take()] == [6]


def test_a_reader_that_fails_is_reported_once_and_what_follows_waits() -> None:
    loop = FakeLoop()
    audio = audio_in(loop=loop)
    calls: list[int] = []

    def fail(frames: list[AudioFrame]) -> None:
        calls.append(len(frames))
        raise ValueError("a bug of the application")

    audio.set_reader(fail)
    audio._receive([frame(0)])
    audio._receive([frame(1)])
    assert calls == [1]
    assert [type(one["exception"]) for one in loop.reported] == [ValueError]
    assert [one.sequence for one in audio.take()] == [1]


def test_one_reader_of_either_kind() -> None:
    async def story() -> None:
        audio = audio_in()
        first = asyncio.ensure_future(anext(audio))
        await turns()
        with pytest.raises(UsageError, match="one reader"):
            audio.set_reader(print)
        audio._receive([frame(7)])
        await first
        audio.set_reader(print)
        with pytest.raises(UsageError, match="set_reader"):
            await anext(audio)

    play(story)


def test_a_reader_hears_nothing_after_the_end() -> None:
    audio = audio_in()
    numbers = heard(audio)
    audio._close()
    audio._receive([frame(0)])
    assert numbers == []


# -- passing through ---------------------------------------------------------------------------


def test_what_jitter_brings_early_leaves_at_once_and_what_follows_does_not_wait_either() -> None:
    around = Surroundings()
    came = []
    for number in range(20):
        # one by one, 20 ms apart; the fifth comes 8 ms early, into the slot of the fourth
        at = 1000.0 + number * 0.02 + 0.002 - (0.008 if number == 5 else 0.0)
        around.loop.advance(at - around.loop.time())
        came.append(around.loop.time())
        around.say(1, number)
    assert around.numbers == list(range(20))
    assert around.times == pytest.approx(came)
    assert steps(around.timestamps) == {SLOT_TICKS}


def test_a_second_early_one_waits() -> None:
    around = Surroundings()
    for number, at in enumerate((0.0, 0.006, 0.012)):
        around.loop.advance(1000.0 + at - around.loop.time())
        around.say(1, number)
    assert around.numbers == [0, 1]  # one slot ahead, and no more
    around.loop.advance(0.03)
    assert around.numbers == [0, 1, 2]
