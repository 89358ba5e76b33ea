"""What a peer connection is told. Values only; identity, entropy and traces are arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from warp.crypto import NamedGroup
from warp.dtls import DtlsConfig, DtlsVersion
from warp.errors import InvalidConfig
from warp.ice import IceConfig
from warp.sctp import SctpConfig

DTLS_MTU = 1200  # UDP payload, as Chromium
SCTP_MTU = 1160  # what a record of either version carries within that (37 bytes in DTLS 1.2)
# Least sizes of a ClientHello, so that three times what it took to bring it pay for the server's
# flight and for early media: inside a check; and bare, where a repetition has to be paid for too.
MIN_HELLO_IN_CHECK = 300
MIN_HELLO_TO_LITE = 400
MAX_DTLS_RTO_S = 3.0  # a call cannot wait longer; a path that is dead is consent's business
MIN_CHECK_INTERVAL_S = 0.02  # RFC 8445 section 14.2 allows 5 ms
SPED_MTU = 900  # what fits a check (draft-hancke-webrtc-sped-00 section 6)
_CLASSICAL = (NamedGroup.X25519, NamedGroup.SECP256R1, NamedGroup.SECP384R1)
_SHARED_AT_ONCE = (NamedGroup.X25519MLKEM768, NamedGroup.X25519)  # as browsers do


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """One connection. Every part of WARP can be switched off; peers without it never notice."""

    lite: bool = False  # ICE-lite (RFC 8445 section 2.5)
    sped: bool = True  # DTLS inside checks (draft-hancke-webrtc-sped)
    snap: bool = True  # SCTP INIT in the description (draft-hancke-tsvwg-snap)
    versions: tuple[DtlsVersion, ...] = (DtlsVersion.DTLS13, DtlsVersion.DTLS12)
    groups: tuple[NamedGroup, ...] | None = None  # None: X25519MLKEM768, X25519, P-256, P-384
    passive: bool = True  # answer `passive` to `actpass` (RFC 8842 section 5.3)
    early_data: bool = False  # non-personal media before the client's Finished
    simultaneous_open: bool = True  # without SNAP both ends send INIT (RFC 8841 section 9.3)
    audio: bool = True
    audio_in_order: bool = True  # False: frames as they come, for a player with a jitter buffer
    data: bool = True
    sctp_port: int = 5000
    zero_checksum: bool = True  # RFC 9653: DTLS has already checked every byte
    max_message_size: int = 262_144  # bytes of one message that we take (RFC 8841 section 6)
    wall_offset_s: float = 0.0  # wall time minus monotonic time, for RTCP sender reports
    rtt_hint_s: float | None = None  # round-trip time of an earlier call on this path
    connect_timeout_s: float = 30.0  # from the first description to an authenticated peer

    def __post_init__(self) -> None:
        if not (self.audio or self.data):
            raise InvalidConfig("a connection needs audio, data or both")
        if not 0 < self.sctp_port < 65536:
            raise InvalidConfig(f"sctp_port must be in 1..65535, not {self.sctp_port}")
        if not 0 < self.connect_timeout_s < float("inf"):
            raise InvalidConfig("connect_timeout_s must be above 0, and finite")
        if self.rtt_hint_s is not None and not 0 < self.rtt_hint_s < float("inf"):
            raise InvalidConfig("rtt_hint_s is above 0, or None")
        if not 0 <= self.max_message_size <= 0xFFFFFFFF:
            raise InvalidConfig("max_message_size is 0 (any) to 4294967295 bytes")
        if not self.versions or not set(self.versions) <= set(DtlsVersion):
            raise InvalidConfig("versions must name DTLS12, DTLS13 or both")
        if self.groups is not None and not self.groups:
            raise InvalidConfig("groups must name at least one group, or be None")

    def dtls(self, *, media: bool, active: bool, sped: bool, remote_is_lite: bool) -> DtlsConfig:
        """Return the configuration of the DTLS association; with `media` it must agree on SRTP.

        `sped` tells that both descriptions name SPED: then the hello rides in a check. A full
        peer finds out by its own checks where we are; a lite one needs a hello of some size.
        A lite agent that is the DTLS client leaves the hybrid and the padding out: the response
        with its ClientHello would be larger than what an address may be sent that has not
        answered anything yet.
        """
        min_hello = MIN_HELLO_TO_LITE if remote_is_lite else 0
        return _dtls_config(self, media, active, MIN_HELLO_IN_CHECK if sped else min_hello)

    def ice(self) -> IceConfig:
        """Return the configuration of the ICE agent.

        Where the path is known from an earlier call, a first check that is lost is repeated once
        its answer is overdue, which on a short path is sooner than the usual pace.
        """
        return _ice_config(self.lite, self.rtt_hint_s)

    def sctp(self) -> SctpConfig:
        """Return the configuration of the SCTP association."""
        return _sctp_config(self.sctp_port, self.zero_checksum)


# configurations are values, and checking one costs more than finding it again


@lru_cache(maxsize=32)
def _dtls_config(config: PeerConfig, media: bool, active: bool, min_hello: int) -> DtlsConfig:
    groups = config.groups or (NamedGroup.X25519MLKEM768, *_CLASSICAL)
    responds = config.lite and active
    if responds:
        groups = tuple(g for g in groups if g is not NamedGroup.X25519MLKEM768) or _CLASSICAL
    return DtlsConfig(
        versions=config.versions,
        groups=groups,
        share_groups=tuple(g for g in groups if g in _SHARED_AT_ONCE) or groups[:1],
        early_data=config.early_data,
        deadline_s=config.connect_timeout_s,
        mtu=SPED_MTU if config.sped else DTLS_MTU,
        require_srtp=media,
        min_hello=0 if responds else min_hello,
        max_rto_s=MAX_DTLS_RTO_S,
    )


@lru_cache(maxsize=32)
def _ice_config(lite: bool, rtt_hint_s: float | None) -> IceConfig:
    usual = IceConfig(lite=lite)
    if rtt_hint_s is None:
        return usual
    overdue = max(MIN_CHECK_INTERVAL_S, 1.25 * rtt_hint_s)
    return replace(usual, check_interval_s=min(usual.check_interval_s, overdue))


@lru_cache(maxsize=32)
def _sctp_config(port: int, zero_checksum: bool) -> SctpConfig:
    return SctpConfig(port=port, zero_checksum=zero_checksum, mtu=SCTP_MTU)
