"""One media section's outgoing audio: frames become RTP packets (RFC 3550 section 5.1).

    packetize ──▶ header from a template ──▶ packet ──▶ SRTP
                                        └──▶ history (answers NACKs, RFC 4585 section 6.2.1)

The header of a call changes in four places only, so it is one `struct` call. `session` adds the
reports; `warp.peer` protects and sends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from warp.entropy import Entropy, random_u32
from warp.errors import InvalidConfig, MessageTooLarge
from warp.rtp.config import SenderConfig
from warp.rtp.header_extensions import ExtensionMap, build_extensions
from warp.rtp.media_time import ntp_from_wall, ntp_middle, round_trip
from warp.rtp.packet import HEADER
from warp.rtp.rtcp import ReportBlock, SenderReport

_STARTS = struct.Struct("!II")  # sequence number, timestamp
_REPEAT_PAUSE_S = 0.01
_MAX_REPEATS = 10
_NEVER = (float("-inf"), 0)


class SenderStats(NamedTuple):
    """A snapshot. What the peer reported is None until it has reported."""

    packets: int
    octets: int
    resent: int
    rtt_s: float | None
    fraction_lost: float | None
    cumulative_lost: int | None
    jitter_s: float | None


class LeveledHeader(NamedTuple):
    """A header whose extension block is constant but for the audio level."""

    header: struct.Struct
    before: bytes
    after: bytes


class Headers(NamedTuple):
    """The extension blocks of a sender: without, and (if negotiated) with an audio level."""

    plain: bytes
    leveled: LeveledHeader | None


@lru_cache(maxsize=32)
def _headers(ids: ExtensionMap, mid: str) -> Headers:
    """Lay out the blocks. Raises `InvalidConfig` for a mid that cannot be sent."""
    constant: dict[int, bytes] = {}
    if ids.mid and mid:
        if len(mid) > 255 or not mid.isascii():
            raise InvalidConfig("a mid is a token of at most 255 characters (RFC 8843)")
        constant[ids.mid] = mid.encode("ascii")
    plain = _block(constant) if constant else b""
    if not ids.audio_level:
        return Headers(plain, None)
    block = _block({ids.audio_level: b"\x7f", **constant})
    # the level is the first element: behind the block's header and its own
    at = 5 if block[0] == 0xBE else 6
    header = struct.Struct(f"{HEADER.format}{at}sB{len(block) - at - 1}s")
    return Headers(plain, LeveledHeader(header, block[:at], block[at + 1 :]))


class AudioSender:
    """Numbers, stamps and remembers the packets of one source."""

    __slots__ = (
        "_block",
        "_first_sequence",
        "_history",
        "_last_sent_at",
        "_leveled",
        "_octets",
        "_offset",
        "_repeats",
        "_report",
        "_resent",
        "_rtt_s",
        "_sequence",
        "_timestamp",
        "config",
        "ssrc",
    )

    def __init__(
        self, config: SenderConfig | None = None, *, entropy: Entropy, ssrc: int | None = None
    ) -> None:
        """Begin a source; `ssrc` outweighs the configuration's, and without either one is drawn."""
        self.config = config = config or SenderConfig()
        if ssrc is None:
            ssrc = config.ssrc if config.ssrc is not None else random_u32(entropy, nonzero=True)
        self.ssrc = ssrc
        # RFC 3550 section 5.1: both start at random; the sequence in the lower half, so that no
        # roll-over can be missed before the peer has heard us (RFC 3711 section 3.3.1)
        first, self._offset = _STARTS.unpack(entropy.random_bytes(_STARTS.size))
        self._first_sequence = first & 0x7FFF
        self._sequence = self._first_sequence
        """Of the next packet; counts on beyond 16 bits."""
        self._timestamp = 0
        self._last_sent_at = 0.0
        self._octets = 0
        self._resent = 0
        self._rtt_s: float | None = None
        self._report: ReportBlock | None = None
        self._history: list[bytes] = []
        """The newest packets, each at its number modulo their count; empty until the first."""
        self._repeats: dict[int, tuple[float, int]] = {}
        """When a remembered packet went out again last, and how often."""
        self._block = b""
        self._leveled: LeveledHeader | None = None
        self._prepare(config.mid)

    def packetize(
        self,
        payload: bytes,
        timestamp: int,
        now: float,
        *,
        marker: bool = False,
        audio_level: int | None = None,
    ) -> bytes:
        """Return the RTP packet of one frame (the hot path).

        `timestamp`: media time in ticks from any origin. `marker`: first frame after a silence
        (RFC 3551 section 4.1). `audio_level`: -dBov 0..127, plus 128 if it is voice (RFC 6464).
        Raises `MessageTooLarge`.
        """
        config = self.config
        size = len(payload)
        if size > config.max_payload_bytes:
            raise MessageTooLarge(f"a payload has at most {config.max_payload_bytes} bytes")
        sequence = self._sequence
        self._sequence = sequence + 1
        self._timestamp = timestamp = (timestamp + self._offset) & 0xFFFFFFFF
        self._last_sent_at = now
        self._octets += size
        kind = config.payload_type | (0x80 if marker else 0)
        if audio_level is None or (leveled := self._leveled) is None:
            block = self._block
            header = HEADER.pack(
                0x90 if block else 0x80, kind, sequence & 0xFFFF, timestamp, self.ssrc
            )
            packet = header + block + payload
        else:
            header = leveled.header.pack(
                0x90, kind, sequence & 0xFFFF, timestamp, self.ssrc,
                leveled.before, audio_level & 0xFF, leveled.after,
            )  # fmt: skip
            packet = header + payload
        history = self._history
        if history:
            history[sequence % len(history)] = packet
        elif config.nack_history:
            self._remember(sequence, packet)
        return packet

    def receive_nack(self, sequences: Iterable[int], now: float) -> list[bytes]:
        """Return the packets, among those still remembered, that the peer asks for again.

        A few bytes ask for a whole history, in one datagram many times over: a packet goes out
        again once in 10 ms, and 10 times at most.
        """
        history = self._history
        room = len(history)
        repeats = self._repeats
        if len(repeats) > room:
            oldest = self._sequence - room
            repeats = self._repeats = {n: entry for n, entry in repeats.items() if n >= oldest}
        wanted: set[int] = set()
        for number in sequences:
            back = (self._sequence - number) & 0xFFFF
            sequence = self._sequence - back
            if not 0 < back <= room or not history[sequence % room]:
                continue
            last, count = repeats.get(sequence, _NEVER)
            if count < _MAX_REPEATS and now - last >= _REPEAT_PAUSE_S:
                repeats[sequence] = now, count + 1
                wanted.add(sequence)
        self._resent += len(wanted)
        return [history[sequence % room] for sequence in sorted(wanted)]

    def report(self, now: float, wall_time_s: float) -> SenderReport | None:
        """Return the sender part of a report, or None before the first packet.

        The two clocks are those of this instant (RFC 3550 section 6.4.1).
        """
        packets = self._sequence - self._first_sequence
        if not packets:
            return None
        elapsed = round((now - self._last_sent_at) * self.config.clock_rate)
        return SenderReport(
            self.ssrc, ntp_from_wall(wall_time_s), (self._timestamp + elapsed) & 0xFFFFFFFF,
            packets & 0xFFFFFFFF, self._octets & 0xFFFFFFFF,
        )  # fmt: skip

    def change_source(self, entropy: Entropy) -> None:
        """Draw a new SSRC and go on under it as a new source (RFC 3550 section 8.2)."""
        self.ssrc = random_u32(entropy, nonzero=True)
        self._first_sequence = self._sequence
        self._octets = 0
        self._history = []
        self._repeats = {}
        self._report = None
        self._prepare(self.config.mid)

    def move(self, config: SenderConfig) -> None:
        """Go on in another section: the same source and numbers, and the mid is told anew."""
        self.config = config
        self._report = None
        self._prepare(config.mid)

    def receive_report(self, block: ReportBlock, wall_time_s: float) -> float | None:
        """Take in what the peer says of our stream; return the round trip if it tells one.

        A peer that reports on our SSRC knows which section it belongs to: the mid is no longer
        sent (RFC 8843 section 15.1).
        """
        if self.config.mid and self._report is None:
            self._prepare("")
        self._report = block
        rtt = round_trip(
            ntp_middle(ntp_from_wall(wall_time_s)),
            block.last_sender_report,
            block.delay_since_report,
        )
        if rtt is not None:
            self._rtt_s = rtt
        return rtt

    @property
    def rtt_s(self) -> float | None:
        """The round trip that the newest report shows, in seconds."""
        return self._rtt_s

    @property
    def newest_report(self) -> ReportBlock | None:
        """What the peer said last of our stream; another object each time it says something."""
        return self._report

    @property
    def active_since(self) -> float | None:
        """When the last packet left; None before the first."""
        return self._last_sent_at if self._sequence != self._first_sequence else None

    @property
    def stats(self) -> SenderStats:
        """Counters so far, and the peer's newest report."""
        block = self._report
        return SenderStats(
            self._sequence - self._first_sequence, self._octets, self._resent, self._rtt_s,
            None if block is None else block.fraction_lost / 256,
            None if block is None else block.cumulative_lost,
            None if block is None else block.jitter / self.config.clock_rate,
        )  # fmt: skip

    def _remember(self, sequence: int, packet: bytes) -> None:
        self._history = [b""] * self.config.nack_history
        self._history[sequence % self.config.nack_history] = packet

    def _prepare(self, mid: str) -> None:
        """Take the extension blocks for this mid."""
        self._block, self._leveled = _headers(self.config.extensions, mid)


def _block(elements: dict[int, bytes]) -> bytes:
    profile, block = build_extensions(elements)
    return struct.pack("!HH", profile, len(block) // 4) + block
