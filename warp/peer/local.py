"""Our side of a description, put together from configuration, credentials and candidates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from warp.crypto import Certificate
from warp.dtls import DtlsRole
from warp.ice import Candidate, IceCredentials
from warp.peer.config import PeerConfig
from warp.sdp import (
    LocalAudio,
    LocalData,
    LocalDescriptionState,
    LocalMedia,
    LocalTransport,
    Setup,
)
from warp.sped import SPED_OPTIONS

# of our own offers; an answer echoes whatever spelling the offer had
_OPTIONS = ("trickle", *SPED_OPTIONS[:2])


def describe(
    config: PeerConfig,
    credentials: IceCredentials,
    certificate: Certificate,
    candidates: Sequence[Candidate],
    session_id: int,
    role: DtlsRole | None,
    audio: LocalAudio | None,
) -> LocalDescriptionState:
    """Return what our next offer or answer is made of; `role` once DTLS has begun."""
    first = candidates[0] if candidates else None
    media: list[LocalMedia] = []
    if audio is not None:
        media.append(audio)
    if config.data:
        media.append(_data(config.sctp_port, config.max_message_size))
    return LocalDescriptionState(
        transport=LocalTransport(
            ufrag=credentials.ufrag,
            pwd=credentials.pwd,
            fingerprints=(("sha-256", certificate.fingerprint()),),
            candidates=tuple([str(candidate) for candidate in candidates]),
            ice_options=_OPTIONS if config.sped else _OPTIONS[:1],
            answer_options=SPED_OPTIONS if config.sped else (),
            ice_lite=config.lite,
            address=(first.host, first.port) if first is not None else None,
        ),
        media=tuple(media),
        session_id=session_id,
        answer_setup=Setup.PASSIVE if config.passive else Setup.ACTIVE,
        role=_setup(role),
    )


@lru_cache(maxsize=16)
def _data(port: int, max_message_size: int) -> LocalData:
    return LocalData(sctp_port=port, max_message_size=max_message_size)


def _setup(role: DtlsRole | None) -> Setup | None:
    if role is None:
        return None
    return Setup.ACTIVE if role is DtlsRole.CLIENT else Setup.PASSIVE
