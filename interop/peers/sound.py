"""What is said in a call: a part of a packaged recording, as samples and as Opus."""

from __future__ import annotations

import base64
import json
from functools import cache

import numpy as np

from interop.peers.peer import Samples
from voice_backend.audio import OpusDecoder
from warp_tools.audio import packaged_sound
from warp_tools.opus import SAMPLE_RATE, encoded

CLIP_S = 2.4
_BEGIN_S = 0.3
_SILENCE_S = 0.6
LONGEST_SAMPLES = 120 * SAMPLE_RATE


@cache
def clip(name: str) -> Samples:
    """Return the part that is compared: `speech` is what peers say, `greeting` what we say."""
    sound = packaged_sound(name)
    at = int(_BEGIN_S * SAMPLE_RATE)
    return sound[at : at + int(CLIP_S * SAMPLE_RATE)]


@cache
def spoken(name: str) -> Samples:
    """Return the clip with a silence behind it that flushes buffers."""
    return np.concatenate([clip(name), np.zeros(int(_SILENCE_S * SAMPLE_RATE), np.int16)])


@cache
def payloads(name: str) -> tuple[bytes, ...]:
    """Return `spoken` as Opus payloads of 20 ms."""
    return tuple(encoded(spoken(name)))


def payloads_as_text(name: str) -> str:
    """Return the payloads as a JSON list of base64 texts."""
    return json.dumps([base64.b64encode(one).decode() for one in payloads(name)])


def heard_payloads(packets: list[tuple[int, bytes]]) -> Samples:
    """Turn RTP timestamps and Opus payloads, in order of arrival, into what is heard.

    Each lies where its timestamp puts it; silence where nothing came.
    """
    decoder = OpusDecoder()
    first = packets[0][0] if packets else 0
    placed: list[tuple[int, Samples]] = []
    for timestamp, payload in packets:
        at = (timestamp - first) & 0xFFFFFFFF
        if payload and at < LONGEST_SAMPLES:
            placed.append((at, decoder.decode(payload)))
    out = np.zeros(max((at + len(part) for at, part in placed), default=0), np.int16)
    for at, part in placed:
        out[at : at + len(part)] = part
    return out
