"""What of a conversation's sound the ears are asked about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voice_backend.models.listener import CUT_MS, LONGEST_MS, Asked, Listener, Question

GAP_MS = 6_700


def listening(milliseconds: int) -> tuple[Listener, NDArray[np.float32]]:
    """Noise without a pause, but for 80 ms between two words."""
    sound = np.random.default_rng(2).standard_normal(16 * milliseconds).astype(np.float32)
    sound[16 * GAP_MS : 16 * (GAP_MS + 80)] *= 0.01
    listener = Listener()
    for at_ms in range(0, milliseconds, 20):
        listener.receive_frame(at_ms, sound[16 * at_ms : 16 * (at_ms + 20)])
    return listener, sound


def test_speech_that_is_not_long_is_not_cut() -> None:
    listener, _ = listening(7_000)
    assert listener.segment(0, 7_000, paused=False) is None
    at_a_pause = listener.segment(0, 7_000, paused=True)
    assert at_a_pause is not None
    assert (at_a_pause.end_ms, at_a_pause.cut) == (7_000, False)


def test_long_speech_is_cut_between_words_and_nothing_is_heard_twice_or_not_at_all() -> None:
    listener, sound = listening(12_000)
    asked = listener.segment(0, LONGEST_MS, paused=False)
    assert asked is not None
    assert asked.what is Question.SEGMENT
    assert CUT_MS < asked.end_ms <= LONGEST_MS
    assert GAP_MS < asked.end_ms < GAP_MS + 80
    first = listener.sound_to_hear(asked)
    listener.settle(asked)
    assert listener.segment(0, 12_000, paused=False) is None
    final = listener.unsettled(Asked(Question.FINAL, 1, 0, 12_000))
    assert (final.start_ms, final.end_ms) == (asked.end_ms, 12_000)
    rest = listener.sound_to_hear(final)
    assert np.array_equal(np.concatenate([first, rest]), sound)


def test_words_of_another_turn_go_and_so_do_their_faults() -> None:
    listener = Listener()
    listener.begin_turn(1)
    asked, of_another = Asked(Question.FINAL, 1, 0, 0), Asked(Question.FINAL, 7, 0, 0)
    listener.receive_final(asked, "hello")
    listener.receive_final(asked, "")
    listener.receive_final(of_another, "good day")
    listener.receive_final(asked, None)
    listener.begin_turn(1)
    assert (list(listener.texts), listener.missed) == (["hello"], True)
    listener.begin_turn(2)
    assert (list(listener.texts), listener.missed) == ([], False)


def test_another_listener_hears_what_is_asked_and_what_is_new() -> None:
    pcm = np.random.default_rng(3).integers(-32768, 32768, 16 * 3_000)
    sound, listener = np.asarray(pcm / 32768, np.float32), Listener()
    for at_ms in range(0, 3_000, 20):
        listener.receive_frame(at_ms, sound[16 * at_ms : 16 * (at_ms + 20)])
    listener.begin_turn(1)
    first = Asked(Question.SEGMENT, 1, 300, 1_000, cut=True)
    listener.ask(first)
    listener.ask(Asked(Question.SEGMENT, 1, 1_000, 2_000, cut=True))
    left = listener.unheard((2_100, 2_900))
    assert left is not None
    assert (left.start_ms, left.end_ms, left.now_ms) == (300, 2_900, 3_000)
    assert len(left.sound) == 16 * (3_000 - 60), "a soft beginning included"
    listener.receive_final(first, "hello")
    left = listener.unheard((2_100, 2_900))
    assert left is not None
    assert left.start_ms == 1_000

    other = Listener()
    other.go_on(left)
    asked = other.unsettled(Asked(Question.FINAL, 1, left.start_ms, left.end_ms))
    assert (asked.start_ms, asked.end_ms) == (1_000, 2_900)
    assert np.array_equal(other.sound_to_hear(asked), sound[16 * 1_000 :])


def test_there_is_nothing_left_to_hear_of_what_was_heard() -> None:
    listener, _ = listening(1_000)
    listener.begin_turn(1)
    listener.ask(Asked(Question.FINAL, 1, 0, 900))
    listener.begin_turn(2)
    assert listener.unheard(None) is None
