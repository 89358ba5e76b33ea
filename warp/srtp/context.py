"""Protection of RTP and RTCP over libsrtp (RFC 3711, RFC 7714). The only user of pylibsrtp.

`warp.peer` makes one context once DTLS has verified the peer, and passes every media datagram
through it. Two libsrtp sessions, one a direction, because libsrtp keeps one template a session.
"""

from __future__ import annotations

import enum
from functools import lru_cache

from pylibsrtp import Error, Policy, Session

from warp.errors import Discard, InternalError, InvalidConfig, MessageTooLarge
from warp.srtp.config import SrtpConfig
from warp.srtp.keys import split_keying_material
from warp.srtp.profiles import SrtpProfile

_LIBRARY_PROFILES = {
    SrtpProfile.AES128_CM_SHA1_80: Policy.SRTP_PROFILE_AES128_CM_SHA1_80,
    SrtpProfile.AES128_CM_SHA1_32: Policy.SRTP_PROFILE_AES128_CM_SHA1_32,
    SrtpProfile.AEAD_AES_128_GCM: Policy.SRTP_PROFILE_AEAD_AES_128_GCM,
    SrtpProfile.AEAD_AES_256_GCM: Policy.SRTP_PROFILE_AEAD_AES_256_GCM,
}


class SrtpDiscard(enum.Enum):
    """Why a protected packet is worthless."""

    AUTHENTICATION = "authentication tag does not match"
    REPLAY = "packet was seen already or is older than the replay window"
    MALFORMED = "not an SRTP or SRTCP packet"
    TOO_LONG = "longer than any packet we accept"
    TOO_MANY_SOURCES = "more synchronisation sources than we keep"
    OTHER = "libsrtp refused the packet"


_REASONS = {
    "authentication failure": SrtpDiscard.AUTHENTICATION,
    # GCM reports a bad tag as a cipher failure
    "cipher failure": SrtpDiscard.AUTHENTICATION,
    "replay check failed (bad index)": SrtpDiscard.REPLAY,
    "replay check failed (index too old)": SrtpDiscard.REPLAY,
    "packet index is too old to consider": SrtpDiscard.REPLAY,
    "unsupported parameter": SrtpDiscard.MALFORMED,
    "error parsing data": SrtpDiscard.MALFORMED,
    "unable to perform desired validation": SrtpDiscard.MALFORMED,
}


_DEFAULT_CONFIG = SrtpConfig()


class SrtpContext:
    """Both directions of one connection's media protection; each is opened by its first packet."""

    __slots__ = (
        "_config", "_inbound", "_our_key", "_outbound", "_sources", "_their_key", "profile",
    )  # fmt: skip

    def __init__(
        self,
        profile: SrtpProfile,
        keying_material: bytes,
        is_client: bool,
        config: SrtpConfig | None = None,
    ) -> None:
        """Derive both directions from the exporter's output; `is_client` is our DTLS role.

        Raises `InvalidConfig` when the keying material does not fit the profile, or when this
        build of libsrtp lacks the profile.
        """
        _check_profile(profile)
        keys = split_keying_material(profile, keying_material)
        self.profile = profile
        self._config = config or _DEFAULT_CONFIG
        self._our_key, self._their_key = keys if is_client else (keys.server, keys.client)
        # each costs several kilobytes, and a direction may long be silent
        self._outbound: Session | None = None
        self._inbound: Session | None = None
        self._sources: tuple[bytes, ...] = ()

    def _open_outbound(self) -> Session:
        session = _session(self.profile, self._our_key, Policy.SSRC_ANY_OUTBOUND, self._config)
        self._outbound, self._our_key = session, b""
        return session

    def _open_inbound(self) -> Session:
        session = _session(self.profile, self._their_key, Policy.SSRC_ANY_INBOUND, self._config)
        self._inbound, self._their_key = session, b""
        return session

    def protect_rtp(self, packet: bytes) -> bytes:
        """Return the SRTP packet for an RTP packet; the same packet may be protected again.

        Raises `MessageTooLarge` when the packet exceeds what libsrtp's buffer takes.
        """
        try:
            return (self._outbound or self._open_outbound()).protect(packet)
        except (Error, ValueError) as error:
            raise _refused(error) from None

    def protect_rtcp(self, packet: bytes) -> bytes:
        """Return the SRTCP packet for a compound RTCP packet. Raises as `protect_rtp`."""
        try:
            return (self._outbound or self._open_outbound()).protect_rtcp(packet)
        except (Error, ValueError) as error:
            raise _refused(error) from None

    def unprotect_rtp(self, packet: bytes) -> bytes:
        """Return the RTP packet inside an SRTP packet, or raise `Discard(SrtpDiscard)`."""
        source = packet[8:12]
        if source not in self._sources:
            self._check_room()
        try:
            plain = (self._inbound or self._open_inbound()).unprotect(packet)
        except (Error, ValueError) as error:
            raise _discarded(error) from None
        if source not in self._sources:
            self._sources += (source,)
        return plain

    def unprotect_rtcp(self, packet: bytes) -> bytes:
        """Return the RTCP packet inside an SRTCP packet, or raise `Discard(SrtpDiscard)`."""
        source = packet[4:8]
        if source not in self._sources:
            self._check_room()
        try:
            plain = (self._inbound or self._open_inbound()).unprotect_rtcp(packet)
        except (Error, ValueError) as error:
            raise _discarded(error) from None
        if source not in self._sources:
            self._sources += (source,)
        return plain

    def _check_room(self) -> None:
        # libsrtp opens a stream for every SSRC that authenticates and never closes one; closing
        # one ourselves would forget its replay window (RFC 3711 section 3.3.2)
        if len(self._sources) >= self._config.max_sources:
            raise Discard(SrtpDiscard.TOO_MANY_SOURCES)


@lru_cache(maxsize=len(SrtpProfile))
def _check_profile(profile: SrtpProfile) -> None:
    """Raise `InvalidConfig` when this build of libsrtp lacks the profile."""
    key = bytes(profile.key_length + profile.salt_length)
    _session(profile, key, Policy.SSRC_ANY_INBOUND, _DEFAULT_CONFIG)


def _session(profile: SrtpProfile, key: bytes, kind: int, config: SrtpConfig) -> Session:
    try:
        policy = Policy(key=key, ssrc_type=kind, srtp_profile=_LIBRARY_PROFILES[profile])
        policy.window_size = config.replay_window_packets
        # a packet resent for a NACK (RFC 4585) goes out under its old index
        policy.allow_repeat_tx = True
        return Session(policy)
    except Error as error:
        raise InvalidConfig(f"libsrtp cannot do {profile.name}: {error}") from error


def _discarded(error: Exception) -> Discard:
    if isinstance(error, ValueError):
        return Discard(SrtpDiscard.TOO_LONG)
    text = str(error)
    return Discard(_REASONS.get(text, SrtpDiscard.OTHER), text)


def _refused(error: Exception) -> Exception:
    if isinstance(error, ValueError):
        return MessageTooLarge("packet exceeds 1356 bytes; send smaller frames")
    return InternalError(f"libsrtp refused a packet of ours: {error}")
