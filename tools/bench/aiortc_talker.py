"""aiortc as a party that talks: a track that gives back what it is given, decoded and encoded.

Called by `child`, for `warp bench media --codec`, where aiortc is installed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from aiortc import codecs
from aiortc.codecs.opus import OpusEncoder
from aiortc.mediastreams import MediaStreamTrack
from av import AudioResampler, CodecContext

from voice_backend.audio import EncoderConfig
from warp_tools.bench.aiortc_party import AiortcParty, keep_to_loopback
from warp_tools.opus import FRAME_SAMPLES, SAMPLE_RATE


class _Echo(MediaStreamTrack):
    """Says what another track says: decoded, and to be encoded."""

    kind = "audio"

    def __init__(self, heard: Any) -> None:
        super().__init__()
        self._heard = heard

    async def recv(self) -> Any:
        """Return the next frame of the other's."""
        return await self._heard.recv()


class _AsOurs(OpusEncoder):
    """aiortc's encoder with what ours is told: bit rate, channels, complexity, FEC."""

    def __init__(self) -> None:
        super().__init__()
        ours = EncoderConfig()
        codec: Any = CodecContext.create("libopus", "w")
        codec.bit_rate = ours.bitrate_bit_s
        codec.format, codec.layout = "s16", "mono"
        codec.sample_rate, codec.time_base = SAMPLE_RATE, Fraction(1, SAMPLE_RATE)
        codec.options = {
            "application": "voip",
            "compression_level": str(ours.complexity),
            "fec": str(int(ours.fec)),
            "packet_loss": str(ours.expected_loss_percent),
        }
        self.codec = codec
        self.resampler = AudioResampler(
            format="s16", layout="mono", rate=SAMPLE_RATE, frame_size=FRAME_SAMPLES
        )


class AiortcTalker(AiortcParty):
    """aiortc with its own jitter buffer, decoder and encoder.

    The encoder has our settings; `as_released` its own: 96 kbit/s, two channels, full complexity.
    """

    def __init__(self, *, as_released: bool = False) -> None:
        super().__init__()
        self._as_released = as_released

    async def prepare(self, role: str) -> None:
        """Keep to loopback."""
        keep_to_loopback()
        if not self._as_released:
            # where `codecs.get_encoder` looks it up
            vars(codecs)["OpusEncoder"] = _AsOurs

    def figures(self) -> dict[str, Any]:
        """Return nothing: aiortc keeps no such counts."""
        return {}

    async def start_media(self) -> None:
        """Its echo runs already."""

    def _make(self, session: str, kind: str) -> Any:
        connection = self._bare(session)
        connection.on("track", lambda track: connection.addTrack(_Echo(track)))
        self._open_when_connected(session, connection)
        return connection
