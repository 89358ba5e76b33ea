"""What an offer and its answer agree on (RFC 3264 section 6, RFC 9429 section 5.11).

    offer, answer --check_answer--> negotiate --> transport, audio sections, data section
    negotiated before, negotiated now --compare--> ICE restart? new DTLS? new SCTP?

Called by `warp.peer` whenever a description pair is complete.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from warp.sdp.codecs import can_talk, shared_codecs, shared_extensions
from warp.sdp.errors import SdpError, SdpRule
from warp.sdp.model import (
    Codec,
    Direction,
    Fingerprint,
    HeaderExtension,
    MediaDescription,
    SessionDescription,
    Setup,
    Source,
)
from warp.sdp.offer_answer import offered_ice_options, require_transport


class TransportParameters(NamedTuple):
    """The peer's end of the bundled transport, and our DTLS role on it."""

    ufrag: str
    pwd: str
    ice_lite: bool
    ice_options: tuple[str, ...]
    fingerprints: tuple[Fingerprint, ...]
    tls_id: str | None
    candidates: tuple[str, ...]
    end_of_candidates: bool
    is_dtls_client: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioParameters:
    """One agreed audio section, seen from our side.

    `send_codecs` carry the peer's payload types, `receive_codecs` ours; the first is preferred.
    """

    mid: str | None
    index: int
    direction: Direction
    send_codecs: tuple[Codec, ...]
    receive_codecs: tuple[Codec, ...]
    extensions: tuple[HeaderExtension, ...]
    remote_sources: tuple[Source, ...]
    remote_msids: tuple[str, ...]
    rtcp_rsize: bool
    ptime_ms: int | None
    maxptime_ms: int | None

    def extension_id(self, uri: str) -> int | None:
        """Return the agreed number of a header extension, or None."""
        return next((ext.id for ext in self.extensions if ext.uri == uri), None)

    def send_codec(self, name: str, clock_rate: int) -> Codec | None:
        """Return the format with the peer's payload type, or None."""
        wanted = name.lower()
        for codec in self.send_codecs:
            if codec.name.lower() == wanted and codec.clock_rate == clock_rate:
                return codec
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParameters:
    """The agreed data-channel section; `send_limit` None means any message size.

    `remote_init` is the peer's `sctp-init` as bytes, whatever SNAP makes of it (`snap`).
    """

    mid: str | None
    index: int
    local_port: int
    remote_port: int
    send_limit: int | None
    receive_limit: int | None
    local_init: bytes | None
    remote_init: bytes | None


class Negotiated(NamedTuple):
    """The result of an offer and an answer."""

    transport: TransportParameters
    audio: tuple[AudioParameters, ...]
    data: DataParameters | None
    refused: tuple[int, ...]  # indexes of m= lines that carry nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a renegotiation changes below the media."""

    ice_restarted: bool  # RFC 8839 section 4.4.1.1.1: other ufrag or pwd
    dtls_replaced: bool  # RFC 8842 section 5.5: other fingerprints, tls-id or role
    sctp_replaced: bool  # RFC 8841 section 9.3: other port, or the section came anew
    sctp_ended: bool


def negotiate(
    local: SessionDescription, remote: SessionDescription, *, is_offerer: bool
) -> Negotiated:
    """Return what both descriptions agree on; raise `SdpError` where the answer breaks a rule."""
    offer, answer = (local, remote) if is_offerer else (remote, local)
    live = check_answer(offer, answer)
    if not live:
        raise SdpError(SdpRule.NOTHING_LEFT)
    audio: list[AudioParameters] = []
    data: DataParameters | None = None
    for index in live:
        ours, theirs = local.media[index], remote.media[index]
        if ours.sctp is not None and data is None:
            data = _data(index, ours, theirs)
        elif ours.kind == "audio":
            audio.append(_audio(index, ours, theirs))
    transport = _transport(local, remote, live[0], is_offerer=is_offerer)
    refused = () if len(live) == len(local.media) else _others(live, len(local.media))
    return Negotiated(transport, tuple(audio), data, refused)


def _others(live: Container[int], count: int) -> tuple[int, ...]:
    return tuple([index for index in range(count) if index not in live])


def check_answer(offer: SessionDescription, answer: SessionDescription) -> list[int]:
    """Raise `SdpError` where `answer` does not fit `offer`; return which sections it accepts."""
    if len(offer.media) != len(answer.media):
        detail = f"{len(answer.media)} m= lines for {len(offer.media)}"
        raise SdpError(SdpRule.ANSWER_SHAPE, detail)
    bundled = set().union(*answer.bundles)
    if not bundled.issubset(chain.from_iterable(offer.bundles)):
        raise SdpError(SdpRule.ANSWER_BUNDLE, " ".join(sorted(bundled)))
    live: list[int] = []
    for index, (asked, given) in enumerate(zip(offer.media, answer.media, strict=True)):
        accepted = given.port or not given.rejected
        revived = accepted and not asked.port and asked.rejected
        if asked.kind != given.kind or given.mid not in (asked.mid, None) or revived:
            raise SdpError(SdpRule.ANSWER_SHAPE, f"mid {asked.mid}")
        if not accepted:
            continue
        require_transport(answer, given)
        if live and (given.mid or asked.mid) not in bundled:
            raise SdpError(SdpRule.NOT_BUNDLED, f"mid {asked.mid}")
        live.append(index)
        if asked.kind == "audio":
            _check_audio(asked, given)
    return live


def _check_audio(asked: MediaDescription, given: MediaDescription) -> None:
    if not given.rtcp_mux:
        raise SdpError(SdpRule.RTCP_MUX, f"mid {asked.mid}")
    if not can_talk(given.codecs, asked.codecs):
        raise SdpError(SdpRule.ANSWER_CODECS, f"mid {asked.mid}")


def check_reoffer(
    previous: SessionDescription,
    offer: SessionDescription,
    ours: SessionDescription | None = None,
) -> None:
    """Raise `SdpError` unless the m= lines of `previous` keep their place, kind and mid.

    A line that was refused, by it or by `ours`, which it was agreed on with, may be used anew for
    anything (RFC 9429 section 5.2.2).
    """
    refused = {index for index, m in enumerate(ours.media if ours else ()) if m.rejected}
    if len(offer.media) < len(previous.media):
        raise SdpError(SdpRule.ORDER_CHANGED, "fewer m= lines than before")
    for index, (old, new) in enumerate(zip(previous.media, offer.media, strict=False)):
        if old.rejected or index in refused:
            continue
        if old.kind != new.kind or old.mid != new.mid:
            raise SdpError(SdpRule.ORDER_CHANGED, f"m= line {index + 1}")


def compare(before: Negotiated, after: Negotiated) -> Changes:
    """Return what has to be set up anew after a renegotiation."""
    old, new = before.transport, after.transport
    dtls = (
        set(old.fingerprints) != set(new.fingerprints)
        or old.tls_id != new.tls_id
        or old.is_dtls_client is not new.is_dtls_client
    )
    was, now = before.data, after.data
    replaced = was is not None and now is not None and (
        dtls
        or was.mid != now.mid
        or was.remote_port != now.remote_port
        or was.local_port != now.local_port
    )  # fmt: skip
    return Changes(
        ice_restarted=(old.ufrag, old.pwd) != (new.ufrag, new.pwd),
        dtls_replaced=dtls,
        sctp_replaced=replaced,
        sctp_ended=was is not None and now is None,
    )


def is_dtls_client(offered: Setup | None, answered: Setup | None, *, is_offerer: bool) -> bool:
    """Return whether we begin the DTLS handshake (RFC 8842 section 5).

    A missing setup counts as actpass in an offer; in an answer as the complement of the offer's,
    or active. Raises `SdpError` where both would be the same.
    """
    asked = offered or Setup.ACTPASS
    given = answered or (Setup.ACTIVE if asked is Setup.ACTPASS else asked.complement())
    if given is Setup.ACTPASS or given is asked:
        raise SdpError(SdpRule.SETUP_ANSWER, f"{given.value} to {asked.value}")
    return (given is Setup.PASSIVE) is is_offerer


def _transport(
    local: SessionDescription, remote: SessionDescription, lead: int, *, is_offerer: bool
) -> TransportParameters:
    theirs = require_transport(remote, remote.media[lead])
    holder = remote.candidates_of(remote.media[lead])
    ours = local.transport_of(local.media[lead])
    offered, answered = (ours, theirs) if is_offerer else (theirs, ours)
    return TransportParameters(
        ufrag=theirs.ufrag,
        pwd=theirs.pwd,
        ice_lite=remote.ice_lite,
        ice_options=offered_ice_options(remote),
        fingerprints=theirs.fingerprints,
        tls_id=theirs.tls_id,
        candidates=holder.candidates,
        end_of_candidates=holder.end_of_candidates,
        is_dtls_client=is_dtls_client(offered.setup, answered.setup, is_offerer=is_offerer),
    )


def _audio(index: int, ours: MediaDescription, theirs: MediaDescription) -> AudioParameters:
    return AudioParameters(
        mid=ours.mid,
        index=index,
        direction=ours.direction.within(theirs.direction.reversed()),
        send_codecs=shared_codecs(theirs.codecs, ours.codecs),
        receive_codecs=shared_codecs(ours.codecs, theirs.codecs),
        extensions=shared_extensions(theirs.extensions, ours.extensions),
        remote_sources=theirs.sources,
        remote_msids=theirs.msids,
        rtcp_rsize=ours.rtcp_rsize and theirs.rtcp_rsize,
        ptime_ms=theirs.ptime_ms,
        maxptime_ms=theirs.maxptime_ms,
    )


def _data(index: int, ours: MediaDescription, theirs: MediaDescription) -> DataParameters | None:
    if ours.sctp is None or theirs.sctp is None:
        return None
    return DataParameters(
        mid=ours.mid,
        index=index,
        local_port=ours.sctp.effective_port,
        remote_port=theirs.sctp.effective_port,
        send_limit=theirs.sctp.send_limit,
        receive_limit=ours.sctp.send_limit,
        local_init=ours.sctp.init,
        remote_init=theirs.sctp.init,
    )
