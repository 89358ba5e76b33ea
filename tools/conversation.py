"""A spoken conversation as its caller has it: both sides on one clock, and the transcript.

left   what the caller says, from when its first frame leaves
right  what the caller hears, where it arrives
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from warp_tools.audio import write_wav
from warp_tools.caller import speak
from warp_tools.hearing import Recording
from warp_tools.opus import FRAME_SAMPLES, SAMPLE_RATE, Samples, encoded

if TYPE_CHECKING:
    from warp.io import Channel, Session

AUDIBLE: Final = 32768 * 10 ** (-45 / 20)
"""Root mean square of a frame (int16) from which it is heard: -45 dBFS."""
HELLO_S: Final = 3.0
"""For so long the caller waits for the first words to come and to end."""
PAUSE_S: Final = 0.4
QUIET_S: Final = 1.5
LONGEST_S: Final = 20.0
_STEP_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message of the final transcript."""

    speaker: str
    text: str
    start_ms: int
    end_ms: int


@dataclass(slots=True, kw_only=True)
class Conversation:
    """What one conversation came to."""

    reply_ms: float | None = None
    """From the last audible sample of the question to the first of the answer, at the caller."""
    transcript: list[Said] = field(default_factory=list)
    seconds: float = 0.0
    concealed: int = 0
    asked: str = ""
    """The words of the question, where they are known."""
    late: int = 0
    """Frames of the question in whose place the voice heard a gap, as they left too late."""

    @property
    def is_understood(self) -> bool:
        """Whether the question was written down as it was asked, as far as that is known."""
        return not self.asked or _words(self.question) == _words(self.asked)

    @property
    def question(self) -> str:
        """What was understood."""
        return " ".join(one.text for one in self.transcript if one.speaker == "user")

    @property
    def answer(self) -> str:
        """What was said, as far as it was heard."""
        return " ".join(one.text for one in self.transcript if one.speaker == "assistant")

    def to_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return {
            "reply_ms": None if self.reply_ms is None else round(self.reply_ms),
            "question": self.question,
            "answer": self.answer,
            "transcript": [asdict(one) for one in self.transcript],
            "seconds": round(self.seconds, 2),
            "concealed": self.concealed,
            "asked": self.asked,
            "late": self.late,
        }

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> Conversation:
        """Return what `to_json` was made of."""
        return cls(
            reply_ms=told["reply_ms"],
            transcript=[Said(**one) for one in told["transcript"]],
            seconds=told["seconds"],
            concealed=told["concealed"],
            asked=told["asked"],
            late=told["late"],
        )


def _words(text: str) -> list[str]:
    """Return what is said, whatever the punctuation."""
    return re.findall(r"\w+", text.lower())


class Caller:
    """Asks one question and listens until the answer is over."""

    def __init__(self, session: Session, events: Channel) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._recording = Recording()
        self._first_at: float | None = None
        self._audible_at: list[float] = []
        self._transcript: list[Said] = []
        self._tasks = [
            self._loop.create_task(self._listen()),
            self._loop.create_task(self._read(events)),
        ]

    async def ask(self, question: Samples, out: Path | None) -> Conversation:
        """Ask, wait for the answer's end, and write both sides as a stereo WAV."""
        await self._until(lambda: self._has_paused(PAUSE_S), HELLO_S)
        began = self._loop.time()
        await speak(self._session, encoded(question))
        over = began + audible_frames(question) * FRAME_SAMPLES / SAMPLE_RATE
        await self._until(lambda: self._answered(over), over - began + LONGEST_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        heard = self._recording.samples()
        if out is not None:
            first = self._first_at if self._first_at is not None else began
            write_stereo(out, question, heard, lead_s=began - first)
        reply_at = self._reply_at(over)
        return Conversation(
            reply_ms=None if reply_at is None else (reply_at - over) * 1000,
            transcript=self._transcript,
            seconds=self._recording.seconds,
            concealed=self._recording.concealed,
        )

    async def _until(self, happened: Any, longest_s: float) -> None:
        end = self._loop.time() + longest_s
        while self._loop.time() < end and not self._session.closed.done() and not happened():
            await asyncio.sleep(_STEP_S)

    def _has_paused(self, quiet_s: float) -> bool:
        return bool(self._audible_at) and self._loop.time() - self._audible_at[-1] > quiet_s

    def _reply_at(self, over: float) -> float | None:
        return next((at for at in self._audible_at if at > over), None)

    def _answered(self, over: float) -> bool:
        """Whether the answer was heard to its end and its words have been told for good."""
        if self._reply_at(over) is None or not self._has_paused(QUIET_S):
            return False
        told = any(one.speaker == "user" for one in self._transcript)
        last = self._transcript[-1].speaker if self._transcript else ""
        return (told and last == "assistant") or self._has_paused(3 * QUIET_S)

    async def _listen(self) -> None:
        async for frame in self._session.audio_in:
            if self._first_at is None:
                self._first_at = self._loop.time()
            heard = self._recording.add(frame)
            if len(heard) and float(np.sqrt(np.mean(heard.astype(np.float64) ** 2))) > AUDIBLE:
                self._audible_at.append(self._loop.time())

    async def _read(self, events: Channel) -> None:
        async for message in events:
            event = json.loads(message)
            if event.get("type") == "transcript.final":
                item = event["item"]
                said = {name: item[name] for name in ("speaker", "text", "start_ms", "end_ms")}
                self._transcript.append(Said(**said))


def audible_frames(samples: Samples) -> int:
    """Return how many frames of 20 ms a recording has until its last audible one is over."""
    whole = len(samples) // FRAME_SAMPLES * FRAME_SAMPLES
    frames = samples[:whole].reshape(-1, FRAME_SAMPLES).astype(np.float64)
    loud = np.nonzero(np.sqrt(np.mean(frames**2, axis=1)) > AUDIBLE)[0]
    return int(loud[-1]) + 1 if len(loud) else 0


def write_stereo(out: Path, said: Samples, heard: Samples, *, lead_s: float) -> None:
    """Write what was said (left) and heard (right); `said` begins `lead_s` after `heard`."""
    lead = round(lead_s * SAMPLE_RATE)
    left, right = max(0, lead), max(0, -lead)
    both = np.zeros((max(left + len(said), right + len(heard)), 2), np.int16)
    both[left : left + len(said), 0] = said
    both[right : right + len(heard), 1] = heard
    write_wav(out, both)
