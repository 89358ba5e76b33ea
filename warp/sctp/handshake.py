"""The ordinary way in: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 section 5).

Both WebRTC ends send INIT at once (RFC 8841 section 9.3), so each is client and server here. The
association keeps the state; this organ makes and judges the chunks, repeats what is unanswered, and
holds back packets that come before the association exists.

    A  INIT ────────────▶  B       A's half; B's half runs the other way at the same time, and
       ◀──────── INIT ACK          whichever COOKIE ECHO arrives first establishes its receiver
       COOKIE ECHO ─────▶
       ◀────── COOKIE ACK
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import replace
from typing import Final

from warp.crypto import HmacSha256
from warp.entropy import Entropy
from warp.errors import PeerMisbehaved
from warp.sctp.chunks import ChunkType, encode_chunk
from warp.sctp.config import SctpConfig
from warp.sctp.cookie import Cookie, open_cookie, seal_cookie
from warp.sctp.init_chunk import InitChunk, local_init
from warp.sctp.parameters import PADS, ParameterType
from warp.sctp.reasons import SctpRule
from warp.sctp.snap import Agreement, agree

_COOKIE_KEY_SIZE: Final = 32


class CookieMeaning(enum.Enum):
    """What a valid COOKIE ECHO stands for (RFC 9260 section 5.2.4, table 12)."""

    FIRST = "no association yet, or a simultaneous start (case B)"
    AGAIN = "both tags are known: a repetition (case D)"
    RESTART = "the peer has lost its state and starts anew (case A)"
    STALE = "fits nothing that we have (case C)"


class EarlyPackets:
    """Packets that arrived before the association can read them; bounded, the oldest go first."""

    __slots__ = ("_bytes", "_max_bytes", "_max_packets", "_packets")

    def __init__(self, max_packets: int, max_bytes: int) -> None:
        self._packets: deque[bytes] = deque()
        self._bytes = 0
        self._max_packets = max_packets
        self._max_bytes = max_bytes

    def put(self, packet: bytes) -> int:
        """Keep a packet; return how many had to go for it."""
        packets = self._packets
        packets.append(packet)
        self._bytes += len(packet)
        gone = 0
        while packets and (len(packets) > self._max_packets or self._bytes > self._max_bytes):
            self._bytes -= len(packets.popleft())
            gone += 1
        return gone

    def take(self) -> list[bytes]:
        """Drain, in order of arrival."""
        packets = list(self._packets)
        self._packets.clear()
        self._bytes = 0
        return packets


class Handshake:
    """Makes and judges the chunks of association establishment."""

    __slots__ = (
        "_config",
        "_early",
        "_entropy",
        "_key",
        "agreement",
        "attempts",
        "cookie",
        "local",
    )

    def __init__(self, config: SctpConfig, entropy: Entropy) -> None:
        self._config = config
        self._entropy = entropy
        self._key: HmacSha256 | None = None
        self.local: InitChunk | None = None
        """The INIT under whose tag we run, or try to."""
        self.agreement: Agreement | None = None
        """What the peer's INIT ACK, or the association that runs, amounts to."""
        self.cookie: bytes | None = None
        """The peer's cookie while our COOKIE ECHO is unanswered."""
        self.attempts = 0
        self._early: EarlyPackets | None = None

    def keep_early(self, packet: bytes) -> int:
        """Hold a packet back until the association exists; return how many had to go for it."""
        if self._early is None:
            self._early = EarlyPackets(self._config.early_packets, self._config.early_bytes)
        return self._early.put(packet)

    def take_early(self) -> list[bytes]:
        """Drain the packets that were held back, in order of arrival."""
        early, self._early = self._early, None
        return [] if early is None else early.take()

    def begin(self) -> bytes:
        """Return our INIT, with a tag and TSN that no description has shown."""
        self.local = local_init(self._config, self._entropy)
        self.agreement = self.cookie = None
        self.attempts = 0
        return self._padded(ChunkType.INIT, self.local)

    def repeat_init(self) -> bytes | None:
        """Return the same INIT once more."""
        return self._padded(ChunkType.INIT, self.local) if self.local is not None else None

    def repeat_cookie(self) -> bytes | None:
        """Return the COOKIE ECHO (once more)."""
        return encode_chunk(ChunkType.COOKIE_ECHO, 0, self.cookie) if self.cookie else None

    def count_attempt(self) -> bool:
        """T1 expired; tell whether the limit is exceeded (section 5.1.6)."""
        self.attempts += 1
        limit = self._config.max_init_retransmissions
        return limit is not None and self.attempts > limit

    def receive_init_ack(self, init_ack: InitChunk) -> None:
        """Take the peer's INIT ACK for our INIT. Raises PeerMisbehaved without a cookie."""
        cookie = init_ack.parameter(ParameterType.STATE_COOKIE)
        if not cookie or self.local is None:
            raise PeerMisbehaved(SctpRule.MISSING_COOKIE, "RFC 9260 section 3.3.3")
        self.cookie = cookie
        self.attempts = 0
        self.agreement = agree(self.local, init_ack)

    def adopt(self, agreement: Agreement) -> None:
        """Run under this agreement from now on, whichever handshake led to it."""
        self.agreement = agreement
        self.cookie = None
        self.attempts = 0
        if self.local is not None and self.local.initiate_tag != agreement.local_tag:
            self.local = replace(
                self.local,
                initiate_tag=agreement.local_tag,
                initial_tsn=agreement.local_tsn,
            )

    def answer_init(self, init: InitChunk, *, running: bool, now: float) -> bytes:
        """Return the INIT ACK for a peer's INIT; nothing is remembered but in its cookie.

        While we are starting too, or when the peer repeats the INIT that we know (RFC 9260 5.2.1,
        or one that a description carried), our own tag and TSN are answered; else fresh ones, and
        the present tags go along as tie-tags (5.2.2).
        """
        current = self.agreement if running else None
        local = self.local
        if local is None or (current is not None and init.initiate_tag != current.peer_tag):
            local = local_init(self._config, self._entropy)
        tie = (0, 0) if current is None else (current.local_tag, current.peer_tag)
        cookie = seal_cookie(Cookie(agree(local, init), *tie), self._cookie_key(), now)
        extra = [(int(ParameterType.STATE_COOKIE), cookie)]
        room = self._config.mtu - 200 - sum(len(value) + 4 for _, value in local.parameters)
        for parameter in init.unrecognized:
            if (room := room - len(parameter) - 8) < 0:
                break  # section 3.2.2: only what fits the packet is reported
            extra.append((int(ParameterType.UNRECOGNIZED), parameter))
        answer = replace(local, parameters=(*local.parameters, *extra))
        return self._padded(ChunkType.INIT_ACK, answer)

    def open_cookie(self, data: bytes, now: float) -> tuple[Cookie, float]:
        """Open a cookie that came back; tell by how many seconds it is too old, if it is.

        Raises Discard (BAD_COOKIE) if it is not ours.
        """
        cookie, age_s = open_cookie(data, self._cookie_key(), now)
        return cookie, max(0.0, age_s - self._config.cookie_lifetime_s)

    def judge(self, cookie: Cookie, *, running: bool) -> CookieMeaning:
        """Compare the cookie's tags with ours (section 5.2.4)."""
        agreement, current = cookie.agreement, self.agreement
        if not running or current is None:
            ours = self.local.initiate_tag if self.local is not None else None
            return CookieMeaning.FIRST if agreement.local_tag == ours else CookieMeaning.STALE
        same_local = agreement.local_tag == current.local_tag
        same_peer = agreement.peer_tag == current.peer_tag
        if same_local and same_peer:
            return CookieMeaning.AGAIN
        tied = (cookie.tie_local, cookie.tie_peer) == (current.local_tag, current.peer_tag)
        if tied and not same_local and not same_peer:
            return CookieMeaning.RESTART
        return CookieMeaning.STALE

    def _cookie_key(self) -> HmacSha256:
        if self._key is None:
            self._key = HmacSha256(self._entropy.random_bytes(_COOKIE_KEY_SIZE))
        return self._key

    @staticmethod
    def _padded(kind: int, init: InitChunk) -> bytes:
        chunk = init.to_chunk(kind)
        return chunk + PADS[len(chunk) & 3]
