"""Opus in the RTP of a capture, one Ogg file for each source and direction.

    RTP in the clear ─▶ by connection, side, SSRC ─▶ is it Opus? ─▶ in order ─▶ gaps filled ─▶ Ogg

A capture has no description that would say which payload type is Opus. The packets do: the time
that an Opus packet says it lasts is the step of the timestamps (RFC 7587 section 4.1). Redundant
audio (RFC 2198) is told the same way. Called by `run`.
"""

from __future__ import annotations

import enum
import heapq
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from warp.errors import Discard
from warp.rtp import parse_red, parse_rtp
from warp.rtp.opus import CLOCK_RATE, is_dtx, packet_samples, parse_opus
from warp.rtp.packet import RtpPacket
from warp.serial import extend16, extend32
from warp_tools.decrypt.ogg import OggOpusWriter
from warp_tools.decrypt.plain import SIDES, Plain
from warp_tools.failure import CommandRefused, ToolFailure

MAX_STREAMS: Final = 1024
MAX_TYPES: Final = 8
WINDOW_PACKETS: Final = 16
"""How far a packet may be overtaken: 320 ms of one voice."""
UNDECIDED_PACKETS: Final = 64
_EVIDENCE: Final = 3
_ENOUGH: Final = 16
_SLACK_SAMPLES: Final = CLOCK_RATE
_LONGEST_GAP: Final = 3600 * CLOCK_RATE


class Coding(enum.Enum):
    """What the packets of one payload type are."""

    UNDECIDED = "undecided"
    OPUS = "opus"
    RED = "opus in redundant audio"
    OTHER = "something else"


class Frame(NamedTuple):
    """One Opus packet of a stream; the first two are extended, and order it."""

    sequence: int
    timestamp: int
    time_ns: int
    payload: bytes


def _opus(payload: bytes) -> bytes | None:
    try:
        parse_opus(payload)
    except Discard:
        return None
    return payload


def _red(payload: bytes) -> bytes | None:
    try:
        return _opus(parse_red(payload)[-1].payload)
    except Discard:
        return None


_UNWRAP: Final = {Coding.OPUS: _opus, Coding.RED: _red}


class PayloadType:
    """Finds out what one payload type of a source is."""

    __slots__ = ("_for", "_last", "_pairs", "coding")

    def __init__(self) -> None:
        self.coding = Coding.UNDECIDED
        self._last: RtpPacket | None = None
        self._for = dict.fromkeys(_UNWRAP, 0)
        self._pairs = 0

    def weigh(self, packet: RtpPacket) -> None:
        """Take a packet as evidence, together with the one in front of it."""
        last, self._last = self._last, packet
        if last is None or (packet.sequence - last.sequence) & 0xFFFF != 1:
            return
        step = (packet.timestamp - last.timestamp) & 0xFFFF_FFFF
        self._pairs += 1
        for coding, unwrap in _UNWRAP.items():
            payload = unwrap(last.payload)
            if payload is not None and unwrap(packet.payload) is not None:
                lasts = packet_samples(payload)
                # where an encoder pauses (DTX), the next packet comes later
                self._for[coding] += step == lasts or (is_dtx(payload) and lasts < step)
        if max(self._for.values()) >= _EVIDENCE or self._pairs >= _ENOUGH:
            self.decide()

    def decide(self) -> None:
        """Settle it with what is known."""
        coding, count = max(self._for.items(), key=lambda item: item[1])
        settled = count > 0 and 2 * count >= self._pairs
        self.coding = coding if settled else Coding.OTHER


class Stream:
    """One source: its packets in order, and its file."""

    __slots__ = (
        "_early",
        "_last_ns",
        "_newest",
        "_next",
        "_path",
        "_title",
        "_types",
        "_waiting",
        "begins_ns",
        "concealed",
        "late",
        "paused",
        "writer",
    )

    def __init__(self, path: Path, title: str) -> None:
        self._path = path
        self._title = title
        self._types: dict[int, PayloadType] = {}
        self._early: list[tuple[RtpPacket, int]] = []
        self._waiting: list[Frame] = []
        self._newest: Frame | None = None
        self._next: tuple[int, int] | None = None
        """Sequence number and timestamp that would come next."""
        self._last_ns = 0
        self.begins_ns = 0
        self.concealed = 0
        """Samples that stand in for packets which are not there."""
        self.paused = 0
        """Samples of silence where none were sent: the timestamps go on, the numbers do not."""
        self.late = 0
        self.writer: OggOpusWriter | None = None

    def receive(self, packet: RtpPacket, time_ns: int) -> None:
        """Take in a packet."""
        kind = self._types.get(packet.payload_type)
        if kind is None:
            if len(self._types) >= MAX_TYPES:
                return
            kind = self._types[packet.payload_type] = PayloadType()
        if kind.coding is Coding.UNDECIDED:
            kind.weigh(packet)
        if kind.coding is Coding.UNDECIDED:
            if len(self._early) >= UNDECIDED_PACKETS:
                kind.coding = Coding.OTHER
                return
            self._early.append((packet, time_ns))
        else:
            self._release(packet.payload_type)
            self._queue(packet, time_ns, kind.coding)

    def close(self) -> None:
        """Write what is left; afterwards nothing more comes."""
        for number, kind in self._types.items():
            if kind.coding is Coding.UNDECIDED:
                kind.decide()
            self._release(number)
        while self._waiting:
            self._write(heapq.heappop(self._waiting))
        if self.writer is not None:
            self.writer.close()

    def _release(self, payload_type: int) -> None:
        early = [one for one in self._early if one[0].payload_type == payload_type]
        if early:
            self._early = [one for one in self._early if one[0].payload_type != payload_type]
            for packet, time_ns in early:
                self._queue(packet, time_ns, self._types[payload_type].coding)

    def _queue(self, packet: RtpPacket, time_ns: int, coding: Coding) -> None:
        unwrap = _UNWRAP.get(coding)
        payload = unwrap(packet.payload) if unwrap is not None else None
        if payload is None:
            return
        newest = self._newest
        frame = Frame(
            extend16(packet.sequence, newest.sequence if newest else packet.sequence + 0x10000),
            extend32(packet.timestamp, newest.timestamp if newest else packet.timestamp),
            time_ns,
            payload,
        )
        if newest is None or frame.sequence > newest.sequence:
            self._newest = frame
        heapq.heappush(self._waiting, frame)
        while len(self._waiting) > WINDOW_PACKETS:
            self._write(heapq.heappop(self._waiting))

    def _write(self, frame: Frame) -> None:
        if self._next is not None and frame.sequence < self._next[0]:
            self.late += 1
            return
        writer = self.writer
        if writer is None:
            stereo = any(one.payload[0] & 4 for one in (frame, *self._waiting))
            writer = self.writer = OggOpusWriter(
                self._path,
                channels=2 if stereo else 1,
                serial=crc32(self._title.encode()),
                title=self._title,
            )
            self.begins_ns = frame.time_ns
        elif self._next is not None:
            gap = frame.timestamp - self._next[1]
            # no longer than it took, or a jump of the timestamps would make hours of silence
            passed = max(frame.time_ns - self._last_ns, 0) * CLOCK_RATE // 1_000_000_000
            gap = min(gap, passed + _SLACK_SAMPLES, _LONGEST_GAP)
            if gap > 0:
                filled = writer.conceal(frame.payload[0], gap)
                if frame.sequence == self._next[0]:
                    self.paused += filled
                else:
                    self.concealed += filled
        writer.write(frame.payload)
        self._next = (frame.sequence + 1, frame.timestamp + packet_samples(frame.payload))
        self._last_ns = frame.time_ns


class AudioFiles:
    """All the audio of a capture. Raises ToolFailure when a file cannot be written."""

    __slots__ = ("_base", "overflow", "streams")

    def __init__(self, base: Path) -> None:
        if not base.parent.is_dir() or base.is_dir():
            raise CommandRefused(f"cannot write {base}: it is no file in a directory that exists")
        self._base = base
        self.streams: dict[tuple[int, str, int], Stream] = {}
        self.overflow = 0
        """Packets of sources beyond the limit."""

    def receive(self, plain: Plain) -> None:
        """Take in an RTP packet."""
        if plain.role is None:
            return
        try:
            packet = parse_rtp(plain.data)
        except Discard:
            return
        key = (plain.connection, SIDES[plain.role], packet.ssrc)
        stream = self.streams.get(key)
        if stream is None:
            if len(self.streams) >= MAX_STREAMS:
                self.overflow += 1
                return
            number, side, ssrc = key
            base = self._base
            path = base.with_name(f"{base.stem}-{number}-{side}-{ssrc:08x}{base.suffix or '.ogg'}")
            title = f"connection {number}, {side}, SSRC {ssrc:08x}"
            stream = self.streams[key] = Stream(path, title)
        try:
            stream.receive(packet, plain.datagram.time_ns)
        except OSError as error:
            raise ToolFailure(f"cannot write {error.filename}: {error.strerror}") from error

    def close(self) -> None:
        """Finish every file."""
        for stream in self.streams.values():
            try:
                stream.close()
            except OSError as error:
                raise ToolFailure(f"cannot write {error.filename}: {error.strerror}") from error
