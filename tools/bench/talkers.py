"""Parties that talk: real speech in Opus to a server that decodes it and encodes what it hears.

Our server is `voice_backend` with its echo; aiortc's is a track that gives back what it is given.
The caller is ours for both, passes payloads through, and notes when what it said comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from fractions import Fraction
from functools import cache
from typing import Any

from aiortc import codecs
from aiortc.codecs.opus import OpusEncoder
from aiortc.mediastreams import MediaStreamTrack
from av import AudioResampler, CodecContext

from voice_backend.audio import EncoderConfig
from voice_backend.io import Voices, VoicesConfig, inline, open_voices
from voice_backend.models.echo import EchoModel
from warp.errors import WarpError
from warp.io import Session
from warp_tools.audio import packaged_sound
from warp_tools.bench.aiortc_party import AiortcParty, keep_to_loopback
from warp_tools.bench.ours import OurParty
from warp_tools.bench.party import FRAME_S
from warp_tools.opus import FRAME_SAMPLES, SAMPLE_RATE, encoded

_QUEUE_MS = 2_000


@cache
def speech() -> tuple[bytes, ...]:
    """The packaged question as Opus payloads of 20 ms."""
    return tuple(encoded(packaged_sound("speech")))


class OurTalker(OurParty):
    """Our voice at the server, our caller at the client."""

    audio_in_order = False

    def __init__(self) -> None:
        super().__init__()
        self._voices: Voices | None = None
        self._attending: set[asyncio.Task[None]] = set()
        self._said: dict[Session, int] = {}

    async def prepare(self, role: str) -> None:
        """Open the server's port and its media loop, or the client of all calls."""
        await super().prepare(role)
        speech()
        if self._server is not None:
            # the caller counts packets: what is silent is sent as well
            config = VoicesConfig(encoder=EncoderConfig(dtx=False))
            tick = self._server.add_media_tick
            self._voices = await open_voices(inline(EchoModel), config, add_media_tick=tick)

    async def answer(self, session: str, kind: str, offer: str) -> str:
        """Begin a session by an offer and let the voice take it."""
        answer = await super().answer(session, kind, offer)
        task = asyncio.create_task(self._attend(self._sessions[session]))
        self._attending.add(task)
        task.add_done_callback(self._attending.discard)
        return answer

    async def _attend(self, session: Session) -> None:
        if self._voices is not None:
            with contextlib.suppress(WarpError):
                await self._voices.attend(session)

    async def start_media(self) -> None:
        """Speak, at the client; the server's media loop runs already."""
        if self._server is None:
            self._tasks["media"] = asyncio.create_task(self._speak())

    def figures(self) -> dict[str, Any]:
        """Return what the media loop says of itself."""
        return {} if self._voices is None else self._voices.stats()

    def _feed(self, session: Session) -> None:
        out, payloads = session.audio_out, speech()
        said = self._said.get(session, 0)
        for _ in range(int((_QUEUE_MS - out.queued_ms) / (FRAME_S * 1000))):
            out.send(payloads[said % len(payloads)])
            said += 1
        self._said[session] = said
        self._note(session)

    def collect(self) -> int:
        """Note what has arrived since each session's turn."""
        before = self.packets
        for session in self._sessions.values() if self._server is None else ():
            self._note(session)
        return self.packets - before

    def _note(self, session: Session) -> None:
        name = str(id(session))
        for frame in session.audio_in.take():
            if frame.payload is not None:
                self.packets += 1
                self.arrivals.note(name, frame.timestamp, frame.received_at)


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
