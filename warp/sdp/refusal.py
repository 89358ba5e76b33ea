"""Refuses m= sections: port 0, and nothing that describes a use (RFC 9429 section 5.3.1).

    offer.media ─▶ refuse(section)              m=video 0 ..., mid, inactive
                   refuse(section, transport)   in full: with all that aiortc looks for

aiortc up to 1.16 reads refused sections as live ones: it wants credentials, a DTLS role, rtcp-mux
and codecs in them, and connects those outside of the bundle one after the other, forever. Of a
bundle it takes the last section's candidates. It is known by its offers; it alone is answered in
full. Called by `offer_answer`.
"""

from __future__ import annotations

from collections.abc import Iterable

from warp.sdp.model import (
    Direction,
    MediaDescription,
    SctpDescription,
    SessionDescription,
    TransportDescription,
)

_DIGESTS = ("sha-256", "sha-384", "sha-512")


def reads_refused_sections(offer: SessionDescription) -> bool:
    """Whether an offer is aiortc's: each section has three digests, and names no ice-options."""
    return bool(offer.media) and all(
        tuple(name for name, _ in section.transport.fingerprints) == _DIGESTS
        and not section.transport.ice_options
        for section in offer.media
        if not section.rejected
    )


def refuse(
    section: MediaDescription, in_full: TransportDescription | None = None
) -> MediaDescription:
    """Return the section with port 0; `in_full` is the transport that it shows all the same.

    Of the formats the first stays, with its name: Pion looks each up that is listed.
    """
    sctp = SctpDescription(section.sctp.effective_port) if section.sctp is not None else None
    first = section.codecs[:1] if sctp is None else ()
    return MediaDescription(
        section.kind,
        0,
        section.protocol,
        tuple([str(codec.payload_type) for codec in first]) or section.formats,
        section.mid,
        Direction.INACTIVE if sctp is None else Direction.SENDRECV,
        transport=in_full or TransportDescription(),
        codecs=tuple([codec._replace(feedback=()) for codec in first]),
        rtcp_mux=in_full is not None and sctp is None,
        sctp=sctp,
    )


def bundle_of_sections(
    sections: Iterable[MediaDescription], bundled: Iterable[str | None]
) -> tuple[str, ...]:
    """Return the mids of our group, of those that may be bundled, in the order of the sections.

    RFC 8843 section 7.3.1 has no refused ones in it; those in full are for who can't leave them.
    """
    among = set(bundled)
    return tuple([
        s.mid
        for s in sections
        if s.mid is not None and s.mid in among and (s.port or not s.rejected or s.transport.ufrag)
    ])  # fmt: skip
