"""What the machines of a conversation's turns are told; every figure is media time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnConfig:
    """How patient a voice is. Milliseconds of media time, counted in samples, never by a clock."""

    speech_threshold: float = 0.5  # a frame this likely to be speech begins it
    silence_threshold: float = 0.35  # and below this one it ends
    onset_ms: int = 64  # speech begins when it has lasted this long: two frames of 32 ms
    pause_ms: int = 192  # silence after which the turn model is asked
    settle_ms: int = 160  # silence before which no turn is over, whatever the turn model says
    complete_threshold: float = 0.5  # the turn model's word counts as "complete" from here
    again_ms: int = 400  # further silence after which it is asked again
    unanswered_ms: int = 800  # silence that ends the turn while the turn model owes its word
    patience_ms: int = 1600  # silence that ends it though the turn model said "not yet"
    hold_ms: int = 200  # the user's speech over ours after which ours stops
    back_channel_ms: int = 700  # speech over ours up to this long may be a back-channel
    words_ms: int = 400  # how long what was said is waited for before silence decides
    audible_ms: int = 120  # a gap in our own output up to this long does not end our speaking
    stalled_ms: int = 2000  # output that is promised but has not sounded for so long is not speech
    continue_ms: int = 2000  # the user who speaks on so soon after a turn's end continues the turn
