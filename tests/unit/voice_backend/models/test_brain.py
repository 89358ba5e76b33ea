"""The brain without its weights: what is asked of the library, and what is made of its words."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from voice_backend.models.brain import (
    MOST_ASKED,
    MOST_MESSAGES,
    MOST_TOKENS,
    Brain,
    messages_of,
    whole_sentences,
)
from voice_backend.models.inference import ModelUnusable
from voice_backend.models.store import ModelsMissing, Store


class Server:
    """Says three pieces, unless it is told to stop."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.said = 0

    def handle_chat_completions(self, asked: dict[str, Any], receive: Any) -> None:
        self.asked = asked
        for piece in ("Paris is ", "the capital. ", "It is a"):
            self.said += 1
            if receive({"choices": [{"delta": {"content": piece}}]}):
                return


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def brain(server: Server) -> Brain:
    return Brain(server, tempfile.TemporaryDirectory())


def test_an_answer_is_whole_sentences(brain: Brain, server: Server) -> None:
    assert brain.answer("user: what is the capital?" + "x" * 9000) == "Paris is the capital."
    assert len(server.asked["messages"][1]["content"]) <= MOST_ASKED
    assert server.asked["max_tokens"] == MOST_TOKENS
    brain.close()


def test_it_stops_when_nobody_waits(brain: Brain, server: Server) -> None:
    assert brain.answer("?", lambda: True) == ""
    assert server.said == 1
    brain.close()


def test_a_talk_becomes_messages() -> None:
    talk = "user: Hello.\nassistant: Hello.\nuser: What is\nuser: the capital?\nassistant: Let me"
    assert [(m["role"], m["content"]) for m in messages_of(talk)[1:]] == [
        ("user", "Hello."),
        ("assistant", "Hello."),
        ("user", "What is the capital?"),
    ]
    assert messages_of("just this")[1:] == [{"role": "user", "content": "just this"}]
    assert len(messages_of("user: a\nassistant: b\n" * 50 + "user: c")) == 1 + MOST_MESSAGES


def test_sentences() -> None:
    assert whole_sentences("No end") == "No end"
    assert whole_sentences("One.  Two! Thr") == "One. Two!"
    assert whole_sentences("") == ""


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelsMissing, match="warp models fetch"):
        Brain.load(Store(tmp_path))
    assert not Brain.is_available(Store(tmp_path))
    monkeypatch.setattr(Store, "path", lambda self, package: tmp_path)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelUnusable, match="pip install xllamacpp"):
        Brain.load(Store(tmp_path))
