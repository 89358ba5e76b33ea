"""The test vector of the ticket, as it stands in our Internet-Draft.

Randomness is SHA-256("vec1"), SHA-256("vec2"), ..., each cut to the length that is asked for.
"""

from __future__ import annotations

import hashlib

from warp.crypto import Certificate
from warp.entropy import SeededEntropy

MASTER = bytes(range(32))
KEY_ID = 3
CELL, HINT, REGION = 0x0102, 7, 9
EXPIRY, POLICY = 1_800_000_000, 42
FINGERPRINT = hashlib.sha256(b"client cert").digest()
PAYLOAD_TYPE = 111
NONCE = bytes(8)
CLIENT_SCTP = (0x11223344, 0x55667788)

TICKET = bytes.fromhex(
    "13207f6f9540a5f722eb7e650da72c16b121d228f6ae6ab4c2ccb653193cf9c9b3d18acac596932e721561cd"
    "263a63ed1846f675e3b364964c00f3728c06bd"
)
PASSWORD = "iLio+sJLm8TaCFFEMth1r8qxJMEMbB9i"
UFRAG = (
    "EyB/b5VApfci635lDacsFrEh0ij2rmq0wsy2Uxk8+cmz0YrKxZaTLnIVYc0mOmPtGEb2deOzZJZMAPNyjAa9AW8A"
    "AAAAAAAAAPPZYIXFKodDNEwQd82a2jw4te8bmmD+0Tgp5+89TySjESIzRFVmd4g"
)
SERVER_SCTP = (0xD679A467, 0x53DDA286)
CERTIFICATE = Certificate.generate(SeededEntropy(b"a cell"), 1_790_000_000.0)
"""No part of the vector: tickets do not depend on it."""


class VectorEntropy:
    """The randomness of the vector."""

    def __init__(self) -> None:
        self._asked = 0

    def random_bytes(self, length: int) -> bytes:
        self._asked += 1
        return hashlib.sha256(f"vec{self._asked}".encode()).digest()[:length]
