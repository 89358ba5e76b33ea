"""Words from speech: Moonshine tiny (English), run directly, one token a unit of work.

    samples, 16 kHz ──▶ encoder ──▶ states ──▶ decoder ─▶ token ─▶ decoder ─▶ token ... END
                        one unit               one unit            one unit

The decoder is greedy. Its graph has two branches: the first step computes keys and values of the
encoder's states, which all later steps go on with. Its mask is of samples, of which it
takes every 384th, one a state. Whoever drives the work may stop between units.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.models.catalogue import EARS
from voice_backend.models.inference import ModelUnusable, open_session
from voice_backend.models.store import Store

RATE: Final = 16_000
BEGIN, END = 1, 2
SPECIAL: Final = 3
"""Tokens below are not text."""
TOKENS_A_SECOND: Final = 6.5
"""No speech has more: what goes on is a loop of the decoder's."""
TOKENS_BESIDE: Final = 2
SHORTEST: Final = RATE // 4
"""The encoder needs some sound to stand on; less is padded with silence."""
HEADS, HEAD_WIDTH = 8, 36
STATE: Final = 384
"""Samples to a state: the encoder's strides, 64 times 3 times 2."""
NO_SPEECH: Final = frozenset({"you"})
"""What it writes for sounds that are no speech, and nobody says alone."""
SPACE: Final = "\N{LOWER ONE EIGHTH BLOCK}"
FOLDER: Final = "moonshine_voice/assets/tiny-en"


class Ears:
    """Hears one utterance at a time; keeps nothing between them."""

    def __init__(self, encoder: Any, decoder: Any, tokens: list[bytes]) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._tokens = tokens
        self._past = [i.name for i in decoder.get_inputs() if i.name.startswith("past_key")]
        outputs = [o.name for o in decoder.get_outputs()]
        self._first = outputs
        # the keys and values of the encoder's states stay as the first step gave them
        self._later = [name for name in outputs if ".encoder." not in name]

    @classmethod
    def load(cls, store: Store) -> Ears:
        """Load the networks. Raises ModelsMissing or ModelUnusable."""
        folder = store.path(EARS) / FOLDER
        return cls(
            open_session(folder / "encoder_model.ort"),
            open_session(folder / "decoder_model_merged.ort"),
            parse_tokens(folder / "tokenizer.bin"),
        )

    def hear(self, sound: NDArray[np.float32]) -> Generator[None, None, str]:
        """Return what was said, in units of a few milliseconds.

        `sound` is shape (samples,) at 16 kHz, -1 to 1. The first unit takes about 8 ms a second of
        sound, every other one about 3 ms.
        """
        if len(sound) < SHORTEST:
            sound = np.pad(sound, (0, SHORTEST - len(sound)))
        batch = np.ascontiguousarray(sound[None], np.float32)
        (states,) = self._encoder.run(
            None, {"input_values": batch, "attention_mask": np.ones(batch.shape, np.int64)}
        )
        yield
        most = int(len(sound) / RATE * TOKENS_A_SECOND) + TOKENS_BESIDE
        ids = yield from self._decode(states, most)
        text = self.text_of(ids)
        return "" if text.strip(" .,?!").lower() in NO_SPEECH else text

    def text_of(self, ids: list[int]) -> str:
        """Return the text of tokens."""
        raw = b"".join(self._tokens[i] for i in ids if SPECIAL <= i < len(self._tokens))
        return raw.decode("utf-8", "replace").replace(SPACE, " ").strip()

    def _decode(self, states: NDArray[np.float32], most: int) -> Generator[None, None, list[int]]:
        empty = np.zeros((1, HEADS, 0, HEAD_WIDTH), np.float32)
        feed: dict[str, Any] = dict.fromkeys(self._past, empty)
        feed["encoder_hidden_states"] = states
        feed["encoder_attention_mask"] = np.ones((1, states.shape[1] * STATE), np.int64)
        ids, token = [], BEGIN
        for step in range(most):
            feed["input_ids"] = np.array([[token]], np.int64)
            feed["use_cache_branch"] = np.array([step > 0])
            wanted = self._later if step else self._first
            logits, *present = self._decoder.run(wanted, feed)
            token = int(logits[0, -1].argmax())
            if token == END:
                break
            ids.append(token)
            for name, value in zip(wanted[1:], present, strict=True):
                feed[name.replace("present", "past_key_values")] = value
            yield
        return ids


def parse_tokens(path: Path) -> list[bytes]:
    """Return the tokens of a table: each a length (two bytes from 128 on) and its UTF-8.

    Raises ModelUnusable for a table that is cut.
    """
    raw, tokens, at = path.read_bytes(), [], 0
    while at < len(raw):
        size = raw[at]
        at += 1
        if size >= 128 and at < len(raw):
            size = raw[at] * 128 + size - 128
            at += 1
        if at + size > len(raw):
            raise ModelUnusable(f"{path.name} is cut: `warp models list --check`")
        tokens.append(raw[at : at + size])
        at += size
    return tokens
