"""The pseudorandom function of TLS 1.2 (RFC 5246 section 5), for the DTLS 1.2 key schedule."""

from __future__ import annotations

import hmac


def prf12(secret: bytes, label: bytes, seed: bytes, length: int, hash_name: str) -> bytes:
    """Return `length` bytes of P_hash(secret, label + seed); the hash is the suite's."""
    labelled = label + seed
    out = b""
    chained = labelled
    while len(out) < length:
        chained = hmac.digest(secret, chained, hash_name)
        out += hmac.digest(secret, chained + labelled, hash_name)
    return out[:length]
