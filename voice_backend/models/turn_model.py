"""Whether what was said sounds finished: Smart-Turn v3.2, on the last eight seconds of a turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.models.catalogue import TURNS
from voice_backend.models.inference import open_session
from voice_backend.models.mel import RATE, log_mel
from voice_backend.models.store import Store

SAMPLES: Final = 8 * RATE
MEMBER: Final = "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"


class TurnModel:
    """Judges the sound of speech, its melody above all; it knows no words."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    def load(cls, store: Store) -> TurnModel:
        """Load the network. Raises ModelsMissing or ModelUnusable."""
        return cls(open_session(store.path(TURNS) / MEMBER))

    def judge(self, sound: NDArray[np.float32]) -> Generator[None, None, float]:
        """Return the likelihood that the turn is complete, in two units of work.

        `sound` is the turn so far at 16 kHz, -1 to 1, its closing silence included; only the end
        of it counts.
        """
        last = sound[-SAMPLES:]
        features = log_mel(np.pad(last, (SAMPLES - len(last), 0)))
        yield
        (value,) = self._session.run(None, {"input_features": features[None]})
        return float(np.ravel(value)[0])
