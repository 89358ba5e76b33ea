"""The jitter buffer: packets of one source in any order become media time without a hole.

    insert ──▶ late? a copy? a leap? ──▶ packets by timestamp ──▶ take, as often as the player needs
       └─▶ DelayMeter ─▶ target delay ─▶ advise: how far playout lies from the target

    next packet begins at the position ───────────────▶ PLAY
    behind a gap: numbers missing, it has redundancy ─▶ RECOVER (it stays, and is played next)
                  numbers missing                    ─▶ CONCEAL
                  none missing: DTX (RFC 6716 2.1.9) ─▶ COMFORT, shorter or longer as advised
    no packet at all ─────────────────────────────────▶ CONCEAL or COMFORT, and time stands still:
                  if the packet only is late, it is played, and the delay has grown; if it is
                  lost, what was concealed counts (RFC 3550 has no rule; this is what players do)

Delay is measured from the arrival that the fastest packets have: a packet that is played `delay`
after that may have been late by so much. The wanted delay is the 95th percentile of what packets
are late by, plus one frame of the player's. Called by a player that owes a frame each 10 or 20 ms;
Opus, 8 to 48 kHz clocks. Nothing here decodes.
"""

from __future__ import annotations

from typing import Final

from warp.rtp.delay import DelayMeter
from warp.rtp.numbering import BufferedPacket, Numbering
from warp.rtp.opus import CLOCK_RATE, FRAME_SAMPLES, has_fec, is_dtx, packet_samples
from warp.rtp.playout import Action, JitterConfig, JitterCounts, Placing, Step

UNIT: Final = 120
"""2.5 ms: concealment and redundancy come in multiples of it (RFC 6716 section 2.1.4)."""
_LEAP_S = 2.0
_DECAY_S = 1.0
_LOSSY = 0.003
_VERY_LOSSY = 0.02
"""Shares of lost packets above which redundancy is waited for, on a calm path and on any."""
_LATE_RUN = 5
"""So many packets too late, with none in between that was not, are believed."""
_NUDGE = 240
_TOO_FAR = 480
_TOO_CLOSE = 360
"""How far from the wanted delay, in ticks, nothing is done about it: each change is heard."""


class JitterBuffer:
    """Packets of one source, by media time; nothing leaves twice and nothing piles up."""

    __slots__ = (
        "_bounds",
        "_fec",
        "_late_run",
        "_loss",
        "_meter",
        "_numbers",
        "_pace",
        "_packets",
        "_quiet",
        "_stalled",
        "_taken_at",
        "config",
        "counts",
        "position",
        "target",
    )

    def __init__(self, config: JitterConfig | None = None) -> None:
        self.config = config = config or JitterConfig()
        self.counts = JitterCounts()
        self.target = _ticks(config.start_delay_s)
        """The wanted delay, in ticks of 48 kHz."""
        self.position: int | None = None
        """Media time up to which steps were taken; None before the first packet is due."""
        self._bounds = _ticks(config.min_delay_s), _ticks(config.max_delay_s)
        self._meter = DelayMeter(config.window_s, config.quantile)
        self._numbers = Numbering(2 * config.capacity)
        self._packets: dict[int, BufferedPacket] = {}
        self._stalled = 0
        self._quiet = True
        self._fec = 0
        """Ticks that a packet of the source lasts, when it carries redundancy."""
        self._loss = 0.0
        self._pace = 0
        self._late_run = 0
        self._taken_at = float("-inf")

    def __len__(self) -> int:
        return len(self._packets)

    # -- in ------------------------------------------------------------------------------------

    def insert(self, payload: bytes, sequence: int, timestamp: int, now: float) -> Placing:
        """Take in one packet that came at `now`; numbers of the wire, or extended.

        What came before steps were taken last, and is given only now, counts as come then.
        """
        now = max(now, self._taken_at)
        counts = self.counts
        counts.received += 1
        ticks = packet_samples(payload)
        if not ticks:
            counts.refused += 1
            return Placing.REFUSED
        numbers = self._numbers
        if not self._meter.known:
            numbers.begin(sequence, timestamp)
        sequence, timestamp = numbers.extend(sequence, timestamp)
        transit = _ticks(now) - timestamp
        if self._meter.known and abs(transit - self._meter.base) > _ticks(_LEAP_S):
            # one is an error or a forgery; two that agree are a source that began anew
            if numbers.suspect is None or abs(transit - numbers.suspect) > _ticks(_LEAP_S) // 4:
                numbers.suspect = transit
                counts.leapt += 1
                return Placing.LEAPT
            self.restart()
            numbers.begin(sequence, timestamp)
        numbers.suspect = None
        return self._place(BufferedPacket(sequence, payload, ticks), timestamp, transit, now)

    def _place(self, packet: BufferedPacket, timestamp: int, transit: int, now: float) -> Placing:
        counts, numbers, position = self.counts, self._numbers, self.position
        copy = timestamp in self._packets or numbers.was_played(timestamp)
        overtaken = timestamp < numbers.heard_at
        if numbers.turned_back(packet.sequence, copy or overtaken):
            # its numbers go on and its time does not: the source's clock was set back
            self.restart()
            numbers.begin(packet.sequence, timestamp)
            position, copy, overtaken = None, False, False
        if copy:
            counts.duplicates += 1
            return Placing.DUPLICATE
        if packet.sequence > numbers.highest:
            numbers.highest, numbers.latest = packet.sequence, max(numbers.latest, timestamp)
        elif packet.sequence < numbers.highest:
            counts.reordered += 1
        late = overtaken or (position is not None and timestamp + packet.ticks <= position)
        # in a pause nobody waits
        due = self._stalled > 0 and not self._quiet and packet.sequence <= numbers.heard + 1
        self._measure(transit, now, waited_for=late or due)
        if late:
            counts.late += 1
            self._late_run += not overtaken
            if overtaken or self._late_run < _LATE_RUN or self._packets:
                return Placing.LATE
            # the way has become longer for good, or stood still: what it was like is no measure
            self._forget_delay()
            self._meter.add(transit, now)
        self._late_run = 0
        self._packets[timestamp] = packet
        if len(self._packets) > self.config.capacity:
            del self._packets[min(self._packets)]
            counts.overflowed += 1
        return Placing.KEPT

    def _measure(self, transit: int, now: float, *, waited_for: bool) -> None:
        """Move the wanted delay: up at once, down slowly."""
        meter = self._meter
        passed = meter.add(transit, now)
        frame = _ticks(self.config.frame_s)
        low, high = self._bounds
        wanted = meter.spread + frame
        if self._fec and self._loss > _LOSSY:
            # redundancy is of use only if the packet behind the lost one is there in time
            if self._loss > _VERY_LOSSY:
                wanted += self._fec
            low = min(low + self._fec, high)
        wanted = min(max(wanted, low), high)
        if waited_for:
            needed = min(transit - meter.base + frame, high)
            # at least a little: what hands packets over may take time that nobody tells us
            more = max((needed - self.target) // 2, _NUDGE)
            wanted = max(wanted, min(self.target + more, high))
        if wanted < self.target:
            wanted = max(wanted, int(self.target - (self.target - wanted) * passed / _DECAY_S))
        self.target = wanted

    def restart(self) -> None:
        """Begin anew with the next packet; the wanted delay stays, packets that wait go."""
        self._packets.clear()
        self._forget_delay()
        self._quiet = True
        self._numbers.suspect = None
        self.counts.restarts += 1

    def _forget_delay(self) -> None:
        self._meter.clear()
        self.position = None
        self._stalled = self._late_run = self._pace = 0

    # -- out -----------------------------------------------------------------------------------

    def delay(self, now: float, held: int = 0) -> int:
        """Return by how much playout is behind the fastest packets, in ticks.

        `held` is what the player has taken and not played yet.
        """
        if self.position is None:
            return 0
        return _ticks(now) - self.position + held - self._meter.base

    def advise(self, now: float, held: int = 0) -> int:
        """Return by how many ticks playout is too far behind (negative: too close); 0: near enough.

        Once a frame, before its steps are taken. Media beyond the ceiling is left out here.
        """
        self._taken_at = now
        if self.position is None:
            return 0
        self._keep_below_ceiling(now, held)
        excess = self.delay(now, held) - self.target
        if self._pace > 0:
            stays = excess > UNIT
        elif self._pace < 0:
            stays = excess < 0
        else:
            stays = not -_TOO_CLOSE <= excess <= _TOO_FAR
        self._pace = (1 if excess > 0 else -1) if stays else 0
        return excess if stays else 0

    def _keep_below_ceiling(self, now: float, held: int) -> None:
        """Move on past media that has become too old."""
        over = self.delay(now, held) - _ticks(self.config.ceiling_s)
        if over <= 0:
            return
        ticks = -(-over // UNIT) * UNIT
        position = self.position = (self.position or 0) + ticks
        packets = self._packets
        if packets:
            self.counts.skipped_ms += ticks * 1000 / CLOCK_RATE
        for timestamp in sorted(packets):
            packet = packets[timestamp]
            if timestamp + packet.ticks > position:
                break
            del packets[timestamp]
            self._numbers.play(packet, timestamp)

    @property
    def ready(self) -> bool:
        """Whether the next step would be PLAY."""
        return bool(self._packets) and min(self._packets) <= (self.position or 0)

    def take(self, want: int, now: float, held: int = 0) -> Step:
        """Return the next step: a whole packet, or up to `want` ticks of something else.

        `want` is rounded up to 2.5 ms. Call it until the player has a frame.
        """
        self._taken_at = now
        want = -(-max(want, 1) // UNIT) * UNIT
        packets = self._packets
        if self.position is None:
            if not packets:
                return self._make_up(Action.COMFORT, want)
            self._start(now)
        while packets:
            timestamp = min(packets)
            packet = packets[timestamp]
            gap = timestamp - (self.position or 0)
            if gap > 0:
                gap = self._pass_over(gap, packet, now, held)
            if gap > 0:
                return self._bridge(gap, want, packet, now, held)
            del packets[timestamp]
            if gap + packet.ticks >= UNIT:
                return self._play(packet, timestamp, -gap)
            # a longer packet has covered its time, but for less than can be told from none:
            # long packets a tick apart would each be decoded for that tick
            self.counts.late += 1
        return self._stall(want)

    def _start(self, now: float) -> None:
        """Put the first packet as far ahead as it has to wait."""
        first = min(self._packets)
        early = first - (_ticks(now) - self._meter.base - self.target)
        self.position = first - max(early, 0) // UNIT * UNIT
        self._keep_below_ceiling(now, 0)

    def _pass_over(self, gap: int, packet: BufferedPacket, now: float, held: int) -> int:
        """Shorten a gap by what was made up in its place, or may be left out; returns the rest."""
        missing = packet.sequence - self._numbers.heard - 1
        if missing > 0:
            self._fec = packet.ticks if has_fec(packet.payload) else 0
        skip = 0
        if missing <= 0 or self._quiet:
            # what follows a pause begins with the wanted delay
            skip = max(self.delay(now, held) - self.target, 0)
        elif self._stalled:
            skip = max(self.delay(now, held) - self.target, self._stalled)
        self._stalled = 0
        skip = min(gap, skip // UNIT * UNIT) if gap - skip >= UNIT else gap
        if skip <= 0:
            return gap
        self.position = (self.position or 0) + skip
        return gap - skip

    def _bridge(self, gap: int, want: int, packet: BufferedPacket, now: float, held: int) -> Step:
        """Fill the way to the next packet."""
        position = self.position or 0
        silent = self._quiet
        if packet.sequence - self._numbers.heard <= 1:
            silent = True
        elif self._fec:
            cover = FRAME_SAMPLES[packet.payload[0] >> 3]
            if gap <= cover:
                self.position = position + gap
                self.counts.recovered += 1
                return Step(Action.RECOVER, gap, packet.payload)
            gap -= cover
        ticks = min(gap, want)
        if not silent:
            self.position = position + ticks
            return self._make_up(Action.CONCEAL, ticks)
        # a pause costs nothing to prolong
        wanting = min(max(self.target - self.delay(now, held), 0), ticks) // UNIT * UNIT
        self.position = position + ticks - wanting
        return self._make_up(Action.COMFORT, ticks)

    def _play(self, packet: BufferedPacket, timestamp: int, skip: int) -> Step:
        missing = self._numbers.play(packet, timestamp)
        counts = self.counts
        counts.played += 1
        counts.lost += missing
        self._loss += ((1.0 if missing else 0.0) - self._loss) / 256
        self._quiet = is_dtx(packet.payload)
        self._stalled = 0
        self.position = timestamp + packet.ticks
        return Step(Action.PLAY, packet.ticks - skip, packet.payload, skip)

    def _stall(self, want: int) -> Step:
        """Nothing is there: the next packet is late, lost, or not sent."""
        if not self._stalled and not self._quiet:
            self.counts.stalls += 1
        self._stalled += want
        if self._stalled > _ticks(self.config.ceiling_s):
            self._quiet = True
        return self._make_up(Action.COMFORT if self._quiet else Action.CONCEAL, want)

    def _make_up(self, action: Action, ticks: int) -> Step:
        if action is Action.CONCEAL:
            self.counts.concealed_ms += ticks * 1000 / CLOCK_RATE
        else:
            self.counts.comfort_ms += ticks * 1000 / CLOCK_RATE
        return Step(action, ticks)

    @property
    def target_s(self) -> float:
        """The wanted delay in seconds."""
        return self.target / CLOCK_RATE

    @property
    def drift_ppm(self) -> float | None:
        """By how much the peer's clock runs fast (negative: slow), or None so far."""
        return self._meter.drift_ppm(CLOCK_RATE)


def _ticks(seconds: float) -> int:
    return int(seconds * CLOCK_RATE)
