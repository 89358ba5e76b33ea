"""Keys and digests that authenticate a STUN message (RFC 8489 sections 9, 14.5 and 14.7).

The HMAC itself is handed in (`IntegrityKey`), so that its keyed context is made once a session.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Protocol

FINGERPRINT_XOR = 0x5354554E
INTEGRITY_ATTRIBUTE_BYTES = 24
FINGERPRINT_ATTRIBUTE_BYTES = 8


class IntegrityKey(Protocol):
    """A keyed HMAC context; `warp.crypto.HmacSha1` and `HmacSha256` are such."""

    def digest(self, data: bytes) -> bytes:
        """Return the HMAC of `data`."""


def long_term_key(username: str, realm: str, password: str) -> bytes:
    """Return the HMAC key of a TURN credential (RFC 8489 section 9.2.2).

    MD5 is what the protocol prescribes; it derives a key here and protects nothing by itself.
    """
    text = f"{username}:{realm}:{password}".encode()
    return hashlib.md5(text, usedforsecurity=False).digest()


def fingerprint_of(head: bytes) -> int:
    """Return the FINGERPRINT over `head`, whose length field already counts the attribute."""
    return zlib.crc32(head) ^ FINGERPRINT_XOR
