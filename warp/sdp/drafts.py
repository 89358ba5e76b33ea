"""Half-built sections while `parse` reads their lines, and how they become values.

    lines that say the same in many sessions ─▶ CommonDraft ─▶ Form      (read once, remembered)
    lines of this one session ────────────────▶ OwnDraft ──┐
    Form + OwnDraft + those of the session level ──────────┴▶ MediaDescription

Only `parse` uses them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp.sdp.extensions import decode_sctp_init, merge_ice_options
from warp.sdp.grammar import number
from warp.sdp.model import (
    DATA_PROTOCOLS,
    DEFAULT_SCTP_PORT,
    Codec,
    Direction,
    HeaderExtension,
    MediaDescription,
    SctpDescription,
    Setup,
    Source,
    TransportDescription,
)

# RFC 3551 section 6: formats that need no rtpmap
STATIC_FORMATS: Final = {
    "0": ("PCMU", 8000, 1),
    "3": ("GSM", 8000, 1),
    "8": ("PCMA", 8000, 1),
    "9": ("G722", 8000, 1),
    "13": ("CN", 8000, 1),
}


class RtpDraft:
    """RTP attributes read so far; payload types are kept as the text they were."""

    __slots__ = (
        "allow_mixed", "extensions", "feedback", "fmtps", "maps", "maxptime_ms", "mux",
        "mux_only", "ptime_ms", "rsize",
    )  # fmt: skip

    def __init__(self) -> None:
        self.maps: dict[str, tuple[str, int, int]] = {}
        self.fmtps: dict[str, str] = {}
        self.feedback: list[tuple[str, str]] = []
        self.extensions: list[HeaderExtension] = []
        self.allow_mixed = False
        self.mux = False
        self.mux_only = False
        self.rsize = False
        self.ptime_ms: int | None = None
        self.maxptime_ms: int | None = None

    def codecs(self, formats: tuple[str, ...]) -> tuple[Codec, ...]:
        """Return what the formats mean, in their order; formats without a meaning are left out."""
        feedback: dict[str, list[str]] = {}
        for target, value in self.feedback:
            for name in formats if target == "*" else (target,):
                feedback.setdefault(name, []).append(value)
        codecs = []
        for name in dict.fromkeys(formats):
            meaning = self.maps.get(name) or STATIC_FORMATS.get(name)
            # 64 to 95 would look like RTCP on a shared port (RFC 5761 section 4)
            if meaning is not None and not 64 <= int(name) <= 95:
                values = feedback.get(name)
                unique = tuple(dict.fromkeys(values)) if values else ()
                codecs.append(Codec(int(name), *meaning, self.fmtps.get(name, ""), unique))
        return tuple(codecs)


class CommonDraft:
    """What the lines say that a section shares with those of other sessions."""

    __slots__ = (
        "bundle_only", "direction", "end_of_candidates", "groups", "ice_lite", "ice_options",
        "mapped_port", "max_message_size", "mid", "rtp", "setup",
    )  # fmt: skip

    def __init__(self) -> None:
        self.mid: str | None = None
        self.direction: Direction | None = None
        self.bundle_only = False
        self.setup: Setup | None = None
        self.ice_options: list[str] = []
        self.end_of_candidates = False
        self.rtp = RtpDraft()
        self.mapped_port: int | None = None
        self.max_message_size: int | None = None
        # these two are the session's wherever they stand
        self.groups: list[tuple[str, ...]] = []
        self.ice_lite = False

    def finish(self, kind: str, protocol: str, formats: tuple[str, ...]) -> Form:
        """Return the value, for the m= line that they stand under."""
        rtp = self.rtp
        return Form(
            kind, protocol, formats, self.mid, self.direction, self.bundle_only, self.setup,
            tuple(self.ice_options), self.end_of_candidates,
            rtp.codecs(formats) if "RTP/" in protocol else (), tuple(rtp.extensions),
            rtp.allow_mixed, rtp.mux, rtp.mux_only, rtp.rsize, rtp.ptime_ms, rtp.maxptime_ms,
            self.mapped_port, self.max_message_size, tuple(self.groups), self.ice_lite,
        )  # fmt: skip


class Form(NamedTuple):
    """The lasting part of a section (or of the session level): never changed, so shared."""

    kind: str
    protocol: str
    formats: tuple[str, ...]
    mid: str | None
    direction: Direction | None
    bundle_only: bool
    setup: Setup | None
    ice_options: tuple[str, ...]
    end_of_candidates: bool
    codecs: tuple[Codec, ...]
    extensions: tuple[HeaderExtension, ...]
    allow_mixed: bool
    mux: bool
    mux_only: bool
    rsize: bool
    ptime_ms: int | None
    maxptime_ms: int | None
    mapped_port: int | None
    max_message_size: int | None
    groups: tuple[tuple[str, ...], ...]
    ice_lite: bool

    @property
    def is_data(self) -> bool:
        """Whether this is a data-channel section, new or old form."""
        if self.kind != "application" or self.protocol not in DATA_PROTOCOLS:
            return False
        return "webrtc-datachannel" in self.formats or self.protocol == "DTLS/SCTP"


class OwnDraft:
    """What the lines say that belong to one session alone: addresses, credentials, sources."""

    __slots__ = (
        "address", "candidates", "fingerprints", "inits", "msids", "pwd", "sctp_port", "sources",
        "tls_id", "ufrag",
    )  # fmt: skip

    def __init__(self) -> None:
        self.address = ""
        self.ufrag = ""
        self.pwd = ""
        self.fingerprints: list[tuple[str, str]] = []
        self.tls_id: str | None = None
        self.candidates: list[str] = []
        self.sources: dict[int, Source] = {}
        self.msids: list[str] = []
        self.sctp_port: int | None = None
        self.inits: list[str] = []


class Section(NamedTuple):
    """All that a section says; `port` is that of its m= line."""

    port: int
    form: Form
    own: OwnDraft

    def transport(self, session: Section) -> TransportDescription:
        """Return ICE and DTLS; what the section does not say is the session's (RFC 8839, 8842)."""
        form, own, above, base = self.form, self.own, session.form, session.own
        own_ice = bool(own.ufrag or own.pwd)
        options = form.ice_options
        if above.ice_options:
            options = merge_ice_options(above.ice_options, options)
        return TransportDescription(
            own.ufrag if own_ice else base.ufrag,
            own.pwd if own_ice else base.pwd,
            options,
            tuple(own.fingerprints or base.fingerprints),
            form.setup or above.setup,
            own.tls_id if own.tls_id is not None else base.tls_id,
            tuple(own.candidates),
            form.end_of_candidates or above.end_of_candidates,
        )

    def sctp(self) -> SctpDescription:
        """Return the data-channel half; the older form names its port in the m= line."""
        form, port = self.form, self.own.sctp_port
        if form.protocol == "DTLS/SCTP":
            first = form.formats[0]
            named = number(first, 65535, 1) if first.isdecimal() else form.mapped_port
            port = DEFAULT_SCTP_PORT if named is None else named
        init, fault = decode_sctp_init(self.own.inits)
        return SctpDescription(port, form.max_message_size, init, fault)

    def finish(self, session: Section) -> MediaDescription:
        """Return the value, with what the session level says for all sections."""
        form, own, above = self.form, self.own, session.form
        transport = self.transport(session)
        address = own.address or session.own.address or "0.0.0.0"
        if form.is_data:
            return MediaDescription(
                form.kind, self.port, form.protocol, form.formats, form.mid,
                address=address, bundle_only=form.bundle_only, transport=transport,
                sctp=self.sctp(),
            )  # fmt: skip
        return MediaDescription(
            form.kind,
            self.port,
            form.protocol,
            form.formats,
            form.mid,
            form.direction or above.direction or Direction.SENDRECV,
            address,
            form.bundle_only,
            transport,
            form.codecs,
            above.extensions + form.extensions,
            form.allow_mixed or above.allow_mixed,
            tuple(own.sources.values()),
            tuple(own.msids),
            form.mux or form.mux_only or above.mux,
            form.mux_only,
            form.rsize,
            form.ptime_ms,
            form.maxptime_ms,
        )
