"""Protection of RTP and RTCP over libsrtp (RFC 3711, RFC 7714).

`warp.peer` makes one context once DTLS has verified the peer, and passes every media datagram
through it. Two libsrtp sessions, one a direction, because libsrtp keeps one template a session.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pylibsrtp import Error, Policy

from warp.errors import Discard, InternalError, InvalidConfig, MessageTooLarge
from warp.srtp import library
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


# srtp_err_status_t of srtp.h; GCM reports a bad tag as a cipher failure
_REASONS = {
    2: SrtpDiscard.MALFORMED,
    7: SrtpDiscard.AUTHENTICATION,
    8: SrtpDiscard.AUTHENTICATION,
    9: SrtpDiscard.REPLAY,
    10: SrtpDiscard.REPLAY,
    14: SrtpDiscard.MALFORMED,
    21: SrtpDiscard.MALFORMED,
    26: SrtpDiscard.REPLAY,
}


_DEFAULT_CONFIG = SrtpConfig()
# names of this module, for what every packet goes through
_free, _protect, _unprotect = library.free, library.protect, library.unprotect
_BUFFER_BYTES, _MAX_RTP_BYTES = library.BUFFER_BYTES, library.MAX_RTP_BYTES


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
        self._outbound: Any = None
        self._inbound: Any = None
        self._sources: tuple[bytes, ...] = ()

    def _open_outbound(self) -> Any:
        self._outbound = _session(
            self.profile, self._our_key, Policy.SSRC_ANY_OUTBOUND, self._config
        )
        self._our_key = b""
        return self._outbound

    def _open_inbound(self) -> Any:
        self._inbound = _session(
            self.profile, self._their_key, Policy.SSRC_ANY_INBOUND, self._config
        )
        self._their_key = b""
        return self._inbound

    def protect_rtp(self, packet: bytes) -> bytes:
        """Return the SRTP packet for an RTP packet; the same packet may be protected again.

        Raises `MessageTooLarge` when the packet exceeds what libsrtp's buffer takes.
        """
        size = len(packet)
        if size > _MAX_RTP_BYTES:
            raise MessageTooLarge(f"a packet has at most {_MAX_RTP_BYTES} bytes")
        session = self._outbound or self._open_outbound()
        try:  # `library.take`, in place
            scratch = _free.pop()
        except IndexError:
            scratch = library.make_scratch()
        data, view, length = scratch
        length[0] = size
        view[0:size] = packet
        status = _protect(session, data, length)
        out: bytes = view[0 : length[0]]
        _free.append(scratch)
        if status:
            raise InternalError(f"libsrtp refused a packet of ours: status {status}")
        return out

    def protect_rtcp(self, packet: bytes) -> bytes:
        """Return the SRTCP packet for a compound RTCP packet. Raises as `protect_rtp`."""
        if len(packet) > library.MAX_RTCP_BYTES:
            raise MessageTooLarge(f"an RTCP packet has at most {library.MAX_RTCP_BYTES} bytes")
        session = self._outbound or self._open_outbound()
        status, out = _run(library.protect_rtcp, session, packet)
        if status:
            raise InternalError(f"libsrtp refused a packet of ours: status {status}")
        return out

    def unprotect_rtp(self, packet: bytes) -> bytes:
        """Return the RTP packet inside an SRTP packet, or raise `Discard(SrtpDiscard)`."""
        source, size = packet[8:12], len(packet)
        known = source in self._sources
        if not known:
            self._check_room()
        if size > _BUFFER_BYTES:
            raise Discard(SrtpDiscard.TOO_LONG)
        session = self._inbound or self._open_inbound()
        try:  # `library.take`, in place
            scratch = _free.pop()
        except IndexError:
            scratch = library.make_scratch()
        data, view, length = scratch
        length[0] = size
        view[0:size] = packet
        status = _unprotect(session, data, length)
        plain: bytes = view[0 : length[0]]
        _free.append(scratch)
        if status:
            raise _discarded(status)
        if not known:
            self._sources += (source,)
        return plain

    def unprotect_rtcp(self, packet: bytes) -> bytes:
        """Return the RTCP packet inside an SRTCP packet, or raise `Discard(SrtpDiscard)`."""
        source = packet[4:8]
        if source not in self._sources:
            self._check_room()
        if len(packet) > _BUFFER_BYTES:
            raise Discard(SrtpDiscard.TOO_LONG)
        status, plain = _run(library.unprotect_rtcp, self._inbound or self._open_inbound(), packet)
        if status:
            raise _discarded(status)
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


def _session(profile: SrtpProfile, key: bytes, kind: int, config: SrtpConfig) -> Any:
    try:
        policy = Policy(key=key, ssrc_type=kind, srtp_profile=_LIBRARY_PROFILES[profile])
        policy.window_size = config.replay_window_packets
        # a packet resent for a NACK (RFC 4585) goes out under its old index
        policy.allow_repeat_tx = True
        return library.open_session(policy)
    except Error as error:
        raise InvalidConfig(f"libsrtp cannot do {profile.name}: {error}") from error


def _run(operation: Callable[..., int], session: Any, packet: bytes) -> tuple[int, bytes]:
    """Return what libsrtp says of a packet, and what it made of it."""
    scratch, size = library.take(), len(packet)
    data, view, length = scratch
    length[0] = size
    view[0:size] = packet
    status = operation(session, data, length)
    out = view[0 : length[0]]
    _free.append(scratch)
    return status, out


def _discarded(status: int) -> Discard:
    return Discard(_REASONS.get(status, SrtpDiscard.OTHER), f"libsrtp status {status}")
