"""The pseudorandom function of TLS 1.2 (RFC 5246 section 5), for the DTLS 1.2 key schedule."""

from __future__ import annotations

from warp.crypto.mac import Hmac


def prf12(secret: bytes, label: bytes, seed: bytes, length: int, hash_name: str) -> bytes:
    """Return `length` bytes of P_hash(secret, label + seed); the hash is the suite's."""
    labelled = label + seed
    keyed = Hmac(secret, hash_name)
    out = b""
    chained = labelled
    while len(out) < length:
        chained = keyed.digest(chained)
        out += keyed.digest(chained + labelled)
    return out[:length]
