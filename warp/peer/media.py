"""The audio of one connection: sections as agreed on, on one RTP session.

    agreement ─▶ a sender and a receiver for each section ─▶ RtpSession
    unprotected packets ─▶ RtpSession ─▶ frames                 payloads ─▶ packets

Called by `warp.peer.bundle`, which protects and unprotects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from warp.contract import Event
from warp.entropy import Entropy, random_u32
from warp.peer.config import PeerConfig
from warp.peer.events import AudioReceived
from warp.rtp import (
    AudioReceiver,
    AudioSender,
    ExtensionMap,
    PayloadKind,
    ReceiverConfig,
    RtpSession,
    SenderConfig,
    SessionConfig,
    draw_cname,
)
from warp.sdp import AudioParameters, Codec, HeaderExtension, LocalAudio, Source
from warp.trace import Trace

_KINDS: Mapping[str, PayloadKind] = {
    "opus": PayloadKind.AUDIO,
    "red": PayloadKind.RED,
    "telephone-event": PayloadKind.TELEPHONE_EVENT,
}
_NACK_HISTORY = 32  # packets, 640 ms of audio: more would come too late


class Media:
    """Senders and receivers by mid; nothing flows before `apply`."""

    __slots__ = (
        "_cname",
        "_config",
        "_entropy",
        "_receivers",
        "_senders",
        "_ssrc",
        "_started",
        "_trace",
        "milestones",
        "sender",
        "session",
    )

    def __init__(
        self,
        config: PeerConfig,
        entropy: Entropy,
        trace: Trace | None,
        *,
        source: Source | None = None,
    ) -> None:
        """`source` is the one that our description already announces, if it does."""
        self._config = config
        self._entropy = entropy
        self._trace = trace
        self._ssrc = random_u32(entropy, nonzero=True) if source is None else source.ssrc
        self._cname = draw_cname(entropy) if source is None else source.cname
        self._senders: dict[str, AudioSender] = {}
        self._receivers: dict[str, AudioReceiver] = {}
        self.sender: AudioSender | None = None
        self._started = False
        self.session: RtpSession | None = None
        self.milestones: dict[str, float] = {}

    def description(self) -> LocalAudio:
        """Return our audio section for the next offer or answer."""
        return LocalAudio(ssrc=self._ssrc, cname=self._cname)

    def apply(self, sections: Sequence[AudioParameters], now: float) -> None:
        """Make what is agreed on true: sections come, change direction, and go."""
        agreed = {section.mid or "": section for section in sections}
        session = self.session
        if session is None:
            if not agreed:
                return
            session = self.session = self._make_session(next(iter(agreed.values())))
            if self._started:
                session.start(now)
        for mid, section in agreed.items():
            sends, receives = section.direction.sends, section.direction.receives
            opus = section.send_codec("opus", 48_000)
            if sends and opus is not None and mid not in self._senders:
                config = _sender_config(mid, opus, session.config.extensions)
                self._senders[mid] = self._sender(session, config, agreed)
            if receives and mid not in self._receivers:
                self._receivers[mid] = session.add_receiver(
                    _receiver_config(mid, section.receive_codecs, self._config.audio_in_order)
                )
        for mid in [
            m for m in self._receivers if m not in agreed or not agreed[m].direction.receives
        ]:
            session.router.remove_receiver(mid)
            del self._receivers[mid]
        # a source that falls silent is kept: it goes on with its numbers when it may speak again,
        # since SRTP takes no number twice (RFC 3711 section 3.3.2)
        self.sender = next(
            (s for m, s in self._senders.items() if m in agreed and agreed[m].direction.sends), None
        )

    def _sender(
        self, session: RtpSession, config: SenderConfig, agreed: Mapping[str, AudioParameters]
    ) -> AudioSender:
        """Return what speaks in a new section.

        It takes over the source of a section that has gone, which our descriptions announce.
        """
        gone = next((mid for mid in self._senders if mid not in agreed), None)
        if gone is None:
            return session.add_sender(config, ssrc=None if self._senders else self._ssrc)
        sender = self._senders.pop(gone)
        sender.move(config)
        return sender

    def _make_session(self, first: AudioParameters) -> RtpSession:
        return RtpSession(
            _session_config(first.extensions, first.rtcp_rsize, self._config.wall_offset_s),
            entropy=self._entropy,
            trace=self._trace,
            cname=self._cname,
        )

    def start(self, now: float) -> None:
        """Media can flow: begin to report, on what is agreed on later as well."""
        self._started = True
        if self.session is not None:
            self.session.start(now)

    def received(self) -> list[Event]:
        """Drain, by section, what sources and tones did and the frames that are in order."""
        out: list[Event] = []
        for mid, receiver in self._receivers.items():
            out += receiver.events()
            frames = receiver.frames()
            if frames:
                if not self.milestones:
                    self.milestones["first_media_received"] = frames[0].received_at
                out.append(AudioReceived(mid, frames))
        return out

    def packets_to_send(self, now: float) -> list[tuple[bytes, bool]]:
        """Drain repeated RTP packets (False) and RTCP datagrams (True), unprotected."""
        session = self.session
        if session is None:
            return []
        out: list[tuple[bytes, bool]] = []
        for packet in session.rtp_to_send():
            out.append((packet, False))
        for packet in session.rtcp_to_send(now):
            out.append((packet, True))
        session.feedback_received()  # nobody above controls congestion by it
        return out

    def get_timer(self) -> float | None:
        """Return the session's next deadline."""
        return self.session.get_timer() if self.session is not None else None

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        if self.session is not None:
            self.session.handle_timer(now)

    def close(self, now: float) -> None:
        """Queue the goodbye of everything we sent."""
        if self.session is not None:
            self.session.close(now)

    def stats(self) -> dict[str, Any]:
        """Return the counters of each section."""
        return {
            "sent": {mid: sender.stats for mid, sender in self._senders.items()},
            "received": {mid: receiver.stats for mid, receiver in self._receivers.items()},
            "rtt_s": self.session.rtt_s if self.session is not None else None,
        }


# configurations are values, and those of most sessions are the same


@lru_cache(maxsize=16)
def _session_config(
    extensions: tuple[HeaderExtension, ...], reduced_size: bool, wall_offset_s: float
) -> SessionConfig:
    return SessionConfig(
        extensions=ExtensionMap.from_uris(
            {extension.uri: extension.id for extension in extensions}
        ),
        reduced_size=reduced_size,
        wall_offset_s=wall_offset_s,
    )


@lru_cache(maxsize=16)
def _sender_config(mid: str, opus: Codec, extensions: ExtensionMap) -> SenderConfig:
    return SenderConfig(
        mid=mid,
        payload_type=opus.payload_type,
        extensions=extensions,
        nack_history=_NACK_HISTORY if "nack" in opus.feedback else 0,
    )


@lru_cache(maxsize=16)
def _receiver_config(mid: str, codecs: tuple[Codec, ...], in_order: bool) -> ReceiverConfig:
    kinds = {
        codec.payload_type: kind
        for codec in codecs
        if (kind := _KINDS.get(codec.name.lower())) is not None
    }
    opus = next((c for c in codecs if c.name.lower() == "opus"), None)
    return ReceiverConfig(
        mid=mid,
        payload_kinds=kinds,
        in_order=in_order,
        nack=opus is not None and "nack" in opus.feedback,
    )
