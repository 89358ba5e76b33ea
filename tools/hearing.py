"""From Opus frames to sound: gaps are filled by FEC where the next payload has it, else concealed.

frame with payload ──▶ decoded          gap of n frames ──▶ remembered; then the next payload:
                                        n - 1 concealed, 1 from its redundancy, itself
"""

from __future__ import annotations

import numpy as np

from voice_backend.audio import OpusDecoder, OpusError
from warp.rtp import AudioFrame
from warp_tools.opus import FRAME_SAMPLES, SAMPLE_RATE, Samples

MAX_CONCEALED = 5
"""100 ms; concealment has faded out by then."""
MAX_SECONDS = 900


class Hearing:
    """Turns the frames of one session into samples, in order."""

    __slots__ = ("_decoder", "_due", "_gap", "concealed", "filled", "refused")

    def __init__(self) -> None:
        self._decoder = OpusDecoder()
        self._due: int | None = None
        self._gap = 0
        self.concealed = 0
        self.filled = 0
        """How many of the samples last returned stand in for lost frames before the frame."""
        self.refused = 0
        """Payloads that are not Opus."""

    def hear(self, frame: AudioFrame) -> Samples:
        """Return the samples that this frame adds; none for a gap that is not over yet."""
        if frame.payload is None:
            self._gap = min(self._gap + frame.lost, MAX_CONCEALED)
            return np.zeros(0, np.int16)
        parts: list[Samples] = []
        if self._due is not None and self._gap:
            # of the packets lost some may have been padding: time tells how much is missing
            room = round((frame.timestamp - self._due) / FRAME_SAMPLES)
            self._gap = max(0, min(self._gap, room))
        if self._gap:
            parts = [self._decoder.conceal(FRAME_SAMPLES) for _ in range(self._gap - 1)]
            self.concealed += self._gap
            self._gap = 0
            try:
                parts.append(self._decoder.recover(frame.payload, FRAME_SAMPLES))
            except OpusError:
                parts.append(self._decoder.conceal(FRAME_SAMPLES))
        self.filled = sum(len(part) for part in parts)
        try:
            parts.append(self._decoder.decode(frame.payload))
        except OpusError:
            self.refused += 1
            parts.append(self._decoder.conceal(FRAME_SAMPLES))
        self._due = frame.timestamp + len(parts[-1])
        return np.concatenate(parts)


class Recording:
    """Everything that was heard, each frame where its timestamp puts it."""

    __slots__ = ("_began", "_hearing", "_length", "_parts", "_torn", "_unsent", "frames")

    def __init__(self) -> None:
        self._hearing = Hearing()
        self._parts: list[tuple[int, Samples]] = []
        self._began: int | None = None
        self._length = 0
        self._torn = False
        self._unsent = 0
        self.frames = 0

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self._length / SAMPLE_RATE

    @property
    def concealed(self) -> int:
        """Frames that were lost and filled in."""
        return self._hearing.concealed

    @property
    def unsent_s(self) -> float:
        """For how long nothing was sent in between, as nothing was said (DTX): nothing is lost."""
        return self._unsent / SAMPLE_RATE

    def add(self, frame: AudioFrame) -> Samples:
        """Take in a frame; returns what was heard."""
        samples = self._hearing.hear(frame)
        if frame.payload is None:
            self._torn = True
            return samples
        self.frames += 1
        if self._began is None:
            self._began = frame.timestamp
        position = frame.timestamp - self._began - self._hearing.filled
        if 0 <= position <= MAX_SECONDS * SAMPLE_RATE:
            self._parts.append((position, samples))
            # behind a loss nobody can say how much of the time was a pause
            if not self._torn:
                self._unsent += max(0, position - self._length)
            self._length = max(self._length, position + len(samples))
            self._torn = False
        return samples

    def samples(self) -> Samples:
        """Return the recording; silence where nothing was sent."""
        out = np.zeros(self._length, np.int16)
        for position, part in self._parts:
            out[position : position + len(part)] = part
        return out
