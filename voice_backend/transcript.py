"""Two views of a conversation: a *draft* that may change, and a *final* log that never does.

    InText, OutText ─▶ open utterance of each speaker ─▶ closed ─▶ committed, in order of beginning
                          draft: id, rev, text, span           final: append-only, the same ids

An utterance closes after a gap of media time, or when the other side takes the floor and there are
words enough whose owner is certain. Text of ours is final only as far as it was *played*: nothing
played is no message at all. A short acknowledgement attaches to the message that it did not
interrupt, as a note. Time is media time, counted in samples; nothing here knows a clock.

Whoever reads the events has the whole log: every final item is told once, in order. Of what is over
the last items alone are kept here, so that a session of any length holds as much as a short one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from voice_backend.turns.back_channel import is_back_channel
from voice_backend.utterance import Overlapped, Speaker, Utterance, Word, text_of, words_of

_NOTES = 16  # of one message


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptConfig:
    """When text becomes final, and how much is kept."""

    gap_ms: int = 800  # silence of a speaker that closes an utterance
    words_for_floor: int = 2  # words that are enough when the other side takes the floor
    settle_ms: int = 12_000  # how long a guess may keep an utterance open beyond the gap
    note_ms: int = 700  # an acknowledgement lasts no longer
    note_words: int = 2  # and one of ours has no more words
    utterance_ms: int = 60_000  # an utterance without a gap is divided here
    utterance_chars: int = 4000  # and here
    pending: int = 32  # utterances that wait for an earlier one to close; then it is closed
    draft_items: int = 32  # settled items that the draft view still shows
    final_items: int = 512  # how much of the log is kept here; `committed` counts all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A message of either view; times are milliseconds of media time."""

    id: str
    rev: int
    """Grows with every change; the final item has the last one."""
    speaker: Speaker
    text: str
    """Of ours: what was played."""
    ahead: str = ""
    """Of ours, in the draft: what is still to be played."""
    start_ms: int
    end_ms: int
    played_ms: int = 0
    """Of ours: how much of the message was played."""
    overlaps: tuple[Overlapped, ...] = ()
    final: bool = False


@dataclass(frozen=True, slots=True)
class DraftChanged:
    """An item is new in the draft, or has changed."""

    item: Item


@dataclass(frozen=True, slots=True)
class DraftRemoved:
    """An item has left the draft for good: it was nobody's message."""

    id: str


@dataclass(frozen=True, slots=True)
class Committed:
    """An item is final: the log has grown by it."""

    item: Item


TranscriptEvent = DraftChanged | DraftRemoved | Committed


class Transcript:
    """The text of one session. Told of model events, of playout and of the floor."""

    __slots__ = (
        "_changed", "_config", "_epoch", "_events", "_final", "_ids", "_open", "_pending",
        "_played_ms", "_prefix", "committed", "discarded", "now_ms",
    )  # fmt: skip

    def __init__(self, config: TranscriptConfig | None = None, prefix: str = "item_") -> None:
        self._config = config or TranscriptConfig()
        self._prefix = prefix
        self._ids = 0
        self._epoch = 0
        self._played_ms = 0
        self._open: dict[Speaker, Utterance] = {}
        self._pending: list[Utterance] = []  # open ones and closed ones, by their beginning
        self._final: deque[Item] = deque(maxlen=self._config.final_items)
        self._changed: dict[str, Utterance] = {}
        self._events: deque[TranscriptEvent] = deque(maxlen=4 * self._config.final_items)
        self.now_ms = 0
        self.committed = 0
        """Items that the log has got so far, those included that are not kept here any more."""
        self.discarded = 0
        """Output fragments of an epoch that is over."""

    # -- the two views -----------------------------------------------------------------------------

    def draft(self) -> list[Item]:
        """Return the draft view: the last settled items, then what may change. Bounded."""
        settled = list(self._final)[-self._config.draft_items :]
        return settled + [self._item(utterance) for utterance in self._pending]

    def final(self) -> list[Item]:
        """Return what is kept of the log, oldest first."""
        return list(self._final)

    def events(self) -> list[TranscriptEvent]:
        """Drain what has changed; several changes of one item are told as one."""
        events = list(self._events)
        self._events.clear()
        events += [DraftChanged(self._item(utterance)) for utterance in self._changed.values()]
        self._changed.clear()
        return events

    # -- what is said ------------------------------------------------------------------------------

    def receive_input(
        self, text: str, start_ms: int, end_ms: int, *, final: bool = True, certain: bool = True
    ) -> None:
        """Take the user's words: for good, or a guess that stands for all that is not certain.

        `certain` says whether it is certain that the user said it.
        """
        start_ms, end_ms = max(0, start_ms), max(0, start_ms, end_ms)
        utterance = self._opened(Speaker.USER, start_ms, wanted=bool(text.strip()))
        if utterance is None:
            return
        utterance.certain = certain
        if final:
            utterance.append(text, start_ms, end_ms)
        else:
            utterance.guess = " ".join(text.split())[: self._config.utterance_chars]
            utterance.guess_end_ms = end_ms
        if utterance.text:
            self._change(utterance)
        else:
            self._remove(utterance)
        self._limit(utterance)

    def receive_output(self, text: str, start_ms: int, end_ms: int, *, epoch: int = 0) -> None:
        """Take words of ours and when they sound; the span may lie ahead."""
        if epoch < self._epoch:
            self.discarded += 1
            return
        start_ms = max(0, start_ms)
        utterance = self._opened(Speaker.ASSISTANT, start_ms, wanted=bool(text.strip()))
        if utterance is None or not text.strip():
            return
        utterance.append(text, start_ms, end_ms)
        self._change(utterance)
        self._limit(utterance)

    def receive_played(self, until_ms: int) -> None:
        """Our output was played up to this media time."""
        if until_ms <= self._played_ms:
            return
        before, self._played_ms = self._played_ms, until_ms
        utterance = self._open.get(Speaker.ASSISTANT)
        if utterance is not None and any(before < w.end_ms <= until_ms for w in utterance.said):
            self._change(utterance)

    def receive_held(self, at_ms: int, by_ms: int) -> None:
        """Our output was held at this media time: what follows sounds so much later."""
        utterance = self._open.get(Speaker.ASSISTANT)
        if utterance is not None and by_ms > 0:
            utterance.shift(at_ms, by_ms)
            self._change(utterance)

    def receive_cancelled(self, played_until_ms: int, *, epoch: int | None = None) -> None:
        """Our output ended at this media time: words that were not played are no part of it."""
        self._epoch = max(self._epoch, self._epoch if epoch is None else epoch)
        utterance = self._open.get(Speaker.ASSISTANT)
        if utterance is None:
            return
        utterance.cut(played_until_ms)
        self._played_ms = max(self._played_ms, utterance.end_ms if utterance.said else 0)
        self._change(utterance)
        self._close(utterance)
        self._commit()

    def receive_floor(self, speaker: Speaker, at_ms: int) -> None:
        """A speaker has taken the floor: what the other one said is complete, if it is enough."""
        self.now_ms = max(self.now_ms, at_ms)
        other = Speaker.ASSISTANT if speaker is Speaker.USER else Speaker.USER
        utterance = self._open.get(other)
        if utterance is None or not utterance.certain or utterance.guess:
            return
        if len(utterance.said) >= self._config.words_for_floor and self._is_played(utterance):
            self._close(utterance)
        self._commit()

    def receive_owner(self, item_id: str, speaker: Speaker) -> None:
        """It turned out whose words an item of the draft is; the item keeps its id."""
        utterance = next((u for u in self._open.values() if u.id == item_id), None)
        if utterance is None:
            return
        utterance.certain = True
        if utterance.speaker is speaker:
            return
        del self._open[utterance.speaker]
        utterance.speaker = speaker
        utterance.said += [*self._words_of_guess(utterance)]
        utterance.guess = ""
        other = self._open.get(speaker)
        if other is None:
            self._open[speaker] = utterance
            self._change(utterance)
            return
        other.said = sorted([*other.said, *utterance.said], key=lambda word: word.start_ms)
        other.start_ms = min(other.start_ms, utterance.start_ms)
        self._remove(utterance)
        self._change(other)

    def advance(self, now_ms: int) -> None:
        """Media time has gone on: utterances close by their gap."""
        self.now_ms = max(self.now_ms, now_ms)
        for utterance in list(self._open.values()):
            if self._has_ended(utterance):
                self._close(utterance)
        self._commit()

    def finish(self, played_until_ms: int) -> None:
        """The session is over: what was heard of everything becomes final."""
        self.receive_cancelled(played_until_ms)
        for utterance in list(self._open.values()):
            self._close(utterance)
        self._commit()

    # -- utterances open and close -----------------------------------------------------------------

    def _opened(self, speaker: Speaker, start_ms: int, wanted: bool) -> Utterance | None:
        """The speaker's open utterance that a fragment belongs to, a new one if `wanted`."""
        utterance = self._open.get(speaker)
        if utterance is not None and start_ms - utterance.end_ms >= self._config.gap_ms:
            self._close(utterance)
            utterance = None
        if utterance is None and wanted:
            self._ids += 1
            utterance = Utterance(f"{self._prefix}{self._ids}", speaker, start_ms)
            self._open[speaker] = utterance
            self._pending.append(utterance)
            self._pending.sort(key=lambda u: u.start_ms)
            if len(self._pending) > self._config.pending:
                self._close(self._pending[0])
        return utterance

    def _has_ended(self, utterance: Utterance) -> bool:
        silent_ms = self.now_ms - utterance.end_ms
        if silent_ms < self._config.gap_ms:
            return False
        if utterance.speaker is Speaker.ASSISTANT:
            return self._is_played(utterance)
        return not utterance.guess or silent_ms >= self._config.settle_ms

    def _is_played(self, utterance: Utterance) -> bool:
        if utterance.speaker is Speaker.USER:
            return True
        return utterance.end_ms <= self._played_ms

    def _limit(self, utterance: Utterance) -> None:
        lasted_ms = utterance.end_ms - utterance.start_ms
        if lasted_ms < self._config.utterance_ms and utterance.size < self._config.utterance_chars:
            return
        if utterance.speaker is Speaker.USER or self._is_played(utterance):
            self._close(utterance)
            return
        # words that are yet to be played go on in an utterance of their own
        heard = utterance.heard(self._played_ms)
        ahead = utterance.said[len(heard) :]
        if heard and ahead:
            utterance.said = heard
            self._close(utterance)
            rest = self._opened(Speaker.ASSISTANT, ahead[0].start_ms, wanted=True)
            if rest is not None:
                rest.said = ahead
                self._change(rest)
        elif utterance.size > 4 * self._config.utterance_chars:
            self.discarded += len(utterance.said) - 1
            utterance.said = utterance.said[:1]  # nobody plays, and the model goes on and on

    def _close(self, utterance: Utterance) -> None:
        self._open.pop(utterance.speaker, None)
        utterance.said += self._words_of_guess(utterance)
        utterance.guess = ""
        if utterance.speaker is Speaker.ASSISTANT:
            utterance.cut(self._played_ms)
        if not utterance.said:
            self._remove(utterance)
        elif (host := self._interrupted_by(utterance)) is not None:
            self._note(host, utterance, utterance.said)
            self._remove(utterance)
        else:
            self._note_overlaps(utterance)
        self._commit()

    def _words_of_guess(self, utterance: Utterance) -> list[Word]:
        if not utterance.guess:
            return []
        begin = utterance.said[-1].end_ms if utterance.said else utterance.start_ms
        return words_of(utterance.guess, begin, max(begin, utterance.guess_end_ms))

    def _interrupted_by(self, utterance: Utterance) -> Utterance | None:
        """The other side's utterance that this one sounded in without interrupting it."""
        if utterance.end_ms - utterance.start_ms > self._config.note_ms:
            return None
        if utterance.speaker is Speaker.ASSISTANT:
            if len(utterance.said) > self._config.note_words:
                return None
        elif not is_back_channel(utterance.text):
            return None
        for other in self._pending:
            if other.speaker is utterance.speaker or not other.said:
                continue
            if other.start_ms < utterance.start_ms and utterance.end_ms < other.end_ms:
                return other
        return None

    def _note_overlaps(self, utterance: Utterance) -> None:
        """Messages that sounded at the same time know of each other; neither is torn."""
        for other in self._pending:
            if other.speaker is utterance.speaker:
                continue
            meanwhile = utterance.between(other.start_ms, other.end_ms)
            if meanwhile and all(note.item_id != other.id for note in utterance.overlaps):
                self._note(other, utterance, meanwhile, utterance.id)

    def _note(
        self, host: Utterance, utterance: Utterance, words: list[Word], item_id: str | None = None
    ) -> None:
        note = Overlapped(
            speaker=utterance.speaker,
            text=text_of(words),
            start_ms=words[0].start_ms,
            end_ms=words[-1].end_ms,
            item_id=item_id,
        )
        host.overlaps = [*host.overlaps, note][-_NOTES:]
        self._change(host)

    def _remove(self, utterance: Utterance) -> None:
        if utterance in self._pending:
            self._pending.remove(utterance)
            self._changed.pop(utterance.id, None)
            self._events.append(DraftRemoved(utterance.id))
        if self._open.get(utterance.speaker) is utterance:
            del self._open[utterance.speaker]

    def _change(self, utterance: Utterance) -> None:
        utterance.rev += 1
        self._changed[utterance.id] = utterance

    def _commit(self) -> None:
        """What is closed becomes final, once nothing that began before it is open."""
        while self._pending and self._pending[0] not in self._open.values():
            utterance = self._pending.pop(0)
            self._changed.pop(utterance.id, None)
            utterance.rev += 1
            item = self._item(utterance, final=True)
            self._final.append(item)
            self.committed += 1
            self._events.append(Committed(item))

    def _item(self, utterance: Utterance, final: bool = False) -> Item:
        text, ahead, played_ms = utterance.text, "", 0
        end_ms = utterance.end_ms
        if utterance.speaker is Speaker.ASSISTANT:
            heard = utterance.heard(self._played_ms)
            text, ahead = text_of(heard), text_of(utterance.said[len(heard) :])
            played_ms = max(0, min(self._played_ms, end_ms) - utterance.start_ms)
        return Item(
            id=utterance.id,
            rev=utterance.rev,
            speaker=utterance.speaker,
            text=text,
            ahead=ahead,
            start_ms=utterance.start_ms,
            end_ms=end_ms,
            played_ms=played_ms,
            overlaps=tuple(utterance.overlaps),
            final=final,
        )
