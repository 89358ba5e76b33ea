"""HKDF (RFC 5869) and DTLS 1.3's labelled expansion (RFC 8446 section 7.1, RFC 9147 section 5.9).

Called by the DTLS 1.3 key schedule. Hashes are named as in `hashlib` ("sha256", "sha384").
A secret that is expanded more than once is worth an `ExpandKey`.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.hmac import HMAC

_LABEL_PREFIX: Final = b"dtls13"  # no trailing space, unlike TLS (RFC 9147 section 5.9)
HASH_LENGTHS: Final = {"sha256": 32, "sha384": 48, "sha512": 64}
_ALGORITHMS: Final[dict[str, hashes.HashAlgorithm]] = {
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}


def hkdf_extract(salt: bytes, input_key: bytes, hash_name: str) -> bytes:
    """Return the pseudorandom key of `input_key` (RFC 5869 section 2.2); an empty salt is zeros."""
    return hmac.digest(salt or bytes(HASH_LENGTHS[hash_name]), input_key, hash_name)


def hkdf_expand(key: bytes, info: bytes, length: int, hash_name: str) -> bytes:
    """Return `length` bytes of output key material (RFC 5869 section 2.3).

    Raises ValueError beyond 255 hash blocks.
    """
    block_length = HASH_LENGTHS[hash_name]
    if length <= block_length:
        # one block is one HMAC: nothing to chain, no objects to churn
        return hmac.digest(key, info + b"\x01", hash_name)[:length]
    if length > 255 * block_length:
        raise ValueError(f"HKDF cannot expand to {length} bytes")
    out = block = b""
    counter = 0
    while len(out) < length:
        counter += 1
        block = hmac.digest(key, block + info + bytes((counter,)), hash_name)
        out += block
    return out[:length]


@lru_cache(maxsize=64)
def _info_head(label: bytes, length: int, context_length: int) -> bytes:
    name = _LABEL_PREFIX + label
    return length.to_bytes(2, "big") + bytes((len(name),)) + name + bytes((context_length,))


def hkdf_expand_label(
    secret: bytes, label: bytes, context: bytes, length: int, hash_name: str
) -> bytes:
    """Return HKDF-Expand-Label with DTLS 1.3's prefix (RFC 9147 section 5.9).

    `context` is at most 255 bytes (usually a transcript hash, or empty).
    """
    info = _info_head(label, length, len(context)) + context
    if length <= HASH_LENGTHS[hash_name]:  # always, in DTLS 1.3: keys are shorter than hashes
        return hmac.digest(secret, info + b"\x01", hash_name)[:length]
    return hkdf_expand(secret, info, length, hash_name)


class ExpandKey:
    """One secret under which several labels are expanded: its HMAC context is keyed once."""

    __slots__ = ("_block_length", "_keyed")

    def __init__(self, secret: bytes, hash_name: str) -> None:
        self._keyed: Final = HMAC(secret, _ALGORITHMS[hash_name])
        self._block_length: Final = HASH_LENGTHS[hash_name]

    def expand_label(self, label: bytes, context: bytes, length: int) -> bytes:
        """Return what `hkdf_expand_label` returns. Raises ValueError beyond one hash block."""
        if length > self._block_length:
            raise ValueError(f"{length} bytes are more than one block")
        keyed = self._keyed.copy()
        keyed.update(_info_head(label, length, len(context)) + context + b"\x01")
        return keyed.finalize()[:length]

    def expand_labels(self, labels: Iterable[tuple[bytes, int]]) -> list[bytes]:
        """Return the expansions of several labels, each with its length, without a context."""
        found = []
        for label, length in labels:
            keyed = self._keyed.copy()
            keyed.update(_info_head(label, length, 0) + b"\x01")
            found.append(keyed.finalize()[:length])
        return found
