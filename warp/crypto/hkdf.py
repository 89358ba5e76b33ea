"""HKDF (RFC 5869) and DTLS 1.3's labelled expansion (RFC 8446 section 7.1, RFC 9147 section 5.9).

Called by the DTLS 1.3 key schedule. Hashes are named as in `hashlib` ("sha256", "sha384").
A secret that is expanded more than once is worth an `ExpandKey`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from warp.crypto.mac import hmac_digest, padded_key

_LABEL_PREFIX: Final = b"dtls13"  # no trailing space, unlike TLS (RFC 9147 section 5.9)
HASH_LENGTHS: Final = {"sha256": 32, "sha384": 48, "sha512": 64}


def hkdf_extract(salt: bytes, input_key: bytes, hash_name: str) -> bytes:
    """Return the pseudorandom key of `input_key` (RFC 5869 section 2.2); an empty salt is zeros."""
    return hmac_digest(salt, input_key, hash_name)


def hkdf_expand(key: bytes, info: bytes, length: int, hash_name: str) -> bytes:
    """Return `length` bytes of output key material (RFC 5869 section 2.3).

    Raises ValueError beyond 255 hash blocks.
    """
    if length > 255 * HASH_LENGTHS[hash_name]:
        raise ValueError(f"HKDF cannot expand to {length} bytes")
    make, inner, outer = padded_key(key, hash_name)
    out = block = b""
    counter = 0
    while len(out) < length:
        counter += 1
        data = block + info + bytes((counter,))
        block = make(outer + make(inner + data).digest()).digest()  # `hmac_digest`, in place
        out += block
    return out[:length]


@lru_cache(maxsize=16)
def _info_heads(
    labels: tuple[tuple[bytes, int], ...], context_length: int
) -> tuple[tuple[bytes, int], ...]:
    return tuple([(_info_head(label, length, context_length), length) for label, length in labels])


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
    return hkdf_expand(secret, _info_head(label, length, len(context)) + context, length, hash_name)


class ExpandKey:
    """One secret under which several labels are expanded: it is padded once for all of them."""

    __slots__ = ("_block_length", "_padded")

    def __init__(self, secret: bytes, hash_name: str) -> None:
        self._padded: Final = padded_key(secret, hash_name)
        self._block_length: Final = HASH_LENGTHS[hash_name]

    def expand_label(self, label: bytes, context: bytes, length: int) -> bytes:
        """Return what `hkdf_expand_label` returns. Raises ValueError beyond one hash block."""
        if length > self._block_length:
            raise ValueError(f"{length} bytes are more than one block")
        return self.expand_labels(((label, length),), context)[0]

    def expand_labels(
        self, labels: tuple[tuple[bytes, int], ...], context: bytes = b""
    ) -> list[bytes]:
        """Return the expansions of several labels, each with its length, of one block at most."""
        make, inner, outer = self._padded
        tail = context + b"\x01"
        return [  # `hmac_digest`, in place
            make(outer + make(inner + head + tail).digest()).digest()[:length]
            for head, length in _info_heads(labels, len(context))
        ]
