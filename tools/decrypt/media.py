"""SRTP and SRTCP of one connection in the clear (RFC 5764 section 4.2).

    exporter ─▶ keying material ─▶ SrtpContext of each side ─▶ RTP, RTCP
                 └ the profile that was negotiated, or, when the capture lacks it, the one that fits

Media that comes before its keys waits, so many datagrams of it. Called by `connection`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from warp.dtls import DtlsRole
from warp.errors import Discard, InvalidConfig
from warp.rtp import is_rtcp
from warp.srtp import SrtpConfig, SrtpContext, SrtpDiscard, SrtpProfile

LABEL: Final = b"EXTRACTOR-dtls_srtp"
_CONFIG: Final = SrtpConfig(replay_window_packets=16_384, max_sources=256)
# AEADs first: a tag of 16 bytes says more than one of 4
_ORDER: Final = (
    SrtpProfile.AEAD_AES_128_GCM,
    SrtpProfile.AEAD_AES_256_GCM,
    SrtpProfile.AES128_CM_SHA1_80,
    SrtpProfile.AES128_CM_SHA1_32,
)


class Exporter(Protocol):
    """The exporter of either version of DTLS."""

    def export(self, label: bytes, length: int) -> bytes:
        """Return `length` bytes for `label`."""


class PlainMedia(NamedTuple):
    """One packet in the clear."""

    role: DtlsRole
    rtcp: bool
    data: bytes


def profiles_to_try(negotiated: int | None) -> tuple[SrtpProfile, ...]:
    """Return the profile that was negotiated, or all in the order in which to try them."""
    if negotiated is None:
        return _ORDER
    try:
        return (SrtpProfile(negotiated),)
    except ValueError:
        return ()


class MediaOpener:
    """Opens what both sides send, once the exporter is known."""

    __slots__ = ("_contexts", "_exporter", "_profiles", "opened", "repeated", "shut")

    def __init__(self, exporter: Exporter, profiles: Iterable[SrtpProfile]) -> None:
        self._exporter = exporter
        self._profiles = tuple(profiles)
        self._contexts: dict[tuple[SrtpProfile, DtlsRole], SrtpContext | None] = {}
        self.opened = 0
        self.repeated = 0
        self.shut = 0

    @property
    def profile(self) -> SrtpProfile | None:
        """What the media is protected with, as far as it is settled."""
        return self._profiles[0] if len(self._profiles) == 1 else None

    def receive(self, data: bytes, roles: Iterable[DtlsRole]) -> PlainMedia | None:
        """Open what one of `roles` has sent; None, and counted, when it stays shut."""
        repeated = False
        for role in roles:
            for profile in self._profiles:
                context = self._context(profile, role)
                if context is None:
                    continue
                rtcp = is_rtcp(data)
                try:
                    plain = context.unprotect_rtcp(data) if rtcp else context.unprotect_rtp(data)
                except Discard as discard:
                    repeated = repeated or discard.reason is SrtpDiscard.REPLAY
                    continue
                self._profiles = (profile,)
                self.opened += 1
                return PlainMedia(role, rtcp, plain)
        if repeated:
            self.repeated += 1
        else:
            self.shut += 1
        return None

    def _context(self, profile: SrtpProfile, role: DtlsRole) -> SrtpContext | None:
        key = (profile, role)
        if key not in self._contexts:
            try:
                material = self._exporter.export(LABEL, profile.keying_material_length)
                # our role is the other one: what `role` sends is inbound
                self._contexts[key] = SrtpContext(
                    profile, material, role is DtlsRole.SERVER, _CONFIG
                )
            except InvalidConfig:
                # a profile that this build of libsrtp cannot do
                self._contexts[key] = None
        return self._contexts[key]
