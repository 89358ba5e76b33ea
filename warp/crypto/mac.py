"""Keyed digests: HMAC (RFC 2104) whose key is taken in once, and comparison in fixed time.

STUN's message integrity (RFC 8489 section 14.5) and the key schedules of DTLS are the hot users: a
session has few keys and many digests under each. Two hashes that have taken in the padded key are
copied for each digest. That is what HMAC is by definition, and costs half of what any library's
own HMAC takes to start.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hashlib import _Hash

constant_time_equal: Final = hmac.compare_digest
"""`constant_time_equal(a: bytes, b: bytes) -> bool`: how long it takes tells nothing of where."""

HASHES: Final[dict[str, Callable[[bytes], _Hash]]] = {
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
    "sha384": hashlib.sha384,
    "sha512": hashlib.sha512,
}
_BLOCK_LENGTHS: Final = {"sha1": 64, "sha256": 64, "sha384": 128, "sha512": 128}
_INNER: Final = {length: int.from_bytes(b"\x36" * length, "big") for length in (64, 128)}
_OUTER: Final = {length: int.from_bytes(b"\x5c" * length, "big") for length in (64, 128)}


class Hmac:
    """HMAC under one key; the hash is named as in `hashlib`."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes, hash_name: str) -> None:
        make, length = HASHES[hash_name], _BLOCK_LENGTHS[hash_name]
        if len(key) > length:
            key = make(key).digest()
        # as a number, so that no table is looked up by the bytes of a secret
        number = int.from_bytes(key, "big") << 8 * (length - len(key))
        self._inner: Final = make((number ^ _INNER[length]).to_bytes(length, "big"))
        self._outer: Final = make((number ^ _OUTER[length]).to_bytes(length, "big"))

    def digest(self, *parts: bytes) -> bytes:
        """Return the HMAC of the parts put behind one another."""
        inner, outer = self._inner.copy(), self._outer.copy()
        for part in parts:
            inner.update(part)
        outer.update(inner.digest())
        return outer.digest()


class HmacSha1(Hmac):
    """HMAC-SHA1 with a key used many times; digests have 20 bytes."""

    __slots__ = ()

    def __init__(self, key: bytes) -> None:
        # SHA-1 is what STUN prescribes (RFC 8489 section 14.5); HMAC does not need collisions hard
        super().__init__(key, "sha1")


class HmacSha256(Hmac):
    """HMAC-SHA256 with a key used many times; digests have 32 bytes."""

    __slots__ = ()

    def __init__(self, key: bytes) -> None:
        super().__init__(key, "sha256")


def hmac_digest(key: bytes, data: bytes, hash_name: str) -> bytes:
    """Return HMAC of `data` (RFC 2104); the hash is named as in `hashlib`."""
    return Hmac(key, hash_name).digest(data)
