"""When the user speaks: likelihoods of a voice-activity detector become spans, with hysteresis.

SILENT ──(likely for onset_ms)──▶ SPEAKING ──(unlikely)──▶ SPEAKING, silent_ms counts
   ▲                                  │ ▲                        │
   └───────────── end() ──────────────┘ └──(likely for onset_ms)─┘
"""

from __future__ import annotations

from voice_backend.turns.config import TurnConfig


class Speech:
    """The span of speech that is under way, by frames of media time."""

    __slots__ = ("_config", "_likely", "_run_start_ms", "end_ms", "now_ms", "start_ms")

    def __init__(self, config: TurnConfig) -> None:
        self._config = config
        self._likely = False
        self._run_start_ms: int | None = None
        self.start_ms: int | None = None
        """Where the span began, None while nobody speaks."""
        self.end_ms = 0
        """Where the last frame of speech in it ended."""
        self.now_ms = 0
        """Media time at the end of the last frame."""

    @property
    def speaking(self) -> bool:
        """Whether a span is under way, pauses included."""
        return self.start_ms is not None

    @property
    def silent_ms(self) -> int:
        """How long the pause has lasted, 0 while speech sounds."""
        return 0 if self.start_ms is None else self.now_ms - self.end_ms

    @property
    def resuming(self) -> bool:
        """Whether it sounds as if speech went on, too short so far to count."""
        return self.silent_ms > 0 and self._run_start_ms is not None

    @property
    def spoken_ms(self) -> int:
        """From the beginning of the span to the last of its speech."""
        return 0 if self.start_ms is None else self.end_ms - self.start_ms

    def go_on(self, start_ms: int, end_ms: int, now_ms: int) -> None:
        """Take up a span that began elsewhere: where it began, last sounded, and is by now."""
        self.start_ms, self.end_ms, self.now_ms = start_ms, end_ms, now_ms

    def receive_frame(self, at_ms: int, duration_ms: int, likelihood: float) -> None:
        """Take one frame's likelihood of speech; `at_ms` is where the frame begins."""
        self.now_ms = max(self.now_ms, at_ms + duration_ms)
        if likelihood >= self._config.speech_threshold:
            self._likely = True
        elif likelihood < self._config.silence_threshold:
            self._likely = False
        if not self._likely:
            self._run_start_ms = None
            return
        if self._run_start_ms is None:
            self._run_start_ms = at_ms
        # a click of one frame neither begins speech nor ends a pause
        if self.now_ms - self._run_start_ms < self._config.onset_ms:
            return
        if self.start_ms is None:
            self.start_ms = self._run_start_ms
        self.end_ms = self.now_ms

    def end(self) -> None:
        """The span is over; frames that follow may begin another."""
        self.start_ms = None
        self._run_start_ms = None
        self._likely = False
