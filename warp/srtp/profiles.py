"""Protection profiles of DTLS-SRTP (RFC 5764 section 4.1.2, RFC 7714 section 14.2).

`warp.peer` maps the number that DTLS negotiated to a member; `keys` reads the lengths.
"""

from __future__ import annotations

import enum

_LENGTHS = {  # of key and salt; what protection adds to RTP and to RTCP
    0x0001: (16, 14, 10, 14),
    0x0002: (16, 14, 4, 14),
    0x0007: (16, 12, 16, 20),
    0x0008: (32, 12, 16, 20),
}


class SrtpProfile(enum.IntEnum):
    """A profile as numbered by the DTLS-SRTP registry, with the lengths that follow from it."""

    AES128_CM_SHA1_80 = 0x0001
    AES128_CM_SHA1_32 = 0x0002
    AEAD_AES_128_GCM = 0x0007
    AEAD_AES_256_GCM = 0x0008

    key_length: int
    """Length of the master key in bytes."""
    salt_length: int
    """Length of the master salt in bytes (RFC 7714 section 12: 12 for AEAD)."""
    keying_material_length: int
    """How many bytes to ask of the exporter: two keys and two salts (RFC 5764 4.2)."""
    rtp_overhead: int
    """Bytes that protection adds to an RTP packet."""
    rtcp_overhead: int
    """Bytes that protection adds to an RTCP packet, with the four bytes of E and index.

    SRTCP has an 80-bit tag even in the _32 profile (RFC 5764 section 4.1.2).
    """

    def __init__(self, number: int) -> None:
        self.key_length, self.salt_length, self.rtp_overhead, self.rtcp_overhead = _LENGTHS[number]
        self.keying_material_length = 2 * (self.key_length + self.salt_length)
