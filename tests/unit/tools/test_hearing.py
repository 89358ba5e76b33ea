from __future__ import annotations

import numpy as np
import pytest

from warp.rtp import AudioFrame
from warp_tools.audio import likeness, packaged_sound
from warp_tools.hearing import MAX_CONCEALED, Hearing, Recording
from warp_tools.opus import encoded, frames_of

SPEECH = packaged_sound("speech")
PAYLOADS = encoded(SPEECH)


def frame(payload: bytes | None, at: int, lost: int = 0) -> AudioFrame:
    return AudioFrame(payload, at * 960, at, False, 111, None, 0.0, lost)


def test_frames_are_whole() -> None:
    cut = frames_of(np.ones(1_000, np.int16))
    assert [len(piece) for piece in cut] == [960, 960]
    assert cut[1].sum() == 40
    assert frames_of(np.zeros(0, np.int16)) == []


def test_payloads_become_sound_in_order() -> None:
    hearing = Hearing()
    heard = np.concatenate([hearing.hear(frame(p, i)) for i, p in enumerate(PAYLOADS)])
    assert likeness(SPEECH, heard).correlation > 0.95
    assert hearing.concealed == hearing.refused == 0


def test_a_gap_is_filled_when_the_next_payload_comes() -> None:
    hearing = Hearing()
    for at in range(50):
        hearing.hear(frame(PAYLOADS[at], at))
    assert len(hearing.hear(frame(None, 50, lost=3))) == 0
    after = hearing.hear(frame(PAYLOADS[53], 53))
    assert len(after) == 4 * 960
    assert hearing.filled == 3 * 960
    assert hearing.concealed == 3
    assert len(hearing.hear(frame(PAYLOADS[54], 54))) == 960
    assert hearing.filled == 0


@pytest.mark.parametrize(("ahead", "missing"), [(1, 0), (2, 1), (9, 4)])
def test_lost_padding_is_not_missed(ahead: int, missing: int) -> None:
    """Four packets are gone; there was time for so many frames only."""
    hearing = Hearing()
    hearing.hear(frame(PAYLOADS[0], 10))
    hearing.hear(frame(None, 11, lost=4))
    assert len(hearing.hear(frame(PAYLOADS[1], 10 + ahead))) == (missing + 1) * 960
    assert hearing.concealed == missing


def test_a_long_gap_is_filled_only_so_far() -> None:
    hearing = Hearing()
    hearing.hear(frame(None, 0, lost=10_000))
    assert len(hearing.hear(frame(PAYLOADS[0], 10_000))) == (MAX_CONCEALED + 1) * 960


def test_what_is_not_opus_is_concealed_and_counted() -> None:
    hearing = Hearing()
    hearing.hear(frame(PAYLOADS[0], 0))
    assert len(hearing.hear(frame(b"\xff\xff\xff", 1))) == 960
    hearing.hear(frame(None, 2, lost=1))
    assert len(hearing.hear(frame(b"\xff\xff\xff", 3))) == 2 * 960
    assert hearing.refused == 2


def test_a_recording_puts_frames_where_their_timestamps_say() -> None:
    recording = Recording()
    for at in (100, 101, 150):
        recording.add(frame(PAYLOADS[40], at))
    samples = recording.samples()
    assert recording.seconds == pytest.approx(51 * 0.02)
    assert len(samples) == 51 * 960
    assert not np.any(samples[2 * 960 : 50 * 960])
    assert np.any(samples[50 * 960 :])
    assert recording.frames == 3
    # no sequence number is missing: nothing was said, and nothing is lost
    assert (recording.unsent_s, recording.concealed) == (pytest.approx(48 * 0.02), 0)


def test_what_was_lost_is_no_pause() -> None:
    recording = Recording()
    recording.add(frame(PAYLOADS[40], 0))
    recording.add(frame(None, 1, lost=9))
    recording.add(frame(PAYLOADS[40], 10))
    assert recording.unsent_s == 0
    assert recording.concealed == MAX_CONCEALED
    recording.add(frame(PAYLOADS[40], 12))
    assert recording.unsent_s == pytest.approx(0.02)


def test_a_recording_with_losses_is_still_the_speech() -> None:
    recording = Recording()
    for at, payload in enumerate(PAYLOADS):
        lost = at % 20 == 7
        recording.add(frame(None, at, lost=1) if lost else frame(payload, at))
    assert recording.concealed == sum(at % 20 == 7 for at in range(len(PAYLOADS)))
    found = likeness(SPEECH, recording.samples())
    assert found.correlation > 0.9
    assert found.offset_s < 0.02


def test_a_timestamp_from_nowhere_does_not_grow_the_recording() -> None:
    recording = Recording()
    recording.add(frame(PAYLOADS[0], 0))
    recording.add(frame(PAYLOADS[1], 1 << 30))
    assert recording.seconds == pytest.approx(0.02)
    assert Recording().samples().shape == (0,)
