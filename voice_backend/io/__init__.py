"""Where voices meet calls: asyncio on one side, the media loop's thread on the other.

open_voices(make_host, add_media_tick=server.add_media_tick) ─▶ Voices
Voices.attend(session) ─▶ Voice     a call of `warp.io`, once its peer is authenticated
Voices.join(line, voice) ─▶ Voice   any other line
"""

from __future__ import annotations

from voice_backend.io.rtp_line import RtpLine
from voice_backend.io.voice import Voice
from voice_backend.io.voices import Voices, VoicesConfig, inline, open_voices

__all__ = ["RtpLine", "Voice", "Voices", "VoicesConfig", "inline", "open_voices"]
