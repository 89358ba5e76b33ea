"""Where tracks come from and go to: files, nowhere, and several consumers at once.

Audio only, over PyAV. `MediaPlayer` reads, `MediaRecorder` writes, `MediaBlackhole` consumes,
`MediaRelay` lets several consumers hear one track.
"""

from __future__ import annotations

from warp.compat.aiortc.contrib.player import MediaPlayer
from warp.compat.aiortc.contrib.recorder import MediaBlackhole, MediaRecorder
from warp.compat.aiortc.contrib.relay import MediaRelay

__all__ = ["MediaBlackhole", "MediaPlayer", "MediaRecorder", "MediaRelay"]
