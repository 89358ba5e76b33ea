"""What we say: frames of the model's rate become Opus payloads, or nothing where nothing is said.

    pcm ──▶ (Resampler) ──▶ OpusEncoder ──▶ payload ──▶ session.audio_out.send
                                      └────▶ None: DTX, the slot stays empty

One per session, in the media loop. Nothing waits here.
"""

from __future__ import annotations

from voice_backend.audio.opus import EncoderConfig, OpusEncoder
from voice_backend.audio.resample import Resampler, opus_rate
from voice_backend.frames import MEDIA_FRAME_MS, Frame, fault_of, frame_samples
from warp.errors import UsageError
from warp.rtp import is_dtx


class AudioSender:
    """One session's way out."""

    __slots__ = (
        "_encoder",
        "_quiet",
        "_resampler",
        "_samples",
        "expected_loss",
        "frames",
        "unsent",
    )

    def __init__(
        self,
        rate: int,
        frame_ms: int = MEDIA_FRAME_MS,
        config: EncoderConfig | None = None,
    ) -> None:
        """Frames are `rate * frame_ms / 1000` samples; raises InvalidConfig, OpusMissing.

        Without `config`: 32 kbit/s, FEC, DTX.
        """
        coded = opus_rate(rate)
        config = config or EncoderConfig(dtx=True)
        self._samples = frame_samples(rate, frame_ms)
        self._encoder = OpusEncoder(coded, config, frame_ms=frame_ms)
        self._resampler = None
        if coded != rate:
            self._resampler = Resampler(rate, coded, frame_samples(coded, frame_ms))
        self._quiet = False
        self.expected_loss = config.expected_loss_percent
        """Percent, by which redundancy is measured out."""
        self.frames = 0
        self.unsent = 0
        """Frames that had nothing to say."""

    def encode(self, pcm: Frame) -> bytes | None:
        """Return the frame's payload, or None while there is nothing to say (DTX).

        Raises UsageError for what is no frame.
        """
        fault = fault_of(pcm, self._samples)
        if fault is not None:
            raise UsageError(fault)
        self.frames += 1
        if self._resampler is not None:
            pcm = self._resampler.resample(pcm)
        payload = self._encoder.encode(pcm)
        was_quiet, self._quiet = self._quiet, is_dtx(payload)
        if self._quiet and was_quiet:
            self.unsent += 1
            return None
        # the first of a pause goes out: it tells the peer's decoder that the pause begins
        return payload

    def set_bitrate(self, bitrate_bit_s: int) -> None:
        """Change the bit rate from the next frame on; raises OpusError when it is absurd."""
        self._encoder.set_bitrate(bitrate_bit_s)

    def set_expected_loss(self, percent: int) -> None:
        """Tell what the peer reports as lost (0..100), by which redundancy is measured out."""
        self.expected_loss = min(max(percent, 0), 100)
        self._encoder.set_expected_loss(self.expected_loss)
