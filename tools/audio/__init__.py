"""Sound files and how alike two recordings are.

file ──▶ read_wav ──▶ 48 kHz mono int16 ──▶ (a call) ──▶ write_wav ──▶ file
                                  └──────── likeness ───────┘
"""

from __future__ import annotations

from warp_tools.audio.likeness import Likeness, likeness
from warp_tools.audio.resample import resample
from warp_tools.audio.wav import packaged_sound, read_wav, write_wav

__all__ = ["Likeness", "likeness", "packaged_sound", "read_wav", "resample", "write_wav"]
