"""What a voice is to the media loop: a model that hears a frame and owes a frame, all the time.

    loop ── StepIn(slot, seq, pcm, epoch) ──▶ VoiceModel.step ──▶ StepOut(slot, seq, pcm, events)
            one per slot and frame period,                        text, speaking, delegation,
            silence included                                      what was cancelled

Rules: time is `seq * frame_ms`, never a clock; every StepOut carries the epoch of its StepIn, and
playout drops what is older than the session's; a model never sleeps and never awaits; a fault of
one slot is a StepOut with `error`, so that the others go on. Pure; models may import libraries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, runtime_checkable

from voice_backend.frames import MEDIA_FRAME_MS, Frame, frame_samples, ratio_of
from warp.errors import InvalidConfig, UsageError

CAPABILITIES: Final = frozenset(
    {
        "cancel_output",
        "compact_native",
        "delegates",
        "fork",
        "inject_commentary",
        "inject_thinking",
        "input_transcript",
        "lockstep",
        "native_duplex",
        "output_transcript",
        "prefill_audio",
        "prefill_text",
        "remote_clock",
        "snapshot_exact",
        "snapshot_semantic",
    }
)
"""What a model may say of itself in `ModelInfo.caps`."""


class NoCapacity(UsageError):
    """No slot is free, or the engine is at its limit: the session is refused, not queued."""


class NotCapable(UsageError):
    """The model has no such door: see `ModelInfo.caps`."""


class SnapshotRefused(UsageError):
    """A snapshot is of another model, another kind, or damaged; the slot is as it was."""


class Inject(StrEnum):
    """What a text from outside is to the model."""

    INSTRUCTIONS = "instructions"
    """How to behave from now on."""
    THINKING = "thinking"
    """What to know, silently."""
    COMMENTARY = "commentary"
    """What to say, in own words."""


SnapshotKind = Literal["exact", "semantic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What a model is, fixed once it is loaded."""

    name: str
    in_rate: int
    """Samples a second that it hears."""
    out_rate: int
    """Samples a second that it speaks."""
    frame_ms: int = MEDIA_FRAME_MS
    """The cadence it lives on: a multiple of 20."""
    lag_frames: int = 0
    """StepOuts without sound that are legal at a slot's start: its algorithmic delay."""
    max_slots: int = 64
    batch_sizes: tuple[int, ...] = ()
    """Batches that are captured, ascending; empty: any."""
    context_frames: int | None = None
    context_tokens: int | None = None
    caps: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        ratio_of(self.frame_ms)
        frame_samples(self.in_rate)
        frame_samples(self.out_rate)
        if self.max_slots < 1:
            raise InvalidConfig(f"a model has at least one slot, not {self.max_slots}")
        if self.caps - CAPABILITIES:
            raise InvalidConfig(
                f"no such capability: {', '.join(sorted(self.caps - CAPABILITIES))}"
            )

    @property
    def frame_samples_in(self) -> int:
        """Samples of a StepIn."""
        return frame_samples(self.in_rate, self.frame_ms)

    @property
    def frame_samples_out(self) -> int:
        """Samples of a StepOut."""
        return frame_samples(self.out_rate, self.frame_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Something that was said, or written into the context."""

    role: Literal["user", "assistant", "system"]
    text: str
    start_ms: int = 0
    end_ms: int = 0
    """Media time of the session in which it was said; 0 and 0: before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a slot is told of the past: text, and the last seconds of what was heard."""

    messages: tuple[Message, ...] = ()
    audio: Frame | None = field(default=None, compare=False, repr=False)
    """Shape (samples,) at the model's in_rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """What a session asks of its voice."""

    instructions: str = ""
    voice: str = ""
    """A voice of the model's; empty: its default."""
    language: str = "en"
    context: Context = field(default_factory=Context)
    delegates: bool = False
    """Whether slow work may be given away (`Delegate`)."""
    greeting: str = ""
    """What to say first, unasked; empty: nothing."""
    greeting_ms: int = 0
    """For so long a greeting goes on that is played already, by whoever has the line: the model is
    silent meanwhile. Who talks into it interrupts it (`Cancelled`)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in an engine. `serial` never comes back, so that what is late names nobody new."""

    index: int
    """0 to max_slots - 1: where the slot's state lies."""
    serial: int


# -- what a model says beside sound; every time is media time of the session, in milliseconds ------


@dataclass(frozen=True, slots=True, kw_only=True)
class InText:
    """What the user said. Not final: stands for all of the user's text that is not final yet."""

    delta: str
    """Final: the next words, for good, in place of what was provisional; "": it was none. Else: a
    guess.
    """
    start_ms: int
    end_ms: int
    final: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OutText:
    """What the model says, beside the sound: the words and when they sound.

    The span may lie ahead of the StepOut that carries the event (a clause is announced as it
    begins). It holds as far as the sound is played: `Cancelled` cuts it.
    """

    delta: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegate:
    """The model gives work away; the answer comes back by `inject`."""

    delegation_id: str
    offset_ms: int
    """When it did."""
    target: str = ""
    """Whom it means; empty: the session's default."""
    acknowledged: bool = False
    """Whether the model says so itself ("let me find out"): nobody else is to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCourse:
    """How an answer came about; each is when the model had heard so much of the session."""

    speech_end_ms: int
    """Where the user's speech ended."""
    asked_ms: int
    """When it was asked whether the turn was over."""
    ended_ms: int
    """When it was taken for over."""
    heard_ms: int
    """When its words were known for good."""
    made_ms: int
    """When the first sound of the answer was there."""
    lead_ms: int
    """How long that sound is silent at its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakingOn:
    """From this frame on the model speaks."""

    at_ms: int
    course: ReplyCourse | None = None
    """Where it answers a turn, and the model keeps account of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakingOff:
    """From this frame on the model is silent: all that it had to say is in its frames."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The model stopped what it was saying: it yields, or it was told to (`cancel`).

    Playout drops what it still holds of earlier frames and cuts the output text at what was
    played.
    """

    at_ms: int
    played_ms: int
    """How much of the utterance was in its frames; what playout dropped is not taken off."""


ModelEvent = InText | OutText | Delegate | SpeakingOn | SpeakingOff | Cancelled


@dataclass(slots=True)
class StepIn:
    """What a slot hears in one frame period."""

    slot: Slot
    seq: int
    """Number of the frame since the slot was opened; its media time is `seq * frame_ms`."""
    pcm: Frame | None
    """Shape (info.frame_samples_in,); None: it was lost, and nothing is known of it."""
    epoch: int = 0
    """Raised by `cancel`: what is made under an older one is not played."""
    due: float = 0.0
    """When the output is owed, monotonic seconds: an order of urgency, not a time to read."""


@dataclass(slots=True)
class StepOut:
    """What a slot says in one frame period."""

    slot: Slot
    seq: int
    """That of the StepIn."""
    epoch: int = 0
    """That of the StepIn."""
    pcm: Frame | None = None
    """int16, shape (info.frame_samples_out,); None only before `lag_frames` or with `error`.

    Anything else is discarded and named in the log; 50 such frames in a row fail the slot.
    """
    events: Sequence[ModelEvent] = ()
    usage_ratio: float | None = None
    """How full the context is, 0 to 1; None: unknown or without limit."""
    error: str | None = None
    """The slot has failed and is to be closed; said to the session, so no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far work beside the frames has come, between two units of it."""

    done: int
    total: int
    """Units; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A slot's state between two steps, to go on from in another slot."""

    model: str
    """`ModelInfo.name`; another model refuses it."""
    kind: SnapshotKind
    seq: int
    """The next StepIn's."""
    state: Any = field(repr=False)
    """The model's own; bytes where it is to leave the process."""


@runtime_checkable
class VoiceModel(Protocol):
    """A voice. One thread calls it (its engine's); nothing of it touches asyncio."""

    @property
    def info(self) -> ModelInfo:
        """What it is; valid once it is loaded."""

    def load(self) -> None:
        """Load weights and warm up; when it returns, a real frame has gone through.

        Raises WarpError naming the fault and the fix.
        """

    def open(self, config: SessionConfig) -> Slot:
        """Take a slot: no inference, constant time. Raises NoCapacity when none is free."""

    def step(self, batch: Sequence[StepIn]) -> Sequence[StepOut]:
        """Hear a frame of every slot and return a frame of every slot (the hot path).

        One StepIn a slot; one StepOut for each, in any order. `seq` leaps where the engine was so
        far behind that batches were lost. A fault of one slot is its `error`; an exception is the
        engine's fault, and the frame of all of them is lost.
        """

    def prefill(self, slot: Slot, context: Context) -> Iterator[Progress]:
        """Take in the past, in units of a few milliseconds: other work runs between them."""

    def snapshot(self, slot: Slot, *, kind: SnapshotKind = "exact") -> Snapshot:
        """Return the slot's state, between two steps. Raises SnapshotRefused for the kind."""

    def restore(self, slot: Slot, snapshot: Snapshot) -> None:
        """Go on from a snapshot. Raises SnapshotRefused; the slot is as it was then."""

    def compact(self, context: Context, budget: int) -> Iterator[Progress | Context]:
        """Shorten a context to `budget` tokens, in units; the last thing yielded is the result."""

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None = None) -> None:
        """Tell the slot something, from the next frame on. Never waits."""

    def cancel(self, slot: Slot, epoch: int) -> None:
        """Drop what is not said yet, from the next frame on; what was heard is kept."""

    def close(self, slot: Slot) -> None:
        """Free the slot, even in mid-prefill. Harmless for a slot that is closed."""


class PlainVoice:
    """A base for models without the doors: each raises NotCapable, naming itself."""

    def prefill(self, slot: Slot, context: Context) -> Iterator[Progress]:
        """Refuse to take in a past."""
        raise NotCapable("this model takes in no context: open a session without one")

    def snapshot(self, slot: Slot, *, kind: SnapshotKind = "exact") -> Snapshot:
        """Refuse to be copied."""
        raise NotCapable(f"this model gives no {kind} snapshots")

    def restore(self, slot: Slot, snapshot: Snapshot) -> None:
        """Refuse to go on from elsewhere."""
        raise NotCapable("this model takes no snapshots")

    def compact(self, context: Context, budget: int) -> Iterator[Progress | Context]:
        """Refuse to shorten a context."""
        raise NotCapable("this model does not shorten contexts")

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None = None) -> None:
        """Refuse to be told anything."""
        raise NotCapable(f"this model takes no {kind.value}")

    def cancel(self, slot: Slot, epoch: int) -> None:
        """Do nothing: playout drops what is old by itself."""
