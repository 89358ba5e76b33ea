"""SRTP with keys from an exporter: the profile that was agreed on, or the one that fits."""

from __future__ import annotations

import pytest

from warp.dtls import DtlsRole
from warp.dtls.schedule13 import Exporter13
from warp.rtp.packet import RtpPacket
from warp.srtp import SrtpContext, SrtpProfile
from warp_tools.decrypt.handshake import ROLES
from warp_tools.decrypt.media import LABEL, MediaOpener, profiles_to_try

EXPORTER = Exporter13(bytes(range(32)), "sha256")
PACKET = RtpPacket(111, 1, 960, 7, b"payload").serialize()
REPORT = bytes.fromhex("81c90007000000070000000800000000000000010000000000000000000000000000")[:32]


def context(profile: SrtpProfile, role: DtlsRole) -> SrtpContext:
    """Return what one side protects with."""
    material = EXPORTER.export(LABEL, profile.keying_material_length)
    return SrtpContext(profile, material, role is DtlsRole.CLIENT)


@pytest.mark.parametrize("profile", list(SrtpProfile))
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("negotiated", [True, False])
def test_either_side_under_every_profile(
    profile: SrtpProfile, role: DtlsRole, negotiated: bool
) -> None:
    sender = context(profile, role)
    opener = MediaOpener(EXPORTER, profiles_to_try(profile if negotiated else None))
    found = opener.receive(sender.protect_rtp(PACKET), ROLES)
    assert found == (role, False, PACKET)
    assert opener.profile is profile
    found = opener.receive(sender.protect_rtcp(REPORT), (role,))
    assert found == (role, True, REPORT)
    assert (opener.opened, opener.shut, opener.repeated) == (2, 0, 0)


def test_copies_and_strangers_are_told_apart() -> None:
    sender = context(SrtpProfile.AEAD_AES_128_GCM, DtlsRole.CLIENT)
    opener = MediaOpener(EXPORTER, profiles_to_try(None))
    protected = sender.protect_rtp(PACKET)
    opener.receive(protected, ROLES)
    assert opener.receive(protected, ROLES) is None
    other = sender.protect_rtp(RtpPacket(111, 2, 1920, 7, b"payload").serialize())
    assert opener.receive(other[:-1] + b"?", ROLES) is None
    assert opener.receive(b"\x80\x6f", ROLES) is None
    assert (opener.opened, opener.shut, opener.repeated) == (1, 2, 1)


def test_a_profile_that_nobody_knows_opens_nothing() -> None:
    assert profiles_to_try(0x7777) == ()
    opener = MediaOpener(EXPORTER, profiles_to_try(0x7777))
    assert opener.receive(PACKET, ROLES) is None
    assert (opener.shut, opener.profile) == (1, None)
