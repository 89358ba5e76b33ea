"""A jitter buffer's steps become samples: decoded, recovered, concealed, or a pause.

    PLAY ─▶ decode    RECOVER ─▶ redundancy of the next    COMFORT ─▶ the decoder's noise, then ours
    CONCEAL ─▶ up to 60 ms of what the voice may have done ─▶ fades for 20 ms ─▶ background noise

Called by `receive`. Payloads come from the peer: what is not Opus is concealed and counted.
"""

from __future__ import annotations

from typing import Final

from voice_backend.audio.comfort import Comfort
from voice_backend.audio.opus import OpusDecoder, OpusError
from voice_backend.frames import Frame
from warp.rtp import Action, Step

CONCEALED_MS: Final = 60
"""How long a voice is guessed; longer guesses hum."""
DECODER_PAUSE_MS: Final = 1000
"""How long the decoder makes the noise of a pause (RFC 6716 section 2.1.9): libopus's encoder
refreshes it every 400 ms."""
_JOIN_US = 5_000
_HEAR_MS = 80


class Renderer:
    """One decoder, and what stands in where it has nothing."""

    __slots__ = (
        "_decoder", "_made_up", "_ratio", "_renewed", "_unheard", "_unit", "comfort", "refused",
    )  # fmt: skip

    def __init__(self, rate: int) -> None:
        """`rate` is one of Opus's; raises InvalidConfig, OpusMissing."""
        self._decoder = OpusDecoder(rate)
        self._ratio = 48_000 // rate
        self._unit = rate // 400
        self._made_up = 1 << 30
        """Samples made up since the last packet that was decoded."""
        self._renewed = True
        """Whether the decoder knows nothing of an earlier voice."""
        self._unheard = 0
        """Samples since the background was looked at."""
        self.comfort = Comfort(rate)
        self.refused = 0
        """Payloads that are not Opus."""

    def render(self, step: Step) -> Frame:
        """Return the samples of one step."""
        if step.action is Action.PLAY:
            return self._play(step)
        samples = -(-step.ticks // self._ratio)
        if step.action is Action.RECOVER:
            try:
                return self._fresh().recover(step.payload, self._whole(samples))[-samples:]
            except OpusError:
                self.refused += 1
        return self._make_up(samples, pause=step.action is Action.COMFORT)

    def reset(self) -> None:
        """Another voice follows: the decoder forgets the last one before it hears the next.

        Not at once, since a peer can have a hundred follow each other within a frame.
        """
        self._renewed = False
        self._made_up = 1 << 30

    def _fresh(self) -> OpusDecoder:
        if not self._renewed:
            self._renewed = True
            self._decoder.reset()
        return self._decoder

    def _play(self, step: Step) -> Frame:
        try:
            pcm = self._fresh().decode(step.payload)
        except OpusError:
            self.refused += 1
            return self._make_up(-(-step.ticks // self._ratio), pause=False)
        if step.skip:
            pcm = pcm[step.skip // self._ratio :]
        rate = self._decoder.rate
        if self._made_up > CONCEALED_MS * rate // 1000:
            pcm = self.comfort.join(pcm, _JOIN_US * rate // 1_000_000)
        self._made_up = 0
        self._unheard += len(pcm)
        if self._unheard >= _HEAR_MS * rate // 1000:
            self._unheard = 0
            self.comfort.hear(pcm)
        return pcm

    def _make_up(self, samples: int, *, pause: bool) -> Frame:
        limit = (DECODER_PAUSE_MS if pause else CONCEALED_MS) * self._decoder.rate // 1000
        before = self._made_up
        self._made_up = min(before + samples, 1 << 30)
        if before > limit:
            return self.comfort.noise(samples)
        pcm = self._decoder.conceal(self._whole(samples))[:samples]
        return pcm if self._made_up <= limit else self.comfort.fade(pcm)

    def _whole(self, samples: int) -> int:
        """Round up to 2.5 ms, in which libopus conceals."""
        return -(-samples // self._unit) * self._unit
