"""Makes offers and answers (RFC 9429 sections 5.2 and 5.3, RFC 3264, RFC 8843).

    local state --create_offer--> offer ~~~ signalling ~~~> create_answer --> answer
    (local, remote) --negotiate--> what was agreed                 [negotiate.py]

Everything is bundled on one transport. Sections that we cannot use are refused with port 0.
Called by `warp.peer` and by answering servers; pure functions.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache
from itertools import chain, zip_longest

from warp.errors import InvalidConfig
from warp.sdp.codecs import (
    answer_codecs,
    answer_extensions,
    can_talk,
    formats_of,
    offer_codecs,
    offer_extensions,
)
from warp.sdp.errors import SdpError, SdpRule
from warp.sdp.extensions import echo_ice_options, merge_ice_options
from warp.sdp.local import LocalAudio, LocalData, LocalDescriptionState, LocalMedia, LocalTransport
from warp.sdp.model import (
    Direction,
    MediaDescription,
    Origin,
    SctpDescription,
    SessionDescription,
    Setup,
    Source,
    TransportDescription,
)
from warp.sdp.refusal import bundle_of_sections, reads_refused_sections, refuse

_RTP = "UDP/TLS/RTP/SAVPF"
_SCTP = "UDP/DTLS/SCTP"
# RFC 9429 section 5.1.2: what the profile says is not what is meant; the fingerprint decides
_PROFILES = frozenset(
    f"{under}RTP/{kind}"
    for under, kinds in (
        ("", ("AVP", "AVPF", "SAVP", "SAVPF")),
        ("UDP/TLS/", ("SAVP", "SAVPF")),
        ("TCP/DTLS/", ("SAVP", "SAVPF")),
    )
    for kind in kinds
)
_NO_ADDRESS = ("0.0.0.0", 9)  # RFC 8840 section 4.1.1: no candidate known yet


def create_offer(
    local: LocalDescriptionState,
    *,
    previous: SessionDescription | None = None,
    sctp_init: bytes | None = None,
) -> SessionDescription:
    """Return an offer of everything in `local.media`.

    `previous` is the local description that was last agreed on: its m= lines keep place and mid,
    its payload types and extension numbers stay bound, what is no longer in `local` is refused,
    what is new takes the place of a refused line or comes last. `sctp_init` is our INIT chunk
    when SNAP may be negotiated (see `snap`).
    """
    before = previous.media if previous is not None else ()
    places = _place(local.media, before)
    transport = _transport(local.transport, local.transport.ice_options, local.setup)
    mids = {media.mid for media in (*before, *local.media)}
    sections: list[MediaDescription] = []
    shown, address = transport, local.transport.address or _NO_ADDRESS
    for item, old in zip_longest(places, before):
        if item is None:
            asked = old.rejected and old.transport.ufrag
            sections.append(refuse(old, transport if asked else None))
            continue
        kept = old if old is not None and not old.rejected else None
        mid = item.mid or (kept.mid if kept is not None else None) or _new_mid(mids)
        mids.add(mid)
        host, port = address
        if isinstance(item, LocalAudio):
            sections.append(_audio(item, mid, host, port, shown, kept))
        else:
            sections.append(_data(item, mid, host, port, shown, sctp_init))
        if shown is transport:
            shown = _without_candidates(transport)
            address = address if previous is not None else _NO_ADDRESS
    bundle = bundle_of_sections(sections, mids)
    return _describe(local, previous, tuple(sections), bundle)


def create_answer(
    offer: SessionDescription,
    local: LocalDescriptionState,
    *,
    previous: SessionDescription | None = None,
    sctp_init: bytes | None = None,
) -> SessionDescription:
    """Return the answer to `offer` with what `local.media` can serve of it.

    Raises `SdpError` when nothing of the offer can be served or when it breaks a rule. `sctp_init`
    is used only when the offer carries a usable one, and never when it would repeat the offer's.
    """
    chosen, lead = _choose(offer, local)
    if lead is None:
        raise SdpError(SdpRule.NOTHING_LEFT)
    own = local.transport
    setup = answer_setup(lead.setup, local)
    options = _echo_options(offered_ice_options(offer), own.ice_options, own.answer_options)
    transport = shown = _transport(own, options, setup)
    in_full = transport if reads_refused_sections(offer) else None
    host, port = own.address or _NO_ADDRESS
    sections: list[MediaDescription] = []
    for section, item in zip(offer.media, chosen, strict=True):
        if item is None:
            sections.append(refuse(section, in_full))
            continue
        if isinstance(item, LocalAudio):
            sections.append(_answer_audio(section, item, host, port, shown))
        else:
            sections.append(_answer_data(section, item, host, port, shown, sctp_init))
        if in_full is None and shown is transport:
            shown = _without_candidates(transport)
    bundle = bundle_of_sections(sections, chain.from_iterable(offer.bundles))
    return _describe(local, previous, tuple(sections), bundle)


def require_transport(
    description: SessionDescription, section: MediaDescription
) -> TransportDescription:
    """Return the transport of a section that is to be used; `SdpError` when it is incomplete."""
    transport = section.transport
    if not transport.ufrag or not transport.fingerprints:
        transport = description.transport_of(section)
    if not transport.ufrag or not transport.pwd:
        raise SdpError(SdpRule.ICE_MISSING, f"mid {section.mid}")
    if not transport.fingerprints:
        raise SdpError(SdpRule.FINGERPRINT_MISSING, f"mid {section.mid}")
    return transport


def offered_ice_options(description: SessionDescription) -> tuple[str, ...]:
    """Return the ice-options of all sections that are not refused, in order, each once."""
    used = [m.transport.ice_options for m in description.media if m.port or not m.rejected]
    return merge_ice_options(*used)


@lru_cache(maxsize=16)  # a peer's options may be long
def _echo_options(offered: tuple[str, ...], *known: tuple[str, ...]) -> tuple[str, ...]:
    return merge_ice_options(*[echo_ice_options(offered, options) for options in known])


def answer_setup(offered: Setup | None, local: LocalDescriptionState) -> Setup:
    """Return the setup that answers `offered` (RFC 8842 section 5.3); missing counts as actpass.

    An existing association keeps its roles: an offer that contradicts them raises `SdpError`.
    """
    if offered is None or offered is Setup.ACTPASS:
        setup = local.role or local.answer_setup
        if setup is Setup.ACTPASS:
            raise InvalidConfig("answer_setup must be Setup.ACTIVE or Setup.PASSIVE")
        return setup
    setup = offered.complement()
    if local.role is not None and local.role is not setup:
        raise SdpError(SdpRule.SETUP_CHANGED, f"offered {offered.value}")
    return setup


def _place(
    wanted: Sequence[LocalMedia], before: Sequence[MediaDescription]
) -> list[LocalMedia | None]:
    """Give each item its m= line: its own old one, else a refused one, else a new one."""
    if not before:
        return list(wanted)
    places: list[LocalMedia | None] = [None] * len(before)
    fresh = []
    at = {m.mid: index for index, m in enumerate(before) if m.mid is not None and not m.rejected}
    for item in wanted:
        index = at.get(item.mid) if item.mid is not None else None
        if index is not None and places[index] is None and _same_kind(item, before[index]):
            places[index] = item
        else:
            fresh.append(item)
    named = {item.mid for item in wanted}
    for item in fresh:
        free = [i for i in range(len(before)) if places[i] is None]
        # an item without a mid continues the live section of its kind that nobody names
        own = [i for i in free if _continues(item, before[i], named)]
        index = next(iter(own or [i for i in free if before[i].rejected]), None)
        if index is None:
            places.append(item)
        else:
            places[index] = item
    return _keep_listening(places, before)


def _keep_listening(
    places: list[LocalMedia | None], before: Sequence[MediaDescription]
) -> list[LocalMedia | None]:
    """Keep the sections in which only the peer speaks, as long as there is audio at all."""
    audio = next((item for item in places if isinstance(item, LocalAudio)), None)
    if audio is None:
        return places
    for index, old in enumerate(before):
        live = places[index] is None and not old.rejected and old.kind == "audio"
        if live and old.direction is Direction.RECVONLY:
            places[index] = _listener(audio)._replace(mid=old.mid)
    return places


def _listener(item: LocalAudio) -> LocalAudio:
    """Return what hears the peer in another section than the one we speak in."""
    return item._replace(mid=None, direction=Direction.RECVONLY, ssrc=None)


def _continues(item: LocalMedia, old: MediaDescription, named: set[str | None]) -> bool:
    live = not old.rejected and old.mid not in named
    return live and item.mid is None and _same_kind(item, old)


def _same_kind(item: LocalMedia, section: MediaDescription) -> bool:
    return section.sctp is not None if isinstance(item, LocalData) else section.kind == "audio"


def _new_mid(used: Container[str | None]) -> str:
    number = 0
    while str(number) in used:
        number += 1
    return str(number)


def _choose(
    offer: SessionDescription, local: LocalDescriptionState
) -> tuple[list[LocalMedia | None], TransportDescription | None]:
    """Pick for every offered section the local item that serves it, or None to refuse it.

    Also returns the offered transport of the first section that is served, if any is.
    """
    chosen: list[LocalMedia | None] = []
    left = list(local.media)
    group: tuple[str, ...] | None = None
    lead: TransportDescription | None = None
    for section in offer.media:
        item = None
        # all share the transport of the first
        shares = lead is None or (group is not None and section.mid in group)
        if shares and (section.port or not section.rejected):
            item = _pick(left, section)
        if item is None or not _serves(item, section):
            chosen.append(None)
            continue
        transport = require_transport(offer, section)
        lead = lead or transport
        left.remove(item)
        if isinstance(item, LocalAudio) and item.direction.receives and not section.direction.sends:
            # a browser that takes its track away and adds one speaks in a section of its own, and
            # listens in the old one (RFC 9429 section 5.2.2)
            left.append(_listener(item))
        group = group or offer.bundle_of(section.mid)
        chosen.append(item)
    return chosen, lead


def _pick(items: Sequence[LocalMedia], section: MediaDescription) -> LocalMedia | None:
    """Return the item with the mid of the section, else the first of its kind without one."""
    unnamed: LocalMedia | None = None
    for item in items:
        if item.mid is None:
            if unnamed is None and _same_kind(item, section):
                unnamed = item
        elif item.mid == section.mid:
            return item
    return unnamed


def _serves(item: LocalMedia, section: MediaDescription) -> bool:
    if isinstance(item, LocalData):
        return section.sctp is not None
    if section.kind != "audio":
        return False
    known = section.protocol in _PROFILES
    return known and section.rtcp_mux and can_talk(section.codecs, item.codecs)


def _transport(
    local: LocalTransport, options: tuple[str, ...], setup: Setup
) -> TransportDescription:
    return TransportDescription(
        local.ufrag,
        local.pwd,
        options,
        local.fingerprints,
        setup,
        local.tls_id,
        local.candidates,
        local.end_of_candidates,
    )


def _without_candidates(transport: TransportDescription) -> TransportDescription:
    # RFC 8843 section 9: candidates stand in the tagged section only
    if not transport.candidates and not transport.end_of_candidates:
        return transport
    return TransportDescription(
        transport.ufrag,
        transport.pwd,
        transport.ice_options,
        transport.fingerprints,
        transport.setup,
        transport.tls_id,
    )


def _audio(
    item: LocalAudio,
    mid: str | None,
    host: str,
    port: int,
    transport: TransportDescription,
    before: MediaDescription | None,
) -> MediaDescription:
    codecs = offer_codecs(item.codecs, before.codecs if before is not None else ())
    extensions = offer_extensions(item.extensions, before.extensions if before is not None else ())
    sends = item.direction.sends
    return MediaDescription(
        "audio",
        port,
        _RTP,
        formats_of(codecs),
        mid,
        item.direction,
        host,
        transport=transport,
        codecs=codecs,
        extensions=extensions,
        extmap_allow_mixed=True,
        sources=(Source(item.ssrc, item.cname),) if sends and item.ssrc is not None else (),
        msids=_msids(item) if sends else (),
        rtcp_mux=True,
        rtcp_mux_only=True,  # RFC 8858: said in offers, never in answers
        rtcp_rsize=True,
    )


def _answer_audio(
    section: MediaDescription,
    item: LocalAudio,
    host: str,
    port: int,
    transport: TransportDescription,
) -> MediaDescription:
    direction = item.direction.within(section.direction.reversed())
    codecs = answer_codecs(section.codecs, item.codecs)
    sends = direction.sends
    return MediaDescription(
        section.kind,
        port,
        section.protocol,
        formats_of(codecs),
        section.mid,
        direction,
        host,
        transport=transport,
        codecs=codecs,
        extensions=answer_extensions(section.extensions, item.extensions),
        extmap_allow_mixed=section.extmap_allow_mixed,
        sources=(Source(item.ssrc, item.cname),) if sends and item.ssrc is not None else (),
        msids=_msids(item) if sends else (),
        rtcp_mux=True,
        rtcp_rsize=section.rtcp_rsize,
    )


def _msids(item: LocalAudio) -> tuple[str, ...]:
    return (f"{item.stream_id} {item.track_id}".strip(),)


def _data(
    item: LocalData,
    mid: str | None,
    host: str,
    port: int,
    transport: TransportDescription,
    init: bytes | None,
) -> MediaDescription:
    sctp = SctpDescription(item.sctp_port, item.max_message_size, init)
    return MediaDescription(
        "application", port, _SCTP, ("webrtc-datachannel",), mid,
        address=host, transport=transport, sctp=sctp,
    )  # fmt: skip


def _answer_data(
    section: MediaDescription,
    item: LocalData,
    host: str,
    port: int,
    transport: TransportDescription,
    init: bytes | None,
) -> MediaDescription:
    offered = section.sctp.init if section.sctp is not None else None
    own = init if offered is not None and offered != init else None
    legacy = section.protocol == "DTLS/SCTP"
    return MediaDescription(
        section.kind,
        port,
        section.protocol,
        (str(item.sctp_port),) if legacy else section.formats,
        section.mid,
        address=host,
        transport=transport,
        sctp=SctpDescription(item.sctp_port, item.max_message_size, own),
    )


def _describe(
    local: LocalDescriptionState,
    previous: SessionDescription | None,
    sections: tuple[MediaDescription, ...],
    bundle: tuple[str, ...],
) -> SessionDescription:
    """Put the sections under an o= line; its version grows when anything changed."""
    version = previous.origin.session_version if previous is not None else 1
    bundles = (bundle,) if bundle else ()
    lite = local.transport.ice_lite
    made = SessionDescription(Origin(local.session_id, version), sections, bundles, lite)
    if previous is None or made == previous:
        return made
    return SessionDescription(Origin(local.session_id, version + 1), sections, bundles, lite)
