"""Turns a description into text (RFC 8866 section 5, attribute order as RFC 9429 section 5.2).

Called by `str(SessionDescription)`. Writes only what the model holds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from warp.sdp.extensions import encode_sctp_init

if TYPE_CHECKING:
    from warp.sdp.model import (
        Codec,
        HeaderExtension,
        MediaDescription,
        SessionDescription,
        TransportDescription,
    )


def description_text(description: SessionDescription) -> str:
    """Return the whole text with CRLF line ends."""
    origin = description.origin
    lines = [
        "v=0",
        f"o={origin.username} {origin.session_id} {origin.session_version}"
        f" IN {origin.address_type} {origin.address}",
        f"s={description.name}",
        "t=0 0",
    ]
    lines += ["a=group:BUNDLE " + " ".join(group) for group in description.bundles]
    if description.ice_lite:
        lines.append("a=ice-lite")
    for media in description.media:
        _media_lines(media, lines)
    lines.append("")
    return "\r\n".join(lines)


def _media_lines(media: MediaDescription, lines: list[str]) -> None:
    lines.append(f"m={media.kind} {media.port} {media.protocol} {' '.join(media.formats)}")
    lines.append(f"c=IN {'IP6' if ':' in media.address else 'IP4'} {media.address}")
    if media.bundle_only:
        lines.append("a=bundle-only")
    _transport_lines(media.transport, lines)
    if media.mid is not None:
        lines.append("a=mid:" + media.mid)
    if media.sctp is None:
        lines.append("a=" + media.direction.text)
        _rtp_lines(media, lines)
    else:
        _sctp_lines(media, lines)


def _transport_lines(transport: TransportDescription, lines: list[str]) -> None:
    for candidate in transport.candidates:
        lines.append("a=" + candidate)
    if transport.end_of_candidates:
        lines.append("a=end-of-candidates")
    if transport.ufrag:
        lines.append("a=ice-ufrag:" + transport.ufrag)
    if transport.pwd:
        lines.append("a=ice-pwd:" + transport.pwd)
    if transport.ice_options:
        lines.append("a=ice-options:" + " ".join(transport.ice_options))
    for name, digest in transport.fingerprints:
        lines.append(f"a=fingerprint:{name} {digest}")
    if transport.tls_id is not None:
        lines.append("a=tls-id:" + transport.tls_id)
    if transport.setup is not None:
        lines.append("a=setup:" + transport.setup.text)


def _rtp_lines(media: MediaDescription, lines: list[str]) -> None:
    if media.extmap_allow_mixed:
        lines.append("a=extmap-allow-mixed")
    lines += _extension_lines(media.extensions)
    for msid in media.msids:
        lines.append("a=msid:" + msid)
    if media.rtcp_mux:
        lines.append("a=rtcp-mux")
    if media.rtcp_mux_only:
        lines.append("a=rtcp-mux-only")
    if media.rtcp_rsize:
        lines.append("a=rtcp-rsize")
    lines += _codec_lines(media.codecs)
    if media.ptime_ms is not None:
        lines.append(f"a=ptime:{media.ptime_ms}")
    if media.maxptime_ms is not None:
        lines.append(f"a=maxptime:{media.maxptime_ms}")
    for source in media.sources:
        lines.append(f"a=ssrc:{source.ssrc} cname:{source.cname}")
        if source.msid:
            lines.append(f"a=ssrc:{source.ssrc} msid:{source.msid}")


# the same two lists stand in the descriptions of every session


@lru_cache(maxsize=32)
def _extension_lines(extensions: tuple[HeaderExtension, ...]) -> tuple[str, ...]:
    lines = []
    for ext in extensions:
        way = f"/{ext.direction.text}" if ext.direction is not None else ""
        lines.append(f"a=extmap:{ext.id}{way} {ext.uri}")
    return tuple(lines)


@lru_cache(maxsize=32)
def _codec_lines(codecs: tuple[Codec, ...]) -> tuple[str, ...]:
    lines = []
    for codec in codecs:
        number = codec.payload_type
        channels = f"/{codec.channels}" if codec.channels != 1 else ""
        lines.append(f"a=rtpmap:{number} {codec.name}/{codec.clock_rate}{channels}")
        lines += [f"a=rtcp-fb:{number} {feedback}" for feedback in codec.feedback]
        if codec.fmtp:
            lines.append(f"a=fmtp:{number} {codec.fmtp}")
    return tuple(lines)


def _sctp_lines(media: MediaDescription, lines: list[str]) -> None:
    sctp = media.sctp
    if sctp is None:
        return
    if media.protocol == "DTLS/SCTP":
        lines.append(f"a=sctpmap:{sctp.effective_port} webrtc-datachannel 65535")
    elif sctp.port is not None:
        lines.append(f"a=sctp-port:{sctp.port}")
    if sctp.max_message_size is not None:
        lines.append(f"a=max-message-size:{sctp.max_message_size}")
    if sctp.init is not None:
        lines.append("a=sctp-init:" + encode_sctp_init(sctp.init))
