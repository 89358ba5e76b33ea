"""What we want to say: the input of `offer_answer`, in our words, without SDP in it.

Built by `warp.peer` from its configuration, its transport and its media.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from warp.contract import Address
from warp.sdp.codecs import AUDIO_EXTENSIONS, DEFAULT_AUDIO_CODECS
from warp.sdp.model import (
    DEFAULT_SCTP_PORT,
    Codec,
    Direction,
    Fingerprint,
    HeaderExtension,
    Setup,
)


class LocalTransport(NamedTuple):
    """Our end of the one transport that everything is bundled on."""

    ufrag: str
    pwd: str
    fingerprints: tuple[Fingerprint, ...]
    candidates: tuple[str, ...] = ()  # attribute texts, "candidate:..."
    end_of_candidates: bool = False
    ice_options: tuple[str, ...] = ("trickle",)  # of offers; RFC 8838 section 4.1.1
    answer_options: tuple[str, ...] = ()  # said in an answer when the offer said them too (SPED)
    ice_lite: bool = False
    tls_id: str | None = None
    address: Address | None = None  # the default candidate; None: not known yet, port 9


class LocalAudio(NamedTuple):
    """One audio section: what we send and would receive."""

    mid: str | None = None  # set once negotiated; None takes the next audio section
    direction: Direction = Direction.SENDRECV
    codecs: tuple[Codec, ...] = DEFAULT_AUDIO_CODECS
    extensions: tuple[HeaderExtension, ...] = AUDIO_EXTENSIONS
    ssrc: int | None = None
    cname: str = ""
    stream_id: str = "-"  # RFC 8830: "-" is no stream
    track_id: str = ""


class LocalData(NamedTuple):
    """The data-channel section."""

    mid: str | None = None
    sctp_port: int = DEFAULT_SCTP_PORT
    max_message_size: int = 262_144  # bytes of one message that we take, as browsers announce


LocalMedia: TypeAlias = LocalAudio | LocalData


class LocalDescriptionState(NamedTuple):
    """Everything that an offer or answer of ours is made of."""

    transport: LocalTransport
    media: tuple[LocalMedia, ...]
    session_id: int  # o= line: below 2**63, random (RFC 9429 section 5.2.1)
    setup: Setup = Setup.ACTPASS  # of offers; ACTIVE or PASSIVE forces the role
    answer_setup: Setup = Setup.PASSIVE  # to actpass: the offerer starts DTLS in its first check
    role: Setup | None = None  # ACTIVE or PASSIVE once the DTLS association exists
