"""A conversation by frames: who utters what, when, and what the floor makes of it."""

from __future__ import annotations

from voice_backend.turns import Floor, PauseReached, TurnConfig, TurnEvent, WordsWanted

FRAME_MS = 20


class Conversation:
    """Drives a floor on the grid of 20 ms. The answers of models are set ahead."""

    def __init__(self, config: TurnConfig | None = None) -> None:
        self.floor = Floor(config)
        self.now_ms = 0
        self.reply_ms = 0
        self.likelihood = 0.99
        self.words: str | None = None
        self.hint_at_ms: int | None = None
        self.seen: list[tuple[int, TurnEvent]] = []
        self.audible: list[bool] = []

    def say(self, duration_ms: int) -> None:
        self._run(duration_ms, 0.95)

    def pause(self, duration_ms: int) -> None:
        self._run(duration_ms, 0.02)

    def reply(self, duration_ms: int) -> None:
        """Queue output of ours."""
        self.reply_ms = duration_ms

    def named(self, kind: type) -> list[TurnEvent]:
        return [event for _, event in self.seen if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for _, event in self.seen]

    def _run(self, duration_ms: int, likelihood: float) -> None:
        for at in range(self.now_ms, self.now_ms + duration_ms, FRAME_MS):
            if self.hint_at_ms is not None and at >= self.hint_at_ms:
                self.floor.receive_hint()
            sounds = self.reply_ms > 0 and not self.floor.held
            self.reply_ms -= FRAME_MS if sounds else 0
            self.floor.receive_output(at, FRAME_MS, sounds, self.reply_ms > 0)
            self.audible.append(sounds)
            self.floor.receive_frame(at, FRAME_MS, likelihood)
            self._answer(at + FRAME_MS)
        self.now_ms += duration_ms

    def _answer(self, now_ms: int) -> None:
        for event in self.floor.events():
            self.seen.append((now_ms, event))
            if isinstance(event, PauseReached):
                self.floor.receive_verdict(event.question, self.likelihood)
                self._answer(now_ms)
            elif isinstance(event, WordsWanted) and self.words is not None:
                self.floor.receive_words(self.words)
                self._answer(now_ms)
            elif type(event).__name__ == "Yielded":
                self.reply_ms = 0
                self.floor.receive_cancelled()
