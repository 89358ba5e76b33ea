"""Session profile 1: what a session is whose offer the server has not seen.

    attempt ─ stand_in_offer ─▶ the offer as far as it counts ─┐
    the real offer, at the client ─────────────────────────────┴ compose_answer ─▶ answer

One Opus section (mid 0) and one of data channels (mid 1), bundled; no header extensions, no second
codec, no rtcp-rsize: what the answer does not name is not used, so that a server needs to know no
more of the offer than the attempt tells. Client and server compose the same answer, each for itself
(RFC 3264, RFC 9429 section 5.3); a page does the same in its own language.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from instant_connect.attempt import Attempt
from warp.contract import Address
from warp.entropy import SeededEntropy
from warp.errors import Discard, InvalidConfig
from warp.ice import Candidate, CandidateType, make_candidate
from warp.sctp import InitChunk, SctpConfig, local_init, parse_init
from warp.sdp import (
    Direction,
    LocalAudio,
    LocalData,
    LocalDescriptionState,
    LocalTransport,
    MediaDescription,
    Origin,
    SctpDescription,
    SessionDescription,
    Setup,
    TransportDescription,
    create_answer,
    opus,
)
from warp.sped import SPED_OPTIONS

PROFILE: Final = 1
AUDIO_MID, DATA_MID = "0", "1"
PAYLOAD_TYPE: Final = 111  # what Opus is in most offers
CLIENT_MESSAGE_BYTES: Final = 65_536
"""What a client takes that has said nothing (RFC 8841 section 6)."""
CLIENT_WINDOW_BYTES: Final = 131_072
"""Receive window of a client whose INIT is known by two numbers: its first SACK tells the true
one."""
_CLIENT_SCTP: Final = SctpConfig(a_rwnd=CLIENT_WINDOW_BYTES, zero_checksum=False)
UNKNOWN_PASSWORD: Final = "-" * 22  # of the stand-in: a lite agent never asks its peer for it
_RTP, _SCTP = "UDP/TLS/RTP/SAVPF", "UDP/DTLS/SCTP"
_PORT: Final = 9  # RFC 8840 section 4.1.1: no candidate known yet


class Terms(NamedTuple):
    """What every answer of a server says alike, and its bundles with it."""

    candidates: tuple[Candidate, ...]
    """Best first."""
    init: InitChunk
    """Our INIT; tag and TSN differ in every session."""
    max_message_size: int = 262_144
    sped: bool = True
    snap: bool = True


def make_terms(
    addresses: tuple[Address, ...],
    sctp: SctpConfig,
    *,
    max_message_size: int = 262_144,
    sped: bool = True,
    snap: bool = True,
) -> Terms:
    """Return the terms of a server at these addresses (public ones, best first)."""
    if not addresses:
        raise InvalidConfig("a server needs at least one address that clients can reach")
    candidates = tuple(
        make_candidate(CandidateType.HOST, address, local_preference=0xFFFF - index)
        for index, address in enumerate(addresses)
    )
    init = local_init(sctp, SeededEntropy(b"only the features count"))
    return Terms(candidates, init, max_message_size, sped, snap)


def stand_in_offer(attempt: Attempt, client_ufrag: str) -> SessionDescription:
    """Return the offer that an attempt stands for, as far as the profile goes."""
    fingerprint = ("sha-256", attempt.fingerprint.hex(":").upper())
    transport = TransportDescription(
        client_ufrag,
        UNKNOWN_PASSWORD,
        fingerprints=(fingerprint,),
        setup=Setup.ACTPASS,
    )
    init = None if attempt.sctp is None else client_init(attempt.sctp)
    audio = MediaDescription(
        "audio",
        _PORT,
        _RTP,
        (str(attempt.payload_type),),
        AUDIO_MID,
        Direction.SENDRECV,
        transport=transport,
        codecs=(_opus(attempt.payload_type),),
        rtcp_mux=True,
    )
    data = MediaDescription(
        "application",
        _PORT,
        _SCTP,
        ("webrtc-datachannel",),
        DATA_MID,
        transport=transport,
        sctp=SctpDescription(5000, CLIENT_MESSAGE_BYTES, init),
    )
    return SessionDescription(Origin(0, 0), (audio, data), ((AUDIO_MID, DATA_MID),))


def compose_answer(
    offer: SessionDescription,
    terms: Terms,
    *,
    ufrag: str,
    password: str,
    fingerprint: str,
    attempt: Attempt,
    sctp: tuple[int, int] | None,
) -> SessionDescription:
    """Return the profile's answer to an offer, or to its stand-in.

    `fingerprint` is the cell's ("AB:CD:.."), `sctp` our tag and TSN where SNAP takes part. Raises
    `SdpError` when the offer has nothing for the profile.
    """
    first = terms.candidates[0]
    state = LocalDescriptionState(
        transport=LocalTransport(
            ufrag=ufrag,
            pwd=password,
            fingerprints=(("sha-256", fingerprint),),
            candidates=_texts(terms.candidates),
            answer_options=SPED_OPTIONS if terms.sped else (),
            ice_lite=True,
            address=(first.host, first.port),
        ),
        media=(_AUDIO, LocalData(max_message_size=terms.max_message_size)),
        session_id=session_id(attempt),
        answer_setup=Setup.PASSIVE,
    )
    init = None if sctp is None or not terms.snap else server_init(terms, sctp).to_bytes()
    answer = create_answer(offer, state, sctp_init=init)
    # what the stand-in cannot say is agreed on by neither
    media = [m._replace(rtcp_rsize=False, extmap_allow_mixed=False) for m in answer.media]
    return answer._replace(media=tuple(media))


def offered_sctp(offer: SessionDescription) -> tuple[int, int] | None:
    """Return tag and TSN of the INIT in an offer, or None where it has none that can be used."""
    section = offer.data_section()
    raw = section.sctp.init if section is not None and section.sctp is not None else None
    if raw is None:
        return None
    try:
        init = parse_init(raw)
    except Discard:
        return None
    return init.initiate_tag, init.initial_tsn


def offered_opus(offer: SessionDescription) -> int | None:
    """Return the payload type of Opus in an offer, or None where it has none."""
    found = (media.codec("opus", 48_000) for media in offer.media)
    return next((codec.payload_type for codec in found if codec is not None), None)


def session_id(attempt: Attempt) -> int:
    """Return the session id of the answer: both ends know it (RFC 9429 section 5.2.1)."""
    return int.from_bytes(attempt.nonce, "big") >> 1


def server_init(terms: Terms, sctp: tuple[int, int]) -> InitChunk:
    """Return our INIT with the tag and TSN of a session."""
    return replace(terms.init, initiate_tag=sctp[0], initial_tsn=sctp[1])


def client_init(sctp: tuple[int, int]) -> bytes:
    """Return the INIT that two numbers stand for: what every browser can do, and no more.

    Interleaving and zero checksums are left out: who can do them can do without.
    """
    return replace(_client_features(), initiate_tag=sctp[0], initial_tsn=sctp[1]).to_bytes()


@lru_cache(maxsize=1)
def _client_features() -> InitChunk:
    return local_init(_CLIENT_SCTP, SeededEntropy(b"only the features count"))


@lru_cache(maxsize=16)
def _texts(candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    return tuple([str(candidate) for candidate in candidates])


_AUDIO: Final = LocalAudio(codecs=(opus(feedback=()),), extensions=())
_opus = lru_cache(maxsize=32)(lambda payload_type: opus(payload_type, feedback=()))
