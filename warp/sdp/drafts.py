"""Half-built sections while `parse` reads their lines, and how they become values.

Three organs a section, as in the model: transport, RTP, SCTP. Only `parse` uses them.
"""

from __future__ import annotations

from typing import Final

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


class TransportDraft:
    """ICE and DTLS attributes read so far."""

    __slots__ = (
        "candidates", "end_of_candidates", "fingerprints", "ice_options", "pwd", "setup",
        "tls_id", "ufrag",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ufrag = ""
        self.pwd = ""
        self.ice_options: tuple[str, ...] = ()
        self.fingerprints: list[tuple[str, str]] = []
        self.setup: Setup | None = None
        self.tls_id: str | None = None
        self.candidates: list[str] = []
        self.end_of_candidates = False

    def finish(self, session: TransportDraft) -> TransportDescription:
        """Return the value; what the section does not say is the session's (RFC 8839, 8842)."""
        own_ice = bool(self.ufrag or self.pwd)
        options = self.ice_options
        if session.ice_options:
            options = merge_ice_options(session.ice_options, options)
        return TransportDescription(
            self.ufrag if own_ice else session.ufrag,
            self.pwd if own_ice else session.pwd,
            options,
            tuple(self.fingerprints or session.fingerprints),
            self.setup or session.setup,
            self.tls_id if self.tls_id is not None else session.tls_id,
            tuple(self.candidates),
            self.end_of_candidates or session.end_of_candidates,
        )


class RtpDraft:
    """RTP attributes read so far; payload types are kept as the text they were."""

    __slots__ = (
        "allow_mixed", "extensions", "feedback", "fmtps", "maps", "maxptime_ms", "msids", "mux",
        "mux_only", "ptime_ms", "rsize", "sources",
    )  # fmt: skip

    def __init__(self) -> None:
        self.maps: dict[str, tuple[str, int, int]] = {}
        self.fmtps: dict[str, str] = {}
        self.feedback: list[tuple[str, str]] = []
        self.extensions: list[HeaderExtension] = []
        self.allow_mixed = False
        self.sources: dict[int, Source] = {}
        self.msids: list[str] = []
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
            if meaning is not None:
                values = feedback.get(name)
                unique = tuple(dict.fromkeys(values)) if values else ()
                codecs.append(Codec(int(name), *meaning, self.fmtps.get(name, ""), unique))
        return tuple(codecs)


class SctpDraft:
    """Data-channel attributes read so far."""

    __slots__ = ("inits", "mapped_port", "max_message_size", "port")

    def __init__(self) -> None:
        self.port: int | None = None
        self.mapped_port: int | None = None
        self.max_message_size: int | None = None
        self.inits: list[str] = []

    def finish(self, formats: tuple[str, ...], *, legacy: bool) -> SctpDescription:
        """Return the value; the older form names its port in the m= line."""
        port = self.port
        if legacy:
            first = formats[0]
            named = number(first, 65535) if first.isdecimal() else self.mapped_port
            port = DEFAULT_SCTP_PORT if named is None else named
        init, fault = decode_sctp_init(self.inits)
        return SctpDescription(port, self.max_message_size, init, fault)


class SectionDraft:
    """One section (or the session level) while it is read."""

    __slots__ = (
        "address", "bundle_only", "direction", "formats", "kind", "mid", "port", "protocol",
        "rtp", "sctp", "transport",
    )  # fmt: skip

    def __init__(self) -> None:
        self.kind = ""
        self.port = 0
        self.protocol = ""
        self.formats: tuple[str, ...] = ()
        self.mid: str | None = None
        self.direction: Direction | None = None
        self.address = ""
        self.bundle_only = False
        self.transport = TransportDraft()
        self.rtp = RtpDraft()
        self.sctp = SctpDraft()

    @property
    def is_data(self) -> bool:
        """Whether this is a data-channel section, new or old form."""
        if self.kind != "application" or self.protocol not in DATA_PROTOCOLS:
            return False
        return "webrtc-datachannel" in self.formats or self.protocol == "DTLS/SCTP"

    def finish(self, session: SectionDraft) -> MediaDescription:
        """Return the value, with what the session level says for all sections."""
        transport = self.transport.finish(session.transport)
        address = self.address or session.address or "0.0.0.0"
        if self.is_data:
            sctp = self.sctp.finish(self.formats, legacy=self.protocol == "DTLS/SCTP")
            return MediaDescription(
                self.kind, self.port, self.protocol, self.formats, self.mid,
                address=address, bundle_only=self.bundle_only, transport=transport, sctp=sctp,
            )  # fmt: skip
        rtp = self.rtp
        refused = self.port == 0 and not self.bundle_only
        return MediaDescription(
            self.kind,
            self.port,
            self.protocol,
            self.formats,
            self.mid,
            self.direction or session.direction or Direction.SENDRECV,
            address,
            self.bundle_only,
            transport,
            () if refused or "RTP/" not in self.protocol else rtp.codecs(self.formats),
            (*session.rtp.extensions, *rtp.extensions),
            rtp.allow_mixed or session.rtp.allow_mixed,
            tuple(rtp.sources.values()),
            tuple(rtp.msids),
            rtp.mux or rtp.mux_only or session.rtp.mux,
            rtp.mux_only,
            rtp.rsize,
            rtp.ptime_ms,
            rtp.maxptime_ms,
        )
