"""Sound of a WebSocket in any rhythm: 20 ms for the model each time, and never far behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from voice_backend.io.live_line import SocketLine
from voice_backend.live.rhythm import MAX_BEHIND_S
from voice_backend.live.shapes import AudioFormat, G711Format, PcmFormat
from voice_backend.model import ModelInfo

INFO = ModelInfo(name="m", in_rate=16_000, out_rate=24_000)
LIKE = PcmFormat(type="audio/pcm", rate=16000)


def with_line(story: Callable[[SocketLine, list], None], given: AudioFormat | None = LIKE) -> None:
    async def main() -> None:
        sent: list[bytes | None] = []
        story(SocketLine(INFO, given, lambda events: None, sent.append), sent)
        await asyncio.sleep(0)

    asyncio.run(main())


def piece(ms: int, value: int = 4000) -> bytes:
    return np.full(16 * ms, value, np.int16).tobytes()


@pytest.mark.parametrize("piece_ms", [20, 50, 100, 200])
def test_a_steady_rhythm_has_no_gap_once_it_flows(piece_ms: int) -> None:
    def story(line: SocketLine, _: list) -> None:
        frames = []
        said = 0
        for at in range(0, 4000, 20):
            while said <= at:
                line.hear(piece(piece_ms))
                said += piece_ms
            frames.append(line.take(0.0))
        first = next(n for n, frame in enumerate(frames) if frame is not None)
        assert all(frame is not None for frame in frames[first:])
        assert first * 20 <= 60
        assert all(len(frame) == 320 for frame in frames if frame is not None)

    with_line(story)


def test_one_that_is_late_is_waited_for_longer() -> None:
    def story(line: SocketLine, _: list) -> None:
        frames = []
        for tick in range(400):
            # every fifth piece of 100 ms is 80 ms late
            if tick % 5 == (4 if tick // 5 % 5 == 4 else 0):
                line.hear(piece(100))
            frames.append(line.take(0.0))
        assert any(frame is None for frame in frames[10:100])
        assert all(frame is not None for frame in frames[200:])

    with_line(story)


def test_a_client_that_says_little_is_heard() -> None:
    def story(line: SocketLine, _: list) -> None:
        line.hear(piece(20))
        heard = [line.take(0.0) for _ in range(20)]
        assert sum(frame is not None for frame in heard) == 1

    with_line(story)


def test_a_whole_file_at_once_is_heard_whole() -> None:
    def story(line: SocketLine, _: list) -> None:
        line.hear(piece(5000))
        heard = [line.take(0.0) for _ in range(300)]
        assert sum(frame is not None for frame in heard) == 250
        assert line.rhythm.dropped_ms == 0

    with_line(story)


def test_quiet_is_skipped_to_catch_up() -> None:
    def story(line: SocketLine, _: list) -> None:
        line.hear(piece(1000) + piece(3000, 0) + piece(1000))
        heard = [line.take(0.0) for _ in range(400)]
        loud = [frame for frame in heard if frame is not None and abs(frame).max() > 3000]
        assert len(loud) == 100
        assert 2000 < line.rhythm.dropped_ms <= 3000

    with_line(story)


def test_what_came_before_the_line_was_there_is_caught_up_with_in_the_next_pause() -> None:
    """All of it is heard, and it does not stay behind by as much for good."""

    def story(line: SocketLine, _: list) -> None:
        for _n in range(15):
            line.hear(piece(20), early=True)
        heard = []
        for at in range(0, 3000, 20):
            line.hear(piece(20, 4000 if at < 1000 else 0))
            heard.append(line.take(0.0))
        loud = [frame for frame in heard if frame is not None and abs(frame).max() > 3000]
        assert len(loud) == 15 + 50
        assert line.rhythm.waiting_ms <= 60
        assert line.rhythm.dropped_ms >= 240

    with_line(story)


def test_a_flood_is_bounded_and_the_newest_is_kept() -> None:
    def story(line: SocketLine, _: list) -> None:
        for n in range(60):
            line.hear(piece(1000, 1000 + n))
            line.take(0.0)
        assert line.rhythm.waiting_ms <= MAX_BEHIND_S * 1000
        assert line.rhythm.dropped_ms > 45_000
        assert line.rhythm._rest[-1] == 1059

    with_line(story)


def test_mute_is_silence_and_not_nothing() -> None:
    def story(line: SocketLine, _: list) -> None:
        line.muted = True
        line.hear(piece(200))
        *_, frame = [line.take(0.0) for _ in range(4)]
        assert frame is not None and not frame.any()

    with_line(story)


@pytest.mark.parametrize(
    ("given", "octets"),
    [(None, 960), (LIKE, 640), (G711Format(type="audio/pcmu"), 160)],
)
def test_what_we_say_has_the_clients_format(given: AudioFormat | None, octets: int) -> None:
    sent: list[bytes | None] = []

    async def main() -> None:
        line = SocketLine(INFO, given, lambda events: None, sent.append)
        for _ in range(5):
            line.give(np.full(480, 5000, np.int16), 0.0)
        line.flush()
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert sent[-1] is None
    assert [len(sound) for sound in sent[:-1] if sound is not None] == [octets] * 5
