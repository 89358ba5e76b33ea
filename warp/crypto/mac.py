"""Keyed digests: HMAC (RFC 2104) whose key is taken in once, and comparison in fixed time.

STUN's message integrity (RFC 8489 section 14.5) and the key schedules of DTLS are the hot users. A
key of many digests is an `Hmac`: two hashes that have taken in the padded key are copied for each
of them. For a key of few digests, as in a key schedule, that is more than it saves: `padded_key`.
Both are what HMAC is by definition, and cost less than any library's own HMAC takes to start.
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
_from_bytes: Final = int.from_bytes
_FORMS: Final = {
    name: (HASHES[name], length, _from_bytes(b"\x36" * length), _from_bytes(b"\x5c" * length))
    for name, length in {"sha1": 64, "sha256": 64, "sha384": 128, "sha512": 128}.items()
}
"""The hash, the bytes of its block, and the two paddings as numbers."""


def padded_key(key: bytes, hash_name: str) -> tuple[Callable[[bytes], _Hash], bytes, bytes]:
    """Return the hash, and what the key puts before the data and before the data's hash."""
    make, length, inner, outer = _FORMS[hash_name]
    if len(key) > length:
        key = make(key).digest()
    # as a number, so that no table is looked up by the bytes of a secret
    number = _from_bytes(key.ljust(length, b"\0"))
    return make, (number ^ inner).to_bytes(length), (number ^ outer).to_bytes(length)


def hmac_digest(key: bytes, data: bytes, hash_name: str) -> bytes:
    """Return HMAC of `data` (RFC 2104); the hash is named as in `hashlib`."""
    make, inner, outer = padded_key(key, hash_name)
    return make(outer + make(inner + data).digest()).digest()


class Hmac:
    """HMAC under one key that is used many times; the hash is named as in `hashlib`."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes, hash_name: str) -> None:
        make, inner, outer = padded_key(key, hash_name)
        self._inner: Final = make(inner)
        self._outer: Final = make(outer)

    def digest(self, data: bytes) -> bytes:
        """Return the HMAC of `data`."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(data)
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
