"""A call as a line: what waits too long is dropped, a greeting is not, and floods are bounded."""

from __future__ import annotations

import numpy as np

from tests.unit.voice_backend.audio.support import speech
from voice_backend.audio import EncoderConfig
from voice_backend.frames import silence
from voice_backend.io.crossing import CARRY_AT
from voice_backend.io.rtp_line import MAX_INBOX, RtpLine
from voice_backend.model import ModelInfo
from warp.rtp import AudioFrame, ReportBlock, has_fec

INFO = ModelInfo(name="m", in_rate=16_000, out_rate=24_000)
LOUD = (8_000 * np.sin(np.arange(480) / 5)).astype(np.int16)


class Sound:
    """Both audio ends of a session."""

    def __init__(self) -> None:
        self.arrived: list[AudioFrame] = []
        self.sent: list[bytes] = []
        self.queued_ms = 0.0
        self.cleared = 0
        self.report: ReportBlock | None = None

    def take(self) -> list[AudioFrame]:
        frames, self.arrived = self.arrived, []
        return frames

    def send(self, payload: bytes) -> None:
        self.sent.append(payload)

    def clear(self) -> float:
        self.cleared += 1
        self.queued_ms = 0.0
        return 0.0


class Session:
    def __init__(self) -> None:
        self.audio_in = self.audio_out = Sound()


class Direct:
    """A crossing without threads."""

    behind = 0

    def send(self, call, argument) -> None:
        call(argument)


def packet(n: int) -> AudioFrame:
    return AudioFrame(bytes([0x78, 1, 2, 3]), 960 * n, n, False, 111, None, 0.02 * n)


def line(queued_ms: float = 0.0) -> tuple[RtpLine, Sound, Direct, list]:
    session, crossing, told = Session(), Direct(), []
    session.audio_out.queued_ms = queued_ms
    encoder = EncoderConfig(dtx=False)
    made = RtpLine(session, INFO, crossing, told.extend, encoder)  # type: ignore[arg-type]
    return made, session.audio_out, crossing, told


def test_frames_go_out_and_events_are_told() -> None:
    made, sound, _, told = line()
    made.give(LOUD, 0.0)
    made.tell(["event"])  # type: ignore[list-item]
    assert len(sound.sent) == 1
    assert told == ["event"]


def test_there_is_always_something_to_hear() -> None:
    made, sound, _, _ = line()
    assert made.take(0.0).shape == (320,)
    made.muted = True
    sound.arrived = [packet(n) for n in range(9)]
    made.collect()
    assert not any(made.take(0.02 * n).any() for n in range(1, 9))


def test_what_waits_too_long_is_dropped_and_the_newest_goes() -> None:
    made, sound, crossing, _ = line()
    sound.queued_ms = 60.0
    made.give(LOUD, 0.0)
    assert (sound.cleared, len(sound.sent)) == (1, 1)
    assert made.behind == crossing.behind == 3
    assert made.stats()["behind"] == 3


def test_a_greeting_is_said_to_its_end() -> None:
    made, sound, crossing, _ = line(queued_ms=2_000.0)
    made.give(LOUD, 0.0)
    assert (sound.sent, sound.cleared, crossing.behind) == ([], 0, 0)
    sound.queued_ms = 0.0
    made.give(LOUD, 0.02)
    made.flush()
    assert (len(sound.sent), sound.cleared) == (1, 1)


def test_a_greeting_that_is_talked_into_ends() -> None:
    made, sound, _, _ = line(queued_ms=2_000.0)
    made.flush()
    assert (sound.cleared, sound.queued_ms) == (1, 0.0)
    made.give(LOUD, 0.02)
    assert len(sound.sent) == 1


def test_a_flood_is_bounded() -> None:
    made, sound, _, _ = line()
    for n in range(20 * MAX_INBOX):
        sound.arrived.append(packet(n))
        if n % 100 == 0:
            made.collect()
    made.collect()
    assert len(made._inbox) == MAX_INBOX
    assert made.stats()["flooded"] == 19 * MAX_INBOX
    assert made.take(0.0).shape == silence(320).shape
    assert CARRY_AT < MAX_INBOX


def test_what_the_peer_reports_as_lost_is_made_up_for() -> None:
    made, sound, _, _ = line()
    assert made.stats()["expected_loss_percent"] == 5
    for n in range(4):
        # a report is told from the one before by being another, not by what it says
        sound.report = ReportBlock(1, 64, n, 0, 0, 0, 0)
        for _ in range(50):
            made.collect()
    assert made.stats()["expected_loss_percent"] == 24
    for _ in range(10):
        made.give(speech(24_000)[24_000:24_480], 0.0)
    assert made._sender.expected_loss == 24
    assert any(map(has_fec, sound.sent))
