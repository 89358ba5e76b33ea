from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from warp_tools.conversation import Conversation, Said, audible_frames, write_stereo
from warp_tools.ledger import Ledger, unanswered

ASKED = Said(speaker="user", text="What is seven times eight?", start_ms=100, end_ms=1800)
ANSWERED = Said(speaker="assistant", text="Fifty-six.", start_ms=2200, end_ms=3000)


def conversation() -> Conversation:
    return Conversation(
        reply_ms=512.0,
        transcript=[ASKED, ANSWERED],
        seconds=4.0,
        concealed=1,
        asked="What is seven times eight?",
        late=2,
    )


def test_it_is_the_same_after_a_pipe() -> None:
    assert Conversation.of_json(conversation().to_json()) == conversation()


def test_what_is_missing_is_said() -> None:
    found = conversation()
    assert unanswered(found) == []
    found.transcript.remove(ANSWERED)
    assert unanswered(found) == ["talk: the answer was not written down"]
    found.transcript.remove(ASKED)
    assert "talk: the question was not understood" in unanswered(found)
    found.reply_ms = None
    assert unanswered(found) == unanswered(None) == ["talk: no spoken answer came"]
    assert "talk: no spoken answer came" in Ledger(rtt_ms=100, talks=True).misses()
    assert not any("talk" in miss for miss in Ledger(rtt_ms=100).misses())


def test_what_was_understood_is_held_against_what_was_asked() -> None:
    found = conversation()
    assert found.is_understood
    found.asked = "what is SEVEN times eight"
    assert found.is_understood
    found.asked = "What is six times eight?"
    assert not found.is_understood
    found.asked = ""  # a question of the user's: who knows
    assert found.is_understood


def test_a_question_is_over_with_its_last_word() -> None:
    silence, word = np.zeros(9_600, np.int16), np.full(4_800, 3_000, np.int16)
    assert audible_frames(np.concatenate([silence, word, silence])) == 15
    assert audible_frames(silence) == 0


def test_both_sides_are_where_they_were(tmp_path: Path) -> None:
    said, heard = np.full(480, 5, np.int16), np.full(960, 7, np.int16)
    for lead_s, left, right in ((0.01, 480, 0), (-0.02, 0, 960)):
        write_stereo(tmp_path / "both.wav", said, heard, lead_s=lead_s)
        with wave.open(str(tmp_path / "both.wav")) as file:
            assert (file.getnchannels(), file.getframerate()) == (2, 48_000)
            both = np.frombuffer(file.readframes(10_000), np.int16).reshape(-1, 2)
        assert np.flatnonzero(both[:, 0])[0] == left
        assert np.flatnonzero(both[:, 1])[0] == right
        assert np.count_nonzero(both[:, 0]) == 480
        assert np.count_nonzero(both[:, 1]) == 960
