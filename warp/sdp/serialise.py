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
        Direction,
        Fingerprint,
        HeaderExtension,
        MediaDescription,
        SessionDescription,
        Setup,
    )


def description_text(description: SessionDescription) -> str:
    """Return the whole text with CRLF line ends."""
    origin, media, bundles, ice_lite, name = description
    session_id, version, username, address_type, address = origin
    lines = [
        "v=0",
        f"o={username} {session_id} {version} IN {address_type} {address}",
        f"s={name}",
        "t=0 0",
    ]
    for group in bundles:
        lines.append("a=group:BUNDLE " + " ".join(group))
    if ice_lite:
        lines.append("a=ice-lite")
    for section in media:
        _media_lines(section, lines)
    lines.append("")
    return "\r\n".join(lines)


def _media_lines(media: MediaDescription, lines: list[str]) -> None:
    address, sctp = media.address, media.sctp
    ufrag, pwd, options, fingerprints, setup, tls_id, candidates, complete = media.transport
    lines += (
        f"m={media.kind} {media.port} {media.protocol} {' '.join(media.formats)}",
        f"c=IN {'IP6' if ':' in address else 'IP4'} {address}",
    )
    if media.bundle_only:
        lines.append("a=bundle-only")
    for candidate in candidates:
        lines.append("a=" + candidate)
    if complete:
        lines.append("a=end-of-candidates")
    if ufrag:
        lines.append("a=ice-ufrag:" + ufrag)
    if pwd:
        lines.append("a=ice-pwd:" + pwd)
    lines += _identity_lines(options, fingerprints, tls_id, setup, media.mid)
    if sctp is None:
        _rtp_lines(media, lines)
        return
    mapped = media.protocol == "DTLS/SCTP"  # the older form always names a port
    port = sctp.effective_port if mapped else sctp.port
    lines += _sctp_lines(mapped, port, sctp.max_message_size)
    if sctp.init is not None:
        lines.append("a=sctp-init:" + encode_sctp_init(sctp.init))


def _rtp_lines(media: MediaDescription, lines: list[str]) -> None:
    lines += _extension_lines(media.direction, media.extmap_allow_mixed, media.extensions)
    for msid in media.msids:
        lines.append("a=msid:" + msid)
    lines += _format_lines(
        media.rtcp_mux, media.rtcp_mux_only, media.rtcp_rsize,
        media.codecs, media.ptime_ms, media.maxptime_ms,
    )  # fmt: skip
    for ssrc, cname, msid in media.sources:
        lines.append(f"a=ssrc:{ssrc} cname:{cname}")
        if msid:
            lines.append(f"a=ssrc:{ssrc} msid:{msid}")


# the same lines stand in the descriptions of every session


@lru_cache(maxsize=32)
def _identity_lines(
    options: tuple[str, ...],
    fingerprints: tuple[Fingerprint, ...],
    tls_id: str | None,
    setup: Setup | None,
    mid: str | None,
) -> tuple[str, ...]:
    lines = []
    if options:
        lines.append("a=ice-options:" + " ".join(options))
    lines += [f"a=fingerprint:{name} {digest}" for name, digest in fingerprints]
    if tls_id is not None:
        lines.append("a=tls-id:" + tls_id)
    if setup is not None:
        lines.append("a=setup:" + setup.text)
    if mid is not None:
        lines.append("a=mid:" + mid)
    return tuple(lines)


@lru_cache(maxsize=32)
def _extension_lines(
    direction: Direction, allow_mixed: bool, extensions: tuple[HeaderExtension, ...]
) -> tuple[str, ...]:
    lines = ["a=" + direction.text]
    if allow_mixed:
        lines.append("a=extmap-allow-mixed")
    for ext in extensions:
        way = f"/{ext.direction.text}" if ext.direction is not None else ""
        lines.append(f"a=extmap:{ext.id}{way} {ext.uri}")
    return tuple(lines)


@lru_cache(maxsize=32)
def _format_lines(
    mux: bool,
    mux_only: bool,
    reduced_size: bool,
    codecs: tuple[Codec, ...],
    ptime_ms: int | None,
    maxptime_ms: int | None,
) -> tuple[str, ...]:
    lines = []
    if mux:
        lines.append("a=rtcp-mux")
    if mux_only:
        lines.append("a=rtcp-mux-only")
    if reduced_size:
        lines.append("a=rtcp-rsize")
    for codec in codecs:
        number = codec.payload_type
        channels = f"/{codec.channels}" if codec.channels != 1 else ""
        lines.append(f"a=rtpmap:{number} {codec.name}/{codec.clock_rate}{channels}")
        lines += [f"a=rtcp-fb:{number} {feedback}" for feedback in codec.feedback]
        if codec.fmtp:
            lines.append(f"a=fmtp:{number} {codec.fmtp}")
    if ptime_ms is not None:
        lines.append(f"a=ptime:{ptime_ms}")
    if maxptime_ms is not None:
        lines.append(f"a=maxptime:{maxptime_ms}")
    return tuple(lines)


@lru_cache(maxsize=32)
def _sctp_lines(mapped: bool, port: int | None, max_message_size: int | None) -> tuple[str, ...]:
    lines = []
    if mapped:
        lines.append(f"a=sctpmap:{port} webrtc-datachannel 65535")
    elif port is not None:
        lines.append(f"a=sctp-port:{port}")
    if max_message_size is not None:
        lines.append(f"a=max-message-size:{max_message_size}")
    return tuple(lines)
