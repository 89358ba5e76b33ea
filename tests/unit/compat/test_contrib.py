"""Players, recorders, black holes and relays."""

from __future__ import annotations

import asyncio
import wave
from pathlib import Path

import numpy as np
import pytest

from tests.unit.compat.pairs import until
from tests.unit.compat.sound import Tone, samples_of, share_of, tone_frame
from tests.unit.io.support import play
from warp.compat.aiortc import (
    AudioStreamTrack,
    InvalidStateError,
    MediaStreamError,
    MediaStreamTrack,
    NotSupportedError,
)
from warp.compat.aiortc.contrib import relay as relays
from warp.compat.aiortc.contrib.media import (
    MediaBlackhole,
    MediaPlayer,
    MediaRecorder,
    MediaRelay,
)


def write_tone(path: Path, hertz: float, seconds: float, rate: int = 8_000) -> str:
    count = int(rate * seconds)
    data = tone_frame(hertz, 0, rate=rate, samples=count).to_ndarray()
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(data.tobytes())
    return str(path)


def read_wave(path: Path) -> tuple[int, np.ndarray]:
    with wave.open(str(path), "rb") as source:
        data = np.frombuffer(source.readframes(source.getnframes()), np.int16)
        return source.getframerate(), data[:: source.getnchannels()]


async def take(track: MediaStreamTrack, count: int) -> list:
    return [await track.recv() for _ in range(count)]


class Feed(MediaStreamTrack):
    """Frames as the test gives them; None ends it."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.queue: asyncio.Queue = asyncio.Queue()

    async def recv(self):
        frame = await self.queue.get()
        if frame is None:
            self.stop()
            raise MediaStreamError
        return frame


@pytest.mark.slow
def test_a_player_plays_in_time_and_ends(tmp_path: Path) -> None:
    path = write_tone(tmp_path / "tone.wav", 440, 0.3)

    async def story() -> None:
        player = MediaPlayer(path)
        assert player.video is None
        ended = []
        track = player.audio
        track.on("ended", lambda: ended.append(True))
        frames = []
        began = asyncio.get_running_loop().time()
        with pytest.raises(MediaStreamError):
            while True:
                frames.append(await track.recv())
        assert asyncio.get_running_loop().time() - began > 0.25
        assert [f.pts for f in frames[:3]] == [0, 960, 1920]
        assert {(f.samples, f.layout.name, f.format.name) for f in frames[:-1]} == {
            (960, "stereo", "s16")
        }
        heard = samples_of(frames)
        assert abs(len(heard) - 14_400) < 960
        assert share_of(440, heard) > 0.95
        assert ended == [True]
        with pytest.raises(MediaStreamError):
            await track.recv()

    play(story)


def test_a_player_may_begin_again_and_be_stopped(tmp_path: Path) -> None:
    path = write_tone(tmp_path / "tone.wav", 440, 0.05)

    async def story() -> None:
        player = MediaPlayer(path, loop=True)
        player.paced = False
        assert share_of(440, samples_of(await take(player.audio, 20))) > 0.5
        player.audio.stop()
        with pytest.raises(MediaStreamError):
            await player.audio.recv()

    play(story)


def test_a_player_refuses_what_it_cannot_play(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        MediaPlayer(str(tmp_path / "nothing.wav"))
    (tmp_path / "text.wav").write_text("no sound")
    with pytest.raises(ValueError, match=r"text\.wav"):
        MediaPlayer(str(tmp_path / "text.wav"))
    with pytest.raises(NotSupportedError, match="decode"):
        MediaPlayer(write_tone(tmp_path / "tone.wav", 440, 0.1), decode=False)


def test_a_recorder_writes_what_a_track_says(tmp_path: Path) -> None:
    async def story() -> None:
        recorder = MediaRecorder(str(tmp_path / "out.wav"))
        tone = Tone(440, frames=50)
        recorder.addTrack(tone)
        await recorder.start()
        await recorder.start()
        await until(lambda: tone.taken == 50)
        await recorder.stop()
        await recorder.stop()
        with pytest.raises(InvalidStateError):
            recorder.addTrack(Tone(1))

    play(story)
    rate, samples = read_wave(tmp_path / "out.wav")
    assert rate == 48_000
    assert len(samples) == 48_000
    assert share_of(440, samples) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.ogg", "out.mp4"])
def test_a_recorder_writes_what_can_be_played(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        recorder = MediaRecorder(str(tmp_path / name))
        tone = Tone(440, frames=50)
        recorder.addTrack(tone)
        await recorder.start()
        await until(lambda: tone.taken == 50)
        await recorder.stop()
        player = MediaPlayer(str(tmp_path / name))
        player.paced = False
        assert share_of(440, samples_of((await take(player.audio, 40))[5:])) > 0.95
        player.audio.stop()

    play(story)


def test_a_recorder_that_heard_nothing_is_no_fault(tmp_path: Path) -> None:
    async def story() -> None:
        for index, prepare in enumerate(((), (Feed(),), ())):
            recorder = MediaRecorder(str(tmp_path / f"{index}.wav"))
            for track in prepare:
                recorder.addTrack(track)
            if index:
                await recorder.start()
            await recorder.stop()

    play(story)


def test_a_recorder_refuses_video_and_tells_what_kept_it_from_writing(tmp_path: Path) -> None:
    class Picture(MediaStreamTrack):
        kind = "video"

    class Wrong(AudioStreamTrack):
        async def recv(self):
            return "no frame"

    async def story() -> None:
        recorder = MediaRecorder(str(tmp_path / "out.wav"))
        with pytest.raises(NotSupportedError):
            recorder.addTrack(Picture())
        recorder.addTrack(Wrong())
        await recorder.start()
        await asyncio.sleep(0)
        with pytest.raises((AttributeError, TypeError)):
            await recorder.stop()

    play(story)


def test_a_black_hole_swallows() -> None:
    async def story() -> None:
        hole, feed, tone = MediaBlackhole(), Feed(), Tone(440, frames=5)
        hole.addTrack(feed)
        hole.addTrack(tone)
        await hole.start()
        feed.queue.put_nowait(1)
        await until(lambda: feed.queue.empty() and tone.taken == 5)
        await hole.stop()
        await hole.stop()
        assert feed.readyState == "live"

    play(story)


def test_a_relay_gives_each_consumer_everything() -> None:
    async def story() -> None:
        relay, feed = MediaRelay(), Feed()
        first, second = relay.subscribe(feed), relay.subscribe(feed)
        assert first.kind == "audio"
        waiting = [asyncio.ensure_future(take(t, 3)) for t in (first, second)]
        await asyncio.sleep(0)
        for frame in (1, 2, 3, 4):
            feed.queue.put_nowait(frame)
        assert await asyncio.gather(*waiting) == [[1, 2, 3], [1, 2, 3]]
        first.stop()
        with pytest.raises(MediaStreamError):
            await first.recv()
        feed.queue.put_nowait(None)
        assert await second.recv() == 4
        with pytest.raises(MediaStreamError):
            await second.recv()
        assert second.readyState == "ended"

    play(story)


def test_an_unbuffered_consumer_gets_the_newest_and_a_slow_one_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relays, "MAX_WAITING", 3)

    async def story() -> None:
        relay, feed = MediaRelay(), Feed()
        newest, slow = relay.subscribe(feed, buffered=False), relay.subscribe(feed)
        waiting = [asyncio.ensure_future(t.recv()) for t in (newest, slow)]
        await asyncio.sleep(0)
        feed.queue.put_nowait(0)
        assert await asyncio.gather(*waiting) == [0, 0]
        for frame in range(1, 8):
            feed.queue.put_nowait(frame)
        await until(feed.queue.empty)
        await asyncio.sleep(0)
        assert await take(slow, 3) == [5, 6, 7]
        later = asyncio.ensure_future(newest.recv())
        await asyncio.sleep(0)
        feed.queue.put_nowait(8)
        assert await later == 8
        for track in (newest, slow):
            track.stop()
        # the source is let be, and can be had again
        assert feed.readyState == "live"
        again = relay.subscribe(feed)
        feed.queue.put_nowait(9)
        assert await again.recv() == 9
        again.stop()

    play(story)


@pytest.mark.slow
def test_silence_comes_in_real_time() -> None:
    async def story() -> None:
        track = AudioStreamTrack()
        began = asyncio.get_running_loop().time()
        frames = await take(track, 5)
        assert asyncio.get_running_loop().time() - began >= 0.079
        assert [f.pts for f in frames] == [0, 160, 320, 480, 640]
        assert not samples_of(frames).any()
        track.stop()
        track.stop()
        with pytest.raises(MediaStreamError):
            await track.recv()
        assert track.id != AudioStreamTrack().id

    play(story)
