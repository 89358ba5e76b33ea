"""From a packet to its media section (RFC 8843 section 9.2), reading the header in place.

    mid in the packet ──▶ that section, and its SSRC is known from now on
    SSRC known        ──▶ that section
    payload type of exactly one section ──▶ that section, SSRC known from now on
    else              ──▶ discarded

After its first packet a source costs one dictionary look-up and, when it sends extensions, one
comparison with the shape of its last packet (`learn_layout`).
"""

from __future__ import annotations

import struct
from typing import Final

from warp.errors import Discard, InvalidConfig
from warp.names import Counts
from warp.rtp.frame import AudioFrame
from warp.rtp.header_extensions import ExtensionMap, learn_layout, parse_extensions
from warp.rtp.packet import HEADER, HEADER_LENGTH, RtpDiscard, payload_bounds
from warp.rtp.receiver import AudioReceiver
from warp.rtp.transport_feedback import FeedbackLog

SILENT_AFTER_S: Final = 1.0
"""A replaced source may return once its successor has been silent for so long."""


class Route:
    """One SSRC: its receiver, and the shape of its extension block."""

    __slots__ = (
        "heard_at", "layout_end", "level_at", "mask", "pattern", "receiver", "sequence_at",
    )  # fmt: skip

    def __init__(self, receiver: AudioReceiver) -> None:
        self.receiver = receiver
        self.heard_at = 0.0
        self.layout_end = HEADER_LENGTH
        self.mask = self.level_at = self.sequence_at = 0
        self.pattern = -1  # nothing matches


class RtpRouter:
    """The table of one transport. `feedback` logs transport-wide numbers when negotiated."""

    __slots__ = (
        "_by_mid", "_by_ssrc", "_hints", "_ids", "_latest", "_max_sources", "collision", "discards",
        "feedback", "own_sources", "sections",
    )  # fmt: skip

    def __init__(self, extensions: ExtensionMap, *, max_sources: int = 16) -> None:
        self._ids = extensions
        self._max_sources = max_sources
        self._by_mid: dict[str, AudioReceiver] = {}
        self.sections: tuple[AudioReceiver, ...] = ()
        """The receivers of all media sections, in the order in which they were added."""
        self._by_ssrc: dict[int, Route] = {}
        self._latest: Route | None = None
        """That of the last packet: hundreds of sessions take turns, and a table is never warm."""
        self._hints: dict[int, str] = {}
        self.own_sources: set[int] = set()
        """SSRCs that we send with; the peer may not use them (RFC 3550 section 8.2)."""
        self.collision: int | None = None
        """One of ours that the peer used all the same; whoever acts on it sets it to None."""
        self.discards: Counts[RtpDiscard] = Counts()
        self.feedback = FeedbackLog() if extensions.transport_cc else None

    def add_receiver(self, receiver: AudioReceiver) -> None:
        """Add a media section. Raises `InvalidConfig` when its mid is taken."""
        mid = receiver.config.mid
        if mid in self._by_mid:
            raise InvalidConfig(f"mid {mid!r} has a receiver already")
        self._by_mid[mid] = receiver
        self.sections = tuple(self._by_mid.values())

    def remove_receiver(self, mid: str) -> None:
        """Take a media section away; its packets are discarded from now on."""
        receiver = self._by_mid.pop(mid, None)
        self.sections = tuple(self._by_mid.values())
        for ssrc in [s for s, route in self._by_ssrc.items() if route.receiver is receiver]:
            del self._by_ssrc[ssrc]
        self._latest = None

    def frames(self) -> list[AudioFrame]:
        """Drain the frames of all sections that are in order; for a call under way."""
        if len(self.sections) == 1:
            return self.sections[0].frames()
        found: list[AudioFrame] = []
        for receiver in self.sections:
            if frames := receiver.frames():
                found = found + frames if found else frames
        return found

    def receiver_of(self, ssrc: int) -> AudioReceiver | None:
        """Return the section that hears this source now, or None."""
        route = self._by_ssrc.get(ssrc)
        return route.receiver if route is not None and route.receiver.ssrc == ssrc else None

    def hint(self, ssrc: int, mid: str) -> None:
        """Note where a source without a mid belongs (`a=ssrc`, the MID item of SDES)."""
        if mid in self._by_mid and (ssrc in self._hints or len(self._hints) < self._max_sources):
            self._hints[ssrc] = mid

    def forget(self, ssrc: int) -> None:
        """Drop the route of a source that said BYE."""
        self._by_ssrc.pop(ssrc, None)
        self._latest = None
        self._hints.pop(ssrc, None)

    def receive(self, packet: bytes, now: float) -> bool:
        """Take in one RTP packet, already unprotected (the hot path). Never raises.

        Returns whether it did more than append a frame: a deadline may have moved then, and
        there may be events.
        """
        noted = False
        try:
            first, second, sequence, timestamp, ssrc = HEADER.unpack_from(packet)
            route = self._latest
            if route is None or route.receiver.ssrc != ssrc:
                route = self._by_ssrc.get(ssrc)
                if route is None or route.receiver.ssrc != ssrc:
                    route = self._find(packet, ssrc, second & 0x7F, now)
                self._latest = route
            route.heard_at = now
            level = None
            if first == 0x90:
                end = route.layout_end
                if int.from_bytes(packet[12:end], "big") & route.mask != route.pattern:
                    route = self._relearn(packet, ssrc, route, now)
                    end = route.layout_end
                if route.level_at:
                    level = packet[route.level_at]
                at = route.sequence_at
                if at and self.feedback is not None:
                    noted = self.feedback.add(packet[at] << 8 | packet[at + 1], now)
                payload = packet[end:]
            elif first == 0x80:
                payload = packet[12:]
            else:
                payload, level = self._read_slowly(packet, now)
                noted = True
        except (Discard, struct.error) as error:
            self._discard(error)
            return True
        return (
            route.receiver.receive(
                sequence, timestamp, second > 0x7F, second & 0x7F, payload, level, now
            )
            or noted
        )

    def _relearn(self, packet: bytes, ssrc: int, route: Route, now: float) -> Route:
        """The block has a new shape: read it with care, and remember it."""
        end = payload_bounds(packet)[0]
        layout = learn_layout(self._ids, packet, end)
        mid = self._mid(packet, end)
        if mid is not None and self._by_mid.get(mid) is not route.receiver:
            # RFC 8843 section 9.2: a mid outweighs what we believed of the SSRC
            receiver, before = self._section(mid), route.receiver
            before.end_source("moved to another section", now)
            route = self._bind(ssrc, receiver, now)
            route.heard_at = now
        route.layout_end = end
        route.mask, route.pattern = layout.mask, layout.pattern
        route.level_at, route.sequence_at = layout.level_at, layout.sequence_at
        return route

    def _read_slowly(self, packet: bytes, now: float) -> tuple[bytes, int | None]:
        """CSRCs, padding, or a version that is not 2."""
        if packet[0] >> 6 != 2:
            raise Discard(RtpDiscard.VERSION)
        start, end = payload_bounds(packet)
        level = None
        if packet[0] & 0x10:
            head = HEADER_LENGTH + 4 * (packet[0] & 15)
            profile = int.from_bytes(packet[head : head + 2], "big")
            found = parse_extensions(self._ids, profile, packet[head + 4 : start])
            if found.audio_level is not None:
                level = found.audio_level | (0x80 if found.voice else 0)
            if found.transport_sequence is not None and self.feedback is not None:
                self.feedback.add(found.transport_sequence, now)
        return packet[start:end], level

    def _mid(self, packet: bytes, end: int) -> str | None:
        head = HEADER_LENGTH + 4 * (packet[0] & 15)
        profile = int.from_bytes(packet[head : head + 2], "big")
        return parse_extensions(self._ids, profile, packet[head + 4 : end]).mid

    def _find(self, packet: bytes, ssrc: int, payload_type: int, now: float) -> Route:
        """Decide on a source without a live route. Raises `Discard`."""
        if packet[0] >> 6 != 2:
            raise Discard(RtpDiscard.VERSION)
        if ssrc in self.own_sources:
            self.collision = ssrc
            raise Discard(RtpDiscard.OWN_SOURCE)
        start, _ = payload_bounds(packet)
        mid = self._mid(packet, start) if packet[0] & 0x10 else None
        if mid is None:
            mid = self._hints.get(ssrc)
        route = self._by_ssrc.get(ssrc)
        if mid is not None:
            receiver = self._section(mid)
        elif route is not None:
            receiver = route.receiver
        else:
            receiver = self._by_payload_type(payload_type)
        if route is not None and route.receiver is receiver:
            current = self._by_ssrc.get(receiver.ssrc) if receiver.ssrc is not None else None
            if current is not None and now - current.heard_at < SILENT_AFTER_S:
                raise Discard(RtpDiscard.RETIRED_SOURCE)
        return self._bind(ssrc, receiver, now)

    def _section(self, mid: str) -> AudioReceiver:
        receiver = self._by_mid.get(mid)
        if receiver is None:
            raise Discard(RtpDiscard.UNKNOWN_MID)
        return receiver

    def _by_payload_type(self, payload_type: int) -> AudioReceiver:
        found = [r for r in self._by_mid.values() if payload_type in r.config.payload_kinds]
        if len(found) != 1:
            raise Discard(RtpDiscard.UNKNOWN_SOURCE)
        return found[0]

    def _bind(self, ssrc: int, receiver: AudioReceiver, now: float) -> Route:
        """Make `ssrc` the source that `receiver` hears; an earlier one is kept as retired."""
        while len(self._by_ssrc) >= self._max_sources and ssrc not in self._by_ssrc:
            quietest = min(self._by_ssrc, key=lambda s: self._by_ssrc[s].heard_at)
            del self._by_ssrc[quietest]
        route = Route(receiver)
        self._by_ssrc[ssrc] = self._latest = route
        if receiver.ssrc != ssrc:
            receiver.begin_source(ssrc, now)
        return route

    def _discard(self, error: Exception) -> None:
        reason = error.reason if isinstance(error, Discard) else RtpDiscard.TOO_SHORT
        if isinstance(reason, RtpDiscard):
            self.discards[reason] += 1
