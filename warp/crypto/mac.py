"""Keyed digests: one-shot HMAC, contexts keyed once and copied per use, comparison in fixed time.

STUN's message integrity (RFC 8489 section 14.5) is the hot user: a session has one key a side
and signs or checks every connectivity check with it. `cryptography`'s HMAC.copy() costs half of
what `hmac` needs to start over.
"""

from __future__ import annotations

import hmac
from typing import ClassVar, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.hmac import HMAC

constant_time_equal: Final = hmac.compare_digest
"""`constant_time_equal(a: bytes, b: bytes) -> bool`: how long it takes tells nothing of where."""


def hmac_digest(key: bytes, data: bytes, hash_name: str) -> bytes:
    """Return HMAC of `data` (RFC 2104); the hash is named as in `hashlib`."""
    return hmac.digest(key, data, hash_name)


class _KeyedHmac:
    """A context that has taken in its key; `digest` copies it."""

    __slots__ = ("_keyed",)

    _algorithm: ClassVar[hashes.HashAlgorithm]

    def __init__(self, key: bytes) -> None:
        self._keyed: Final = HMAC(key, self._algorithm)

    def digest(self, *parts: bytes) -> bytes:
        """Return the HMAC of the parts put behind one another."""
        context = self._keyed.copy()
        for part in parts:
            context.update(part)
        return context.finalize()


class HmacSha1(_KeyedHmac):
    """HMAC-SHA1 with a key used many times; digests have 20 bytes."""

    __slots__ = ()

    # SHA-1 is what STUN prescribes (RFC 8489 section 14.5); HMAC does not need collisions hard
    _algorithm: ClassVar = hashes.SHA1()


class HmacSha256(_KeyedHmac):
    """HMAC-SHA256 with a key used many times; digests have 32 bytes."""

    __slots__ = ()

    _algorithm: ClassVar = hashes.SHA256()
