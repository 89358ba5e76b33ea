"""Protection profiles of DTLS-SRTP (RFC 5764 section 4.1.2, RFC 7714 section 14.2).

`warp.peer` maps the number that DTLS negotiated to a member; `keys` reads the lengths.
"""

from __future__ import annotations

import enum


class SrtpProfile(enum.IntEnum):
    """A profile as numbered by the DTLS-SRTP registry."""

    AES128_CM_SHA1_80 = 0x0001
    AES128_CM_SHA1_32 = 0x0002
    AEAD_AES_128_GCM = 0x0007
    AEAD_AES_256_GCM = 0x0008

    @property
    def key_length(self) -> int:
        """Length of the master key in bytes."""
        return 32 if self is SrtpProfile.AEAD_AES_256_GCM else 16

    @property
    def salt_length(self) -> int:
        """Length of the master salt in bytes (RFC 7714 section 12: 12 for AEAD)."""
        return 12 if self >= SrtpProfile.AEAD_AES_128_GCM else 14

    @property
    def keying_material_length(self) -> int:
        """How many bytes to ask of the exporter: two keys and two salts (RFC 5764 4.2)."""
        return 2 * (self.key_length + self.salt_length)

    @property
    def rtp_overhead(self) -> int:
        """Bytes that protection adds to an RTP packet."""
        if self is SrtpProfile.AES128_CM_SHA1_80:
            return 10
        return 4 if self is SrtpProfile.AES128_CM_SHA1_32 else 16

    @property
    def rtcp_overhead(self) -> int:
        """Bytes that protection adds to an RTCP packet, with the four bytes of E and index.

        SRTCP has an 80-bit tag even in the _32 profile (RFC 5764 section 4.1.2).
        """
        return 14 if self <= SrtpProfile.AES128_CM_SHA1_32 else 20
