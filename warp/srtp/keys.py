"""From the exporter's bytes to the two master keys (RFC 5764 section 4.2).

    keying material:  client key | server key | client salt | server salt
    each direction:   key | salt           (the shape libsrtp wants)

Called by `context`, once a connection.
"""

from __future__ import annotations

from typing import NamedTuple

from warp.errors import InvalidConfig
from warp.srtp.profiles import SrtpProfile


class MasterKeys(NamedTuple):
    """Master key followed by master salt, for what each side sends."""

    client: bytes
    server: bytes


def split_keying_material(profile: SrtpProfile, keying_material: bytes) -> MasterKeys:
    """Return what the DTLS client and the DTLS server protect with.

    Raises `InvalidConfig` when the length is not the profile's (`keying_material_length`).
    """
    if len(keying_material) != profile.keying_material_length:
        raise InvalidConfig(
            f"{profile.name} needs {profile.keying_material_length} bytes of keying material, "
            f"got {len(keying_material)}"
        )
    key, salt = profile.key_length, profile.salt_length
    salts = 2 * key
    return MasterKeys(
        keying_material[:key] + keying_material[salts : salts + salt],
        keying_material[key:salts] + keying_material[salts + salt :],
    )
