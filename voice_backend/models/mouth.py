"""Speech from text: Hibari, a clause at a time, with the time of every word.

    clause ──▶ phonemes ──▶ network ──▶ spectrum, pitch, durations ──▶ sound, 24 kHz
               one unit     one unit                                   one unit

The silence that the network puts before a clause is cut off: it is longer than everything else that
a caller waits for. Words have times because the network computes how long each phoneme lasts; that
tensor is inside its graph and is made an output when the graph is loaded.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.frames import Frame
from voice_backend.models.catalogue import MOUTH
from voice_backend.models.inference import open_session
from voice_backend.models.private_code import PrivateCode
from voice_backend.models.store import Store

RATE: Final = 24_000
DURATION_MS: Final = 25
"""What the network counts a phoneme's length in."""
DURATIONS: Final = "/Cast_32_output_0"
"""The tensor of them inside the graph."""
OUTPUTS: Final = ("lh", "theta", "ln", "lr", "phi", "f0")
PAD: Final = 0
"""The phoneme at both ends of a clause: silence."""
MOST_PHONEMES: Final = 400
LEVEL: Final = 10 ** (-45 / 20)
"""Softer is silence: -45 dBFS, as root mean square of a window of 20 ms, twice in a row."""
WINDOW: Final = RATE // 50
HOP: Final = RATE // 100
LEAD_MS: Final = 10
"""Silence that is left before the first sound: the attack of a soft consonant."""
TAIL_MS: Final = 60
"""And after the last one."""
PAUSES_MS: Final = {".": 220, "!": 220, "?": 220, "…": 300, ",": 110, ";": 160, ":": 160, "—": 160}
"""Silence after a clause that another follows, by its last character."""
FADE: Final = RATE * 4 // 1000


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an utterance and when it sounds, from the utterance's first sample."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """A clause as sound."""

    text: str
    pcm: Frame
    """Shape (samples,), int16, 24 kHz."""
    words: tuple[Word, ...]
    lead_ms: int = 0
    """Silence at its beginning."""


class Mouth:
    """Says clauses. The same clause sounds the same every time."""

    def __init__(self, session: Any, g2p: Any, normalise: Any, synthesise: Any, vocab: Any) -> None:
        self._session = session
        self._g2p = g2p
        self._normalise = normalise
        self._synthesise = synthesise
        self._vocab: dict[str, int] = vocab

    @classmethod
    def load(cls, store: Store) -> Mouth:
        """Load the network and its rules. Raises ModelsMissing or ModelUnusable."""
        assets = store.path(MOUTH) / "hibari" / "assets"
        # loaded by name before the package that would look for it, unchecked, at a later time
        PrivateCode.load(store, MOUTH, "hibari", "g2p.oov")
        g2p = PrivateCode.load(store, MOUTH, "hibari", "g2p")
        dsp = PrivateCode.load(store, MOUTH, "hibari", "dsp")
        graph = (assets / "hibari.onnx").read_bytes() + more_outputs(DURATIONS)
        return cls(
            open_session(graph),
            g2p.G2P(),
            g2p.normalize,
            dsp.synth,
            g2p._load_json("vocab.json"),
        )

    def say(self, text: str, *, last: bool = True) -> Generator[None, None, Utterance]:
        """Return a clause as sound, in three units of work.

        `last`: nothing follows, so there is no pause after it. Text without anything to pronounce
        is an utterance without sound.
        """
        ids, spans = self._phonemes(text)
        yield
        if len(ids) < 3:
            return Utterance(text, np.zeros(0, np.int16), ())
        feed = {"ids": np.array([ids], np.int64), "speed": np.ones(1, np.float32)}
        *spectrum, durations = self._session.run([*OUTPUTS, DURATIONS], feed)
        yield
        sound = self._synthesise(*(part[0] for part in spectrum), np.random.default_rng(0))
        return _trimmed(text, sound, _words(spans, durations), last)

    def _phonemes(self, text: str) -> tuple[list[int], list[tuple[str, int, int]]]:
        """Return the phonemes' numbers, and for every word which of them are its own."""
        ids, spans = [PAD], []
        word, begin = "", 1
        for token in self._g2p.phonemize_tokens(self._g2p.tokenize(self._normalise(text))):
            own = [self._vocab[c] for c in token.phonemes or "" if c in self._vocab]
            if len(ids) + len(own) + 2 > MOST_PHONEMES:
                break
            ids += own
            word += token.text
            if token.whitespace:
                spans.append((word, begin, len(ids)))
                ids.append(self._vocab[" "])
                word, begin = "", len(ids)
        if word:
            spans.append((word, begin, len(ids)))
        return [*ids, PAD], spans


def more_outputs(name: str) -> bytes:
    """Return what makes a tensor an output of an ONNX graph when it is appended to the file.

    A message that comes twice in a protobuf file is merged, and its repeated fields are joined:
    so this is ModelProto.graph (7) with GraphProto.output (12) with ValueInfoProto.name (1).
    """
    return _field(7, _field(12, _field(1, name.encode())))


def _field(number: int, content: bytes) -> bytes:
    size, encoded = len(content), bytearray([number << 3 | 2])
    while size > 127:
        encoded.append(size & 127 | 128)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + content


def first_sound(sound: NDArray[np.float32]) -> int | None:
    """Return the sample at which sound begins, None for silence all along."""
    loud = _loud(sound)
    both = loud[:-1] & loud[1:]
    return int(both.argmax()) * HOP if both.any() else None


def _loud(sound: NDArray[np.float32]) -> NDArray[np.bool_]:
    if len(sound) < WINDOW:
        return np.zeros(2, np.bool_)
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP]
    # the mean of squares without the mean: a constant is no sound
    return np.asarray(windows.var(axis=1) >= LEVEL**2)


def _words(spans: list[tuple[str, int, int]], durations: NDArray[np.int64]) -> list[Word]:
    ends = np.concatenate([[0], np.cumsum(np.ravel(durations))]) * DURATION_MS
    return [Word(text, int(ends[begin]), int(ends[end])) for text, begin, end in spans]


def _trimmed(text: str, sound: NDArray[np.float32], words: list[Word], last: bool) -> Utterance:
    start = first_sound(sound)
    if start is None:
        return Utterance(text, np.zeros(0, np.int16), ())
    backwards = first_sound(sound[::-1]) or 0
    begin = max(0, start - LEAD_MS * RATE // 1000)
    end = min(len(sound), len(sound) - backwards + TAIL_MS * RATE // 1000)
    kept = sound[begin:end].copy()
    kept[-FADE:] *= np.linspace(1, 0, len(kept[-FADE:]), dtype=np.float32)
    pause_ms = 0 if last else PAUSES_MS.get(text[-1:], 0)
    kept = np.pad(kept, (0, pause_ms * RATE // 1000))
    pcm = (np.clip(kept, -1, 1) * 32767).astype(np.int16)
    moved, length = begin * 1000 // RATE, len(pcm) * 1000 // RATE
    at = [
        Word(w.text, min(max(0, w.start_ms - moved), length), min(w.end_ms - moved, length))
        for w in words
    ]
    return Utterance(text, pcm, tuple(at), (start - begin) * 1000 // RATE)
