"""What we say: frames of the model's rate become Opus payloads, or nothing where nothing is said.

    pcm ──▶ (Resampler) ──▶ OpusEncoder ──▶ payload ──▶ session.audio_out.send
                                      └────▶ None: DTX, the slot stays empty

One per session, in the media loop.
"""

from __future__ import annotations

from voice_backend.audio.opus import EncoderConfig, OpusEncoder
from voice_backend.frames import MEDIA_FRAME_MS, Frame

_NOTHING = 2
"""Up to so many bytes a payload says "nothing to say" (RFC 6716 section 2.1.9)."""


class AudioSender:
    """One session's way out."""

    def __init__(
        self, rate: int, frame_ms: int = MEDIA_FRAME_MS, config: EncoderConfig | None = None
    ) -> None:
        """Frames are `rate * frame_ms / 1000` samples; raises InvalidConfig, OpusMissing."""
        self._encoder = OpusEncoder(rate, config or EncoderConfig(dtx=True), frame_ms=frame_ms)
        self._quiet = False

    def encode(self, pcm: Frame) -> bytes | None:
        """Return the frame's payload, or None while there is nothing to say (DTX)."""
        payload = self._encoder.encode(pcm)
        was_quiet, self._quiet = self._quiet, len(payload) <= _NOTHING
        # the first of them tells the peer's decoder that a pause begins
        return None if self._quiet and was_quiet else payload
