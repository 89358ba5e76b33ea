"""One media section's incoming audio: packets in any order become frames in order, exactly once.

    router ──▶ receive ──┬─ next in order, nothing waiting ───────────────────▶ frames
                         └─ anything else ─▶ judge ─▶ gaps, copies ─▶ reorder ─▶ frames

Sequence rules and statistics are RFC 3550 appendix A, in `reception`; requests for lost packets
RFC 4585; redundancy RFC 2198; digits RFC 4733. `router` and `session` are the callers.
"""

from __future__ import annotations

from warp.contract import Event
from warp.errors import Discard
from warp.names import Counts
from warp.rtp.config import PayloadKind, ReceiverConfig
from warp.rtp.events import SourceBegan, SourceEnded
from warp.rtp.frame import AudioFrame
from warp.rtp.header_extensions import ExtensionMap, iterate_elements
from warp.rtp.media_time import SenderClock
from warp.rtp.nack import NackList
from warp.rtp.packet import RtpDiscard, RtpPacket
from warp.rtp.reception import Place, ReceiverStats, Reception, Tally
from warp.rtp.red import RedBlock, parse_red
from warp.rtp.reorder import Arrival, ReorderBuffer, Unordered
from warp.rtp.rtcp import ReportBlock, SenderReport
from warp.rtp.telephone_event import ToneTracker, parse_telephone_event
from warp.timers import earliest
from warp.trace import Trace

_NO_TYPE = -1
_MANY = 32


class AudioReceiver:
    """Takes the packets of one media section; drained with `frames`, `events`, `nacks_to_send`."""

    __slots__ = (
        "_audio_type",
        "_buffer",
        "_clock",
        "_events",
        "_fast_type",
        "_frames",
        "_nacks",
        "_rate",
        "_reception",
        "_tally",
        "_tones",
        "_trace",
        "config",
        "discards",
        "ssrc",
    )

    def __init__(self, config: ReceiverConfig | None = None, *, trace: Trace | None = None) -> None:
        self.config = config = config or ReceiverConfig()
        self.ssrc: int | None = None
        """The source that is heard; None before its first packet and after its BYE."""
        self.discards: Counts[RtpDiscard] = Counts()
        self._rate = config.clock_rate
        self._trace = trace
        self._frames: list[AudioFrame] = []
        self._events: list[Event] = []
        self._reception = Reception()
        self._tally = Tally()
        self._buffer: ReorderBuffer | Unordered = (
            ReorderBuffer(config.reorder_wait_s, config.reorder_capacity)
            if config.in_order
            else Unordered(config.reorder_capacity)
        )
        self._nacks = NackList(config.nack_capacity, config.nack_limit) if config.nack else None
        self._tones: ToneTracker | None = None
        self._clock = SenderClock(config.clock_rate)
        self._audio_type = _NO_TYPE
        """The audio payload type heard last."""
        self._fast_type = _NO_TYPE
        """The same while nothing waits behind a gap; no type leads the next packet to the careful
        path. What says so elsewhere would be one more thing to look at for each packet."""

    # -- packets -----------------------------------------------------------------------------

    def receive(
        self,
        sequence: int,
        timestamp: int,
        marker: bool,
        payload_type: int,
        payload: bytes,
        level: int | None,
        now: float,
    ) -> bool:
        """Take in one packet of the source; header fields as on the wire (the hot path).

        `level` is the byte of the audio level extension (RFC 6464), or None. Returns whether
        it did more than append a frame, or frames pile up.
        """
        reception = self._reception
        highest = reception.highest
        if (sequence - highest) & 0xFFFF == 1 and payload_type == self._fast_type and payload:
            reception.highest = highest = highest + 1
            last = reception.timestamp
            ahead = (timestamp - last) & 0xFFFFFFFF
            last += ahead if ahead < 0x80000000 else ahead - 0x100000000
            reception.timestamp = last
            transit = now * self._rate - last
            change = transit - reception.transit
            reception.transit = transit
            jitter = reception.jitter
            reception.jitter = jitter + ((change if change > 0 else -change) - jitter) * 0.0625
            reception.octets += len(payload)
            frames = self._frames
            frames.append(AudioFrame(payload, last, highest, marker, payload_type, level, now))
            return len(frames) >= _MANY
        self._receive_carefully(
            AudioFrame(payload, timestamp, sequence, marker, payload_type, level, now)
        )
        return True

    def receive_packet(
        self, packet: RtpPacket, now: float, extensions: ExtensionMap | None = None
    ) -> None:
        """Take in one parsed packet; for callers that do without a router."""
        level = None
        if extensions is not None and extensions.audio_level:
            try:
                for number, start, end in iterate_elements(
                    packet.extension_profile, packet.extension
                ):
                    if number == extensions.audio_level and end - start == 1:
                        level = packet.extension[start]
            except Discard as discard:
                self._discard(discard, now)
                return
        if self.ssrc != packet.ssrc:
            self.begin_source(packet.ssrc, now)
        self.receive(
            packet.sequence, packet.timestamp, packet.marker, packet.payload_type,
            packet.payload, level, now,
        )  # fmt: skip

    def begin_source(self, ssrc: int, now: float) -> None:
        """Listen to another source from now on; what waits is handed over first."""
        self._end_stretch(now)
        previous, self.ssrc = self.ssrc, ssrc
        self._tally = Tally()
        self._clock = SenderClock(self._rate)
        self._events.append(SourceBegan(self.config.mid, ssrc, previous))
        if self._trace is not None:
            self._trace.emit(now, "rtp:source_began", {"ssrc": ssrc, "mid": self.config.mid})

    def end_source(self, reason: str, now: float) -> None:
        """Take in the peer's BYE for the source (RFC 3550 section 6.6)."""
        if self.ssrc is None:
            return
        self._end_stretch(now)
        if self._tones is not None:
            self._events += self._tones.finish()
        self._events.append(SourceEnded(self.config.mid, self.ssrc, reason))
        if self._trace is not None:
            self._trace.emit(now, "rtp:source_ended", {"ssrc": self.ssrc, "reason": reason})
        self.ssrc = None

    def _receive_carefully(self, frame: AudioFrame) -> None:
        """Everything that is not simply next. `frame` still has the numbers of the wire."""
        now = frame.received_at
        kind = self.config.payload_kinds.get(frame.payload_type)
        older: list[RedBlock] = []
        try:
            if kind is PayloadKind.RED and frame.payload:
                older = parse_red(frame.payload)
                primary = older.pop()
                frame.payload_type, frame.payload = primary.payload_type, primary.payload
                kind = self.config.payload_kinds.get(frame.payload_type)
            # padding alone, of any type, only keeps its place: libwebrtc probes the path with it
            if kind is None or (kind is PayloadKind.RED and frame.payload):
                # ignored (RFC 3550 section 5.1), but its place in the order is known
                self._discard(Discard(RtpDiscard.UNKNOWN_PAYLOAD_TYPE), now)
                if not self._reception.packets:
                    return
            first = self._reception.packets == 0
            if not self._place(frame):
                return
        except Discard as discard:
            self._discard(discard, now)
            return
        if not first:
            place = frame.sequence
            for block in reversed(older):
                place = self._recover(frame, place - 1, block)
        if self._buffer.insert(frame) is Arrival.KEPT:
            self._deliver(self._buffer.take(now))
        else:
            self._tally.duplicates += 1
        self._choose_path()

    def _choose_path(self) -> None:
        """Whether the next packet may take the short way: the buffer has changed."""
        self._fast_type = _NO_TYPE if self._buffer.entries else self._audio_type

    def _place(self, frame: AudioFrame) -> bool:
        """Count the packet and extend its numbers; False when nobody waits for it any more.

        Raises `Discard(SEQUENCE_JUMP)`.
        """
        reception, nacks, now = self._reception, self._nacks, frame.received_at
        arrival = now * self._rate
        if not reception.packets:
            # a stretch that ended left its numbers behind (`_end_stretch`)
            reception.begin(frame.sequence, frame.timestamp, arrival, again=reception.base >= 0)
        place = reception.judge(frame.sequence)
        if place is Place.JUMPED:
            raise Discard(RtpDiscard.SEQUENCE_JUMP)
        if place is Place.RESTARTED:
            self._end_stretch(now)
            reception.begin(frame.sequence, frame.timestamp, arrival, again=True)
        reception.count(frame)
        buffer = self._buffer
        if not buffer.entries:
            buffer.begin(reception.highest + 1, reception.timestamp)
        if place is Place.BEHIND:
            reception.extend(frame)
            if nacks is not None and nacks.receive(frame.sequence):
                self._tally.repaired += 1
            if buffer.awaits(frame.sequence) or frame.sequence in buffer.entries:
                return True
            if buffer.judge_late(frame.sequence) is Arrival.LATE:
                self._tally.late += 1
            else:
                self._tally.duplicates += 1
            return False
        missing = reception.highest + 1
        reception.advance(frame, arrival)
        if frame.sequence > missing and nacks is not None:
            nacks.add_gap(missing, frame.sequence, now)
        return True

    def _recover(self, frame: AudioFrame, place: int, block: RedBlock) -> int:
        """Fill a place before `frame` with what RFC 2198 carried of it; returns the place.

        That is `place`, or one before the packets of padding that lie between.
        """
        buffer = self._buffer
        entries = buffer.entries
        while (held := entries.get(place)) is not None and not held.payload:
            place -= 1
        timestamp = frame.timestamp - block.offset
        if (
            not block.payload
            or not block.offset
            or not buffer.awaits(place)
            or timestamp <= buffer.heard  # what is missing there was padding
            or self.config.payload_kinds.get(block.payload_type) is not PayloadKind.AUDIO
        ):
            return place
        buffer.insert(
            AudioFrame(block.payload, timestamp, place, False, block.payload_type, None,
                       frame.received_at)
        )  # fmt: skip
        self._tally.recovered += 1
        if self._nacks is not None:
            self._nacks.receive(place)
        return place

    def _deliver(self, frames: list[AudioFrame]) -> None:
        """Hand frames over in order; telephone events become events."""
        kinds = self.config.payload_kinds
        for frame in frames:
            if frame.payload is None:
                self._tally.gaps += 1
                self._tally.given_up += frame.lost
                self._frames.append(frame)
                continue
            if not frame.payload:
                continue
            kind = kinds.get(frame.payload_type)
            if kind is PayloadKind.AUDIO:
                self._audio_type = frame.payload_type
                self._frames.append(frame)
            elif kind is PayloadKind.TELEPHONE_EVENT:
                self._receive_tone(frame.timestamp, frame.payload, frame.received_at)
        if self._nacks is not None and frames:
            self._nacks.forget_before(frames[-1].sequence + 1 - self._buffer.still_wanted)

    def _receive_tone(self, timestamp: int, payload: bytes, now: float) -> None:
        try:
            event = parse_telephone_event(payload)
        except Discard as discard:
            self._discard(discard, now)
            return
        if self._tones is None:
            self._tones = ToneTracker()
        self._events += self._tones.receive(timestamp, event)

    def _end_stretch(self, now: float) -> None:
        """Hand over what waits, and mark that what follows does not continue it."""
        self._deliver(self._buffer.flush())
        self._buffer.forget()
        if self._nacks is not None:
            self._nacks.clear()
        reception = self._reception
        if reception.packets:
            self._frames.append(
                AudioFrame(None, reception.timestamp, reception.highest + 1, False,
                           max(self._audio_type, 0), None, now)
            )  # fmt: skip
        reception.end()
        self._audio_type = self._fast_type = _NO_TYPE

    def _discard(self, discard: Discard, now: float) -> None:
        reason = discard.reason
        if isinstance(reason, RtpDiscard):
            self.discards[reason] += 1
        if self._trace is not None:
            self._trace.emit(now, "rtp:packet_discarded", {"reason": reason.name})

    # -- draining and reports ------------------------------------------------------------------

    def frames(self) -> list[AudioFrame]:
        """Drain the frames that are in order, gap frames among them."""
        out = self._frames
        if not out:
            return []  # not ours, which goes on growing
        self._frames = []
        return out

    def events(self) -> list[Event]:
        """Drain what has happened, in order."""
        out = self._events
        if out:
            self._events = []
        return out

    def get_timer(self) -> float | None:
        """Return when a gap is given up or a lost packet asked for, or None. Pure."""
        deadline, nacks = self._buffer.deadline, self._nacks
        if nacks is None or nacks.deadline is None:
            return deadline
        return earliest(deadline, nacks.deadline)

    def handle_timer(self, now: float) -> None:
        """Give up gaps that have waited long enough; queue requests that are due."""
        if self._buffer.deadline is not None and self._buffer.deadline <= now:
            self._deliver(self._buffer.take(now))
            self._choose_path()
        nacks = self._nacks
        if nacks is not None and nacks.deadline is not None:
            nacks.handle_timer(now)

    def nacks_to_send(self, now: float) -> list[int]:
        """Drain the sequence numbers (16 bits) to ask for again."""
        return [] if self._nacks is None else self._nacks.take(now)

    def set_rtt(self, rtt_s: float) -> None:
        """Tell the smoothed round trip, which paces repeated requests."""
        if self._nacks is not None:
            self._nacks.rtt_s = rtt_s

    def receive_sender_report(self, report: SenderReport, now: float) -> None:
        """Take in the peer's clock mapping; it is echoed in our next report block."""
        self._clock.receive_report(report.ntp, report.rtp_timestamp, now)

    def report_block(self, now: float) -> ReportBlock | None:
        """Return the block for the next report, or None when nothing has been heard."""
        if self.ssrc is None or not self._reception.packets:
            return None
        clock = self._clock
        return self._reception.report_block(
            self.ssrc, clock.last_report, clock.delay_since_report(now)
        )

    def wall_time(self, timestamp: int) -> float | None:
        """Return when the peer sampled `timestamp`, on its wall clock; None before its report."""
        return self._clock.wall_time(timestamp)

    @property
    def stats(self) -> ReceiverStats:
        """Figures of the present source."""
        reception, tally = self._reception, self._tally
        return ReceiverStats(
            reception.packets, reception.octets, reception.lost, reception.jitter / self._rate,
            tally.duplicates, tally.late, tally.gaps, tally.given_up, tally.recovered,
            tally.repaired,
        )  # fmt: skip
