"""Who has the floor: end of turn, barge-in, back-channels. Pure machines of media time.

detector's likelihoods ─▶ speech ─▶ end_of_turn ─▶ PauseReached ─▶ (turn model) ─▶ TurnEnded
                            │
frames that were played ────┴────▶ overlap ─▶ OutputHeld ─▶ OutputResumed, BackChannel
                                                    └─▶ Yielded
all of it inside `Floor`, which is told of frames and drained by `events()`
"""

from voice_backend.turns.back_channel import is_back_channel
from voice_backend.turns.config import TurnConfig
from voice_backend.turns.events import (
    BackChannel,
    OutputHeld,
    OutputResumed,
    PauseReached,
    SpeechStarted,
    TurnContinued,
    TurnEnded,
    TurnEndReason,
    TurnEvent,
    WordsWanted,
    Yielded,
    YieldReason,
)
from voice_backend.turns.floor import Floor, Holder

__all__ = [
    "BackChannel",
    "Floor",
    "Holder",
    "OutputHeld",
    "OutputResumed",
    "PauseReached",
    "SpeechStarted",
    "TurnConfig",
    "TurnContinued",
    "TurnEndReason",
    "TurnEnded",
    "TurnEvent",
    "WordsWanted",
    "YieldReason",
    "Yielded",
    "is_back_channel",
]
