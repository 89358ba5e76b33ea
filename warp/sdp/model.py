"""A session description as values (RFC 8866, RFC 9429), frozen, cheap to compare and to print.

`parse` builds it from text, `offer_answer` builds it from what we want, `str()` turns it back
into text (`serialise`). Attributes that no field stands for do not survive: what we do not
understand we never repeat (echoing a peer's `sctp-init` made data channels of others fail).
Attributes of the session level that count for sections are copied into each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from warp.names import Name
from warp.sdp.extensions import SctpInitFault
from warp.sdp.serialise import description_text

DEFAULT_SCTP_PORT: Final = 5000
DEFAULT_MAX_MESSAGE_SIZE: Final = 65_536
DATA_PROTOCOLS: Final = ("UDP/DTLS/SCTP", "TCP/DTLS/SCTP", "DTLS/SCTP")

Fingerprint: TypeAlias = tuple[str, str]
"""Hash name in lower case ("sha-256") and upper-case hex pairs with colons (RFC 8122)."""


class Direction(Name):
    """Which way media flows, seen by the side that writes it (RFC 3264 section 5.1)."""

    SENDRECV = "sendrecv"
    SENDONLY = "sendonly"
    RECVONLY = "recvonly"
    INACTIVE = "inactive"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.sends = text in ("sendrecv", "sendonly")
        """Whether the writer sends."""
        self.receives = text in ("sendrecv", "recvonly")
        """Whether the writer receives."""

    @classmethod
    def of(cls, *, sends: bool, receives: bool) -> Direction:
        """Return the direction with these two halves."""
        return _BY_HALVES[sends, receives]

    def reversed(self) -> Direction:
        """Return the same flow seen from the other side."""
        return _BY_HALVES[self.receives, self.sends]

    def within(self, limit: Direction) -> Direction:
        """Return what both allow, seen from the same side."""
        return _BY_HALVES[self.sends and limit.sends, self.receives and limit.receives]


_BY_HALVES: Final = {
    (True, True): Direction.SENDRECV,
    (True, False): Direction.SENDONLY,
    (False, True): Direction.RECVONLY,
    (False, False): Direction.INACTIVE,
}


class Setup(Name):
    """Who begins the DTLS handshake (RFC 4145 section 4, RFC 8842 section 5)."""

    ACTPASS = "actpass"
    ACTIVE = "active"
    PASSIVE = "passive"

    def complement(self) -> Setup:
        """Return the role that the other side then has; ACTPASS stays undecided."""
        if self is Setup.ACTIVE:
            return Setup.PASSIVE
        return Setup.ACTIVE if self is Setup.PASSIVE else self


class Codec(NamedTuple):
    """One payload format: rtpmap, fmtp and rtcp-fb of a payload type."""

    payload_type: int
    name: str
    clock_rate: int
    channels: int = 1
    fmtp: str = ""
    feedback: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, int, int]:
        """What makes two payload types the same codec: name without case, rate, channels."""
        return self.name.lower(), self.clock_rate, self.channels

    def parameters(self) -> dict[str, str]:
        """Return the fmtp as names and values (names in lower case, value "" when bare)."""
        pairs = (item.partition("=") for item in self.fmtp.split(";") if item.strip())
        return {name.strip().lower(): value.strip() for name, _, value in pairs}


class HeaderExtension(NamedTuple):
    """One RTP header extension (RFC 8285 section 8)."""

    id: int
    uri: str
    direction: Direction | None = None


class Source(NamedTuple):
    """One announced RTP source (RFC 5576 section 4.1)."""

    ssrc: int
    cname: str = ""
    msid: str = ""


class TransportDescription(NamedTuple):
    """What a section says of its transport: ICE (RFC 8839) and DTLS (RFC 8842).

    `candidates` are the attribute texts, beginning with `candidate:`; `warp.ice` parses them.
    """

    ufrag: str = ""
    pwd: str = ""
    ice_options: tuple[str, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()
    setup: Setup | None = None
    tls_id: str | None = None
    candidates: tuple[str, ...] = ()
    end_of_candidates: bool = False


@dataclass(frozen=True, slots=True)
class SctpDescription:
    """The data-channel half of a section (RFC 8841, SNAP section 4).

    `port` and `max_message_size` are None when the line is missing. `init` is the decoded
    `sctp-init`, None when there is none or, with `init_fault`, when it cannot be used.
    """

    port: int | None = None
    max_message_size: int | None = None
    init: bytes | None = None
    # a diagnosis, not content: it does not survive as text
    init_fault: SctpInitFault | None = field(default=None, compare=False)

    @property
    def effective_port(self) -> int:
        """The port, or 5000 as every implementation assumes when it is missing."""
        return DEFAULT_SCTP_PORT if self.port is None else self.port

    @property
    def send_limit(self) -> int | None:
        """Bytes of one message that the writer takes; None means any size (RFC 8841 section 6)."""
        if self.max_message_size is None:
            return DEFAULT_MAX_MESSAGE_SIZE
        return self.max_message_size or None


class MediaDescription(NamedTuple):
    """One m= section. `sctp` is set exactly for data-channel sections."""

    kind: str
    port: int
    protocol: str
    formats: tuple[str, ...]
    mid: str | None = None
    direction: Direction = Direction.SENDRECV
    address: str = "0.0.0.0"
    bundle_only: bool = False
    transport: TransportDescription = TransportDescription()
    codecs: tuple[Codec, ...] = ()
    extensions: tuple[HeaderExtension, ...] = ()
    extmap_allow_mixed: bool = False
    sources: tuple[Source, ...] = ()
    msids: tuple[str, ...] = ()
    rtcp_mux: bool = False
    rtcp_mux_only: bool = False
    rtcp_rsize: bool = False
    ptime_ms: int | None = None
    maxptime_ms: int | None = None
    sctp: SctpDescription | None = None

    @property
    def rejected(self) -> bool:
        """Whether the section is refused or ended: port 0 and not bundle-only (RFC 8843).

        Most have a port; whoever asks for every section of a call looks at that first.
        """
        return self.port == 0 and not self.bundle_only

    @property
    def is_data(self) -> bool:
        """Whether the section carries data channels."""
        return self.sctp is not None

    def codec(self, name: str, clock_rate: int) -> Codec | None:
        """Return the first codec of this name (any case) and rate, or None."""
        wanted = name.lower()
        for codec in self.codecs:
            if codec.clock_rate == clock_rate and codec.name.lower() == wanted:
                return codec
        return None


class Origin(NamedTuple):
    """The o= line (RFC 8866 section 5.2)."""

    session_id: int
    session_version: int
    username: str = "-"
    address_type: str = "IP4"
    address: str = "127.0.0.1"


class SessionDescription(NamedTuple):
    """A whole offer or answer; `str()` gives the text, with CRLF line ends."""

    origin: Origin
    media: tuple[MediaDescription, ...] = ()
    bundles: tuple[tuple[str, ...], ...] = ()
    ice_lite: bool = False
    name: str = "-"

    def __str__(self) -> str:
        return description_text(self)

    def section(self, mid: str) -> MediaDescription | None:
        """Return the section with this mid, or None."""
        for media in self.media:
            if media.mid == mid:
                return media
        return None

    def data_section(self) -> MediaDescription | None:
        """Return the first data-channel section that is not rejected, or None."""
        for media in self.media:
            if media.sctp is not None and (media.port or not media.rejected):
                return media
        return None

    def transport_of(self, section: MediaDescription) -> TransportDescription:
        """Return what counts for a section: its own lines, else those of its BUNDLE group.

        A bundle-only section need not say anything of the transport (RFC 8843 section 7).
        """
        own = section.transport
        if own.ufrag and own.fingerprints:
            return own
        for other in self._companions(section):
            if other.ufrag and other.fingerprints:
                return other
        return own

    def candidates_of(self, section: MediaDescription) -> TransportDescription:
        """Return the transport lines that hold the candidates for a section.

        They may stand in the tagged section only, even where that one is refused (RFC 8843
        section 9); those of another ICE agent do not count.
        """
        base = self.transport_of(section)
        if not base.candidates:
            for other in self._companions(section):
                if other.candidates and other.ufrag in ("", base.ufrag):
                    return other
        return base

    def _companions(self, section: MediaDescription) -> list[TransportDescription]:
        group = self.bundle_of(section.mid) or ()
        return [m.transport for m in self.media if m.mid in group and m is not section]

    def bundle_of(self, mid: str | None) -> tuple[str, ...] | None:
        """Return the BUNDLE group that names this mid, or None."""
        for group in self.bundles:
            if mid in group:
                return group
        return None
