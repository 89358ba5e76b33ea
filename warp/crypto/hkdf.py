"""HKDF (RFC 5869) and DTLS 1.3's labelled expansion (RFC 8446 section 7.1, RFC 9147 section 5.9).

Called by the DTLS 1.3 key schedule. Hashes are named as in `hashlib` ("sha256", "sha384").
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from typing import Final

_LABEL_PREFIX: Final = b"dtls13"  # no trailing space, unlike TLS (RFC 9147 section 5.9)
HASH_LENGTHS: Final = {"sha256": 32, "sha384": 48, "sha512": 64}


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
def _info_head(label: bytes, length: int) -> bytes:
    name = _LABEL_PREFIX + label
    return length.to_bytes(2, "big") + len(name).to_bytes(1, "big") + name


def hkdf_expand_label(
    secret: bytes, label: bytes, context: bytes, length: int, hash_name: str
) -> bytes:
    """Return HKDF-Expand-Label with DTLS 1.3's prefix (RFC 9147 section 5.9).

    `context` is at most 255 bytes (usually a transcript hash, or empty).
    """
    info = b"%b%c%b" % (_info_head(label, length), len(context), context)
    if length <= HASH_LENGTHS[hash_name]:  # always, in DTLS 1.3: keys are shorter than hashes
        return hmac.digest(secret, info + b"\x01", hash_name)[:length]
    return hkdf_expand(secret, info, length, hash_name)
