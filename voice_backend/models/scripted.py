"""A voice that follows a script, the same every time: the test double for whatever needs a voice.

    Script: cues by frame ─▶ Say, Hear, Ask, Reflect, Recall ─▶ what a good model does
                          └▶ Raise, Wait, Short, Skip, Stray, Fault ─▶ what a bad one does

A session picks its script by `SessionConfig.voice`. Snapshots are exact: a restored slot says, to
the sample, what the other would have said; `Recall` proves it by a digest of all that was heard.
"""

from __future__ import annotations

import copy
import pickle
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from voice_backend.frames import Frame, silence
from voice_backend.model import (
    CAPABILITIES,
    Cancelled,
    Context,
    Delegate,
    Inject,
    InText,
    Message,
    ModelEvent,
    ModelInfo,
    NoCapacity,
    OutText,
    Progress,
    SessionConfig,
    Slot,
    Snapshot,
    SnapshotKind,
    SnapshotRefused,
    SpeakingOff,
    SpeakingOn,
    StepIn,
    StepOut,
)
from voice_backend.models.slots import Slots

AMPLITUDE: Final = 8_000
LOUD: Final = 2_000
"""Peak of a frame from which on it counts as speech of the user's."""
_WORD_FRAMES: Final = 15
_KEPT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Speak a tone for so many frames, as the words `text`."""

    frames: int
    hz: int = 400
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hear:
    """Claim to have understood `text` in the last `frames` frames."""

    text: str
    frames: int = 1
    final: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Give work away."""

    delegation_id: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflect:
    """From here on say what was heard `delay` frames ago, until told `delay=None`."""

    delay: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Say, as text, a digest of all that the slot was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Claim that the context is so full."""

    usage_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """Raise out of `step`, in this frame and, with `always`, in every later one."""

    text: str = "scripted"
    always: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Hold up the whole engine."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """Return a frame of so many samples."""

    samples: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Return nothing for the slot, so many frames long."""

    frames: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Return a frame that nobody asked for beside the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Report a fault of the slot's."""

    reason: str = "scripted fault"


Cue = (
    Say | Hear | Ask | Reflect | Recall | Fill | Raise | Wait | Short | Skip | Stray | Fault
)  # fmt: skip
Script = Mapping[int, Sequence[Cue]]
"""Cues by the number of the frame."""


@dataclass(slots=True)
class _State:
    """All there is to a slot; copied whole by a snapshot."""

    script: str
    seq: int = 0
    speech: deque[tuple[int, int, str]] = field(default_factory=deque)
    """(hz, frames, text) to be said."""
    said: int = 0
    """Frames said of the first of them."""
    utterance: int = 0
    """Frames said since it began to speak."""
    loud: int = 0
    heard: deque[Frame] = field(default_factory=lambda: deque(maxlen=_KEPT))
    reflect: int | None = None
    digest: int = 0
    usage_ratio: float | None = None
    skip: int = 0
    raising: str | None = None
    fresh: list[tuple[Inject, str]] = field(default_factory=list)
    cancelled: bool = False


class ScriptedModel:
    """Follows the script of each session; `pause` is called by Wait (the clock is a test's)."""

    __slots__ = ("_pause", "_scripts", "_slots", "_yield_after", "info", "loaded")

    def __init__(
        self,
        scripts: Mapping[str, Script] | None = None,
        *,
        info: ModelInfo | None = None,
        pause: Callable[[float], object] | None = None,
        yield_after_frames: int | None = None,
    ) -> None:
        self.info = info or ModelInfo(
            name="scripted",
            in_rate=16_000,
            out_rate=24_000,
            caps=CAPABILITIES - {"remote_clock", "snapshot_semantic"},
        )
        self._scripts = dict(scripts or {})
        self._pause = pause
        self._yield_after = yield_after_frames
        self._slots: Slots[_State] = Slots(self.info.max_slots)
        self.loaded = False

    @property
    def taken(self) -> int:
        """Slots that are taken."""
        return self._slots.taken

    def load(self) -> None:
        """Be ready."""
        self.loaded = True

    def open(self, config: SessionConfig) -> Slot:
        """Take a slot with the script that `voice` names. Raises NoCapacity."""
        if not self._slots.free:
            raise NoCapacity(f"all {self.info.max_slots} slots are taken")
        state = _State(config.voice)
        if config.greeting:
            state.speech.append((400, _length(config.greeting), config.greeting))
        return self._slots.take(state)

    def close(self, slot: Slot) -> None:
        """Free the slot."""
        self._slots.give_back(slot)

    def step(self, batch: Sequence[StepIn]) -> list[StepOut]:
        """Follow the scripts by one frame."""
        outs: list[StepOut] = []
        for one in batch:
            state = self._slots.find(one.slot)
            if state is None:
                outs.append(StepOut(one.slot, one.seq, one.epoch, error="no such slot"))
            else:
                outs += self._follow(state, one)
        return outs

    def _follow(self, state: _State, one: StepIn) -> list[StepOut]:
        out = StepOut(one.slot, one.seq, one.epoch)
        events: list[ModelEvent] = []
        out.events = events
        state.seq = one.seq + 1
        self._listen(state, one, events)
        self._take_in(state, events, one.seq)
        short: int | None = None
        extra: list[StepOut] = []
        for cue in self._scripts.get(state.script, {}).get(one.seq, ()):
            match cue:
                case Short(samples=samples):
                    short = samples
                case Stray():
                    extra.append(StepOut(Slot(one.slot.index, -1), one.seq, one.epoch))
                case Fault(reason=reason):
                    out.error = reason
                case Wait(seconds=seconds):
                    if self._pause is not None:
                        self._pause(seconds)
                case _:
                    self._play(state, cue, one.seq, events)
        if state.raising is not None:
            raise RuntimeError(state.raising)
        out.pcm = silence(short) if short is not None else self._speak(state, one.seq, events)
        out.usage_ratio = state.usage_ratio
        if state.skip:
            state.skip -= 1
            return extra
        return [out, *extra]

    def _play(self, state: _State, cue: Cue, seq: int, events: list[ModelEvent]) -> None:
        at_ms = seq * self.info.frame_ms
        match cue:
            case Say(frames=frames, hz=hz, text=text):
                state.speech.append((hz, frames, text))
            case Hear(text=text, frames=frames, final=final):
                start = max(0, seq + 1 - frames) * self.info.frame_ms
                end = at_ms + self.info.frame_ms
                events.append(InText(delta=text, start_ms=start, end_ms=end, final=final))
            case Ask(delegation_id=name, target=target):
                events.append(Delegate(delegation_id=name, offset_ms=at_ms, target=target))
            case Reflect(delay=delay):
                state.reflect = delay
            case Recall():
                text = f"{state.digest:08x}"
                events.append(OutText(delta=text, start_ms=at_ms, end_ms=at_ms))
            case Fill(usage_ratio=ratio):
                state.usage_ratio = ratio
            case Skip(frames=frames):
                state.skip = frames
            case Raise(text=text, always=always):
                if always:
                    state.raising = text
                else:
                    raise RuntimeError(text)

    def _listen(self, state: _State, one: StepIn, events: list[ModelEvent]) -> None:
        pcm = silence(self.info.frame_samples_in) if one.pcm is None else one.pcm
        state.digest = zlib.crc32(pcm.tobytes(), state.digest)
        state.heard.append(pcm)
        state.loud = state.loud + 1 if int(np.abs(pcm).max()) >= LOUD else 0
        if state.speech and self._yield_after is not None and state.loud >= self._yield_after:
            state.cancelled = True
        if state.cancelled:
            self._yield(state, one.seq, events)

    def _yield(self, state: _State, seq: int, events: list[ModelEvent]) -> None:
        state.cancelled = False
        state.speech.clear()
        if state.utterance:
            at_ms, played = seq * self.info.frame_ms, state.utterance * self.info.frame_ms
            events.append(Cancelled(at_ms=at_ms, played_ms=played))
            events.append(SpeakingOff(at_ms=at_ms))
        state.said = state.utterance = 0

    def _take_in(self, state: _State, events: list[ModelEvent], seq: int) -> None:
        """Take in what was injected: commentary is said, the rest is remembered."""
        fresh, state.fresh = state.fresh, []
        for kind, text in fresh:
            state.digest = zlib.crc32(f"{kind}:{text}".encode(), state.digest)
            if kind is Inject.COMMENTARY:
                state.speech.append((500, _length(text), text))

    def _speak(self, state: _State, seq: int, events: list[ModelEvent]) -> Frame:
        at_ms, period = seq * self.info.frame_ms, self.info.frame_ms
        if not state.speech:
            if state.reflect is not None and len(state.heard) > state.reflect:
                return self._at_out_rate(state.heard[-1 - state.reflect])
            return silence(self.info.frame_samples_out)
        hz, frames, text = state.speech[0]
        if state.utterance == 0:
            events.append(SpeakingOn(at_ms=at_ms))
        if state.said == 0 and text:
            events.append(OutText(delta=text, start_ms=at_ms, end_ms=at_ms + frames * period))
        pcm = tone(hz, self.info.frame_samples_out, self.info.out_rate, state.said)
        state.said += 1
        state.utterance += 1
        if state.said >= frames:
            state.speech.popleft()
            state.said = 0
            if not state.speech:
                state.utterance = 0
                events.append(SpeakingOff(at_ms=at_ms + period))
        return pcm

    def _at_out_rate(self, pcm: Frame) -> Frame:
        at = np.arange(self.info.frame_samples_out) * len(pcm) // self.info.frame_samples_out
        return pcm[at]

    def prefill(self, slot: Slot, context: Context) -> Iterator[Progress]:
        """Take in the past, a message a unit."""
        for done, message in enumerate(context.messages, 1):
            state = self._slots.find(slot)
            if state is None:
                return
            line = f"{message.role}:{message.text}".encode()
            state.digest = zlib.crc32(line, state.digest)
            yield Progress(done=done, total=len(context.messages))

    def snapshot(self, slot: Slot, *, kind: SnapshotKind = "exact") -> Snapshot:
        """Return all that the slot is."""
        state = self._slots.find(slot)
        if kind != "exact" or state is None:
            raise SnapshotRefused("only exact snapshots of slots that are taken")
        return Snapshot(
            model=self.info.name, kind="exact", seq=state.seq, state=pickle.dumps(state)
        )

    def restore(self, slot: Slot, snapshot: Snapshot) -> None:
        """Become what the snapshot was taken of."""
        if snapshot.model != self.info.name or snapshot.kind != "exact":
            raise SnapshotRefused(f"a {snapshot.kind} snapshot of {snapshot.model} is not ours")
        if self._slots.find(slot) is None:
            raise SnapshotRefused("the slot is free")
        state = pickle.loads(snapshot.state)
        if not isinstance(state, _State):
            raise SnapshotRefused("the snapshot is damaged")
        self._slots.replace(slot, copy.deepcopy(state))

    def compact(self, context: Context, budget: int) -> Iterator[Progress | Context]:
        """Keep the newest messages that have `budget` words together; say what was left out."""
        kept: deque[Message] = deque()
        room = budget
        for done, message in enumerate(reversed(context.messages), 1):
            yield Progress(done=done, total=len(context.messages))
            room -= len(message.text.split())
            if room < 0:
                break
            kept.appendleft(message)
        left_out = len(context.messages) - len(kept)
        note = Message(role="system", text=f"{left_out} earlier messages")
        yield Context(messages=(note, *kept) if left_out else tuple(kept), audio=context.audio)

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None = None) -> None:
        """Remember it for the next frame."""
        state = self._slots.find(slot)
        if state is not None:
            state.fresh.append((kind, text))

    def cancel(self, slot: Slot, epoch: int) -> None:
        """Stop at the next frame."""
        state = self._slots.find(slot)
        if state is not None:
            state.cancelled = True


def tone(hz: int, samples: int, rate: int, frame: int) -> Frame:
    """Return one frame of a tone, the `frame`th since it began."""
    at = np.arange(frame * samples, (frame + 1) * samples)
    return np.asarray(AMPLITUDE * np.sin(2 * np.pi * hz * at / rate), np.int16)


def _length(text: str) -> int:
    return max(1, len(text.split())) * _WORD_FRAMES
