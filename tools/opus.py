"""Sound as the tools have it, 48 kHz mono, and whole recordings as Opus payloads.

The codec itself is `voice_backend.audio`; these are the shapes that a command line needs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from voice_backend.audio import EncoderConfig, OpusEncoder
from voice_backend.frames import Frame

SAMPLE_RATE: Final = 48_000
FRAME_SAMPLES: Final = 960
"""20 ms, what RFC 7587 section 4.2 recommends."""

Samples = Frame


def frames_of(samples: Samples) -> list[Samples]:
    """Cut sound into frames of 20 ms; the last one is filled up with silence."""
    whole = np.concatenate([samples, np.zeros(-len(samples) % FRAME_SAMPLES, np.int16)])
    return [whole[at : at + FRAME_SAMPLES] for at in range(0, len(whole), FRAME_SAMPLES)]


def encoded(samples: Samples, config: EncoderConfig | None = None) -> list[bytes]:
    """Encode sound into Opus payloads of 20 ms; raises OpusMissing without a codec."""
    encoder = OpusEncoder(SAMPLE_RATE, config)
    return [encoder.encode(frame) for frame in frames_of(samples)]
