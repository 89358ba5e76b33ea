"""What the voice says and hears, as a client is told: transcript deltas and the two views.

InText (for good) ─▶ session.input_transcript.delta
OutText ─▶ words wait ─ played ─▶ session.output_transcript.delta: heard, not generated
Transcript ─▶ transcript.draft, transcript.final, for those who asked
"""

from __future__ import annotations

from voice_backend.live.server_events import (
    OverlapNote,
    ServerEvent,
    TranscriptDelta,
    TranscriptDraft,
    TranscriptFinal,
    TranscriptItem,
)
from voice_backend.model import Cancelled, InText, OutText
from voice_backend.transcript import Committed, DraftChanged, DraftRemoved, Item, Transcript
from voice_backend.turns import is_back_channel
from voice_backend.utterance import Speaker, Word, text_of, words_of

FRAGMENT_MS = 200
"""Words of ours are told together in pieces of this length."""
_MAX_AHEAD = 4000


class Talk:
    """The text of one session, on its way to clients."""

    __slots__ = (
        "_ahead", "_said_before", "_speaking", "_told_ms", "_views", "dropped", "played_ms",
        "transcript", "turns",
    )  # fmt: skip

    def __init__(self, *, views: bool) -> None:
        self._views = views
        self._ahead: list[Word] = []
        self._told_ms = 0
        self._speaking = False
        self._said_before = {Speaker.USER: False, Speaker.ASSISTANT: False}
        self.transcript = Transcript()
        self.dropped = 0
        self.played_ms = 0
        self.turns = 0
        """Turns of the user that were heard to their end."""

    @property
    def speaking(self) -> bool:
        """Whether the voice speaks."""
        return self._speaking

    def receive_input(self, event: InText) -> list[ServerEvent]:
        """Take what the user said."""
        self.transcript.receive_input(event.delta, event.start_ms, event.end_ms, final=event.final)
        text = event.delta.strip()
        if not event.final or not text:
            return self._changes()
        if not self._speaking:
            self.transcript.receive_floor(Speaker.USER, self.transcript.now_ms)
        self.turns += not is_back_channel(text)
        delta = self._delta(Speaker.USER, text, event.start_ms, event.end_ms)
        return [delta, *self._changes()]

    def receive_output(self, event: OutText) -> list[ServerEvent]:
        """Take what the voice is about to say."""
        self.transcript.receive_output(event.delta, event.start_ms, event.end_ms)
        self._ahead += words_of(event.delta, event.start_ms, event.end_ms)
        if len(self._ahead) > _MAX_AHEAD:
            self.dropped += len(self._ahead) - _MAX_AHEAD
            del self._ahead[:-_MAX_AHEAD]
        return self._changes()

    def receive_speaking(self, speaking: bool, at_ms: int) -> list[ServerEvent]:
        """The voice begins to speak, or has ended."""
        self._speaking = speaking
        if speaking:
            self.transcript.receive_floor(Speaker.ASSISTANT, at_ms)
        return self._changes()

    def receive_cancelled(self, event: Cancelled) -> list[ServerEvent]:
        """What was not played is nobody's word."""
        told = self._played(event.at_ms, every=True)
        self._ahead.clear()
        self.transcript.receive_cancelled(event.at_ms)
        return [*told, *self._changes()]

    def receive_played(self, until_ms: int) -> list[ServerEvent]:
        """Output was played up to this media time."""
        self.played_ms = max(self.played_ms, until_ms)
        self.transcript.receive_played(until_ms)
        self.transcript.advance(until_ms)
        return [*self._played(until_ms), *self._changes()]

    def finish(self) -> list[ServerEvent]:
        """The session is over."""
        told = self._played(self.played_ms, every=True)
        self._ahead.clear()
        self.transcript.finish(self.played_ms)
        return [*told, *self._changes()]

    def _played(self, until_ms: int, *, every: bool = False) -> list[ServerEvent]:
        heard = [word for word in self._ahead if word.end_ms <= until_ms]
        if not heard:
            return []
        is_last = len(heard) == len(self._ahead)
        if not every and not is_last and until_ms - self._told_ms < FRAGMENT_MS:
            return []
        self._told_ms = until_ms
        self._ahead = [word for word in self._ahead if word.end_ms > until_ms]
        start_ms, end_ms = heard[0].start_ms, heard[-1].end_ms
        return [self._delta(Speaker.ASSISTANT, text_of(heard), start_ms, end_ms)]

    def _delta(self, speaker: Speaker, text: str, start_ms: int, end_ms: int) -> TranscriptDelta:
        # clients put fragments together as they are: the space between words is ours to send
        lead = " " if self._said_before[speaker] else ""
        self._said_before[speaker] = True
        return TranscriptDelta(
            type="session.input_transcript.delta"
            if speaker is Speaker.USER
            else "session.output_transcript.delta",
            delta=lead + text,
            start_ms=start_ms,
            end_ms=end_ms,
        )

    def _changes(self) -> list[ServerEvent]:
        changes = self.transcript.events()
        if not self._views:
            return []
        found: list[ServerEvent] = []
        for change in changes:
            if isinstance(change, DraftChanged):
                found.append(TranscriptDraft(item=shape_of(change.item)))
            elif isinstance(change, DraftRemoved):
                found.append(TranscriptDraft(removed=change.id))
            elif isinstance(change, Committed):
                found.append(TranscriptFinal(item=shape_of(change.item)))
        return found


def shape_of(item: Item) -> TranscriptItem:
    """Return a message of either view as it is sent."""
    return TranscriptItem(
        id=item.id,
        rev=item.rev,
        speaker=item.speaker.value,
        text=item.text,
        ahead=item.ahead,
        start_ms=item.start_ms,
        end_ms=item.end_ms,
        played_ms=item.played_ms,
        overlaps=tuple(
            OverlapNote(
                speaker=note.speaker.value,
                text=note.text,
                start_ms=note.start_ms,
                end_ms=note.end_ms,
                item_id=note.item_id,
            )
            for note in item.overlaps
        ),
    )
