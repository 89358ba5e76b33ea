"""Splitting of the exporter's output (RFC 5764 section 4.2)."""

from __future__ import annotations

import pytest

from warp.errors import InvalidConfig
from warp.srtp import SrtpProfile, split_keying_material

LENGTHS = {
    SrtpProfile.AES128_CM_SHA1_80: (16, 14),
    SrtpProfile.AES128_CM_SHA1_32: (16, 14),
    SrtpProfile.AEAD_AES_128_GCM: (16, 12),
    SrtpProfile.AEAD_AES_256_GCM: (32, 12),
}


@pytest.mark.parametrize("profile", SrtpProfile)
def test_lengths_of_the_registry(profile: SrtpProfile) -> None:
    assert (profile.key_length, profile.salt_length) == LENGTHS[profile]
    assert profile.keying_material_length == 2 * sum(LENGTHS[profile])


@pytest.mark.parametrize("profile", SrtpProfile)
def test_client_key_server_key_client_salt_server_salt(profile: SrtpProfile) -> None:
    key, salt = LENGTHS[profile]
    material = b"K" * key + b"k" * key + b"S" * salt + b"s" * salt
    keys = split_keying_material(profile, material)
    assert keys.client == b"K" * key + b"S" * salt
    assert keys.server == b"k" * key + b"s" * salt


@pytest.mark.parametrize("profile", SrtpProfile)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_length_is_refused(profile: SrtpProfile, change: int) -> None:
    with pytest.raises(InvalidConfig, match=profile.name):
        split_keying_material(profile, bytes(profile.keying_material_length + change))


def test_numbers_are_those_of_the_registry() -> None:
    assert [int(profile) for profile in SrtpProfile] == [1, 2, 7, 8]
