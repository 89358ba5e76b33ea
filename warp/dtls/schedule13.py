"""The DTLS 1.3 key schedule (RFC 8446 section 7, with the prefix of RFC 9147 section 5.9).

Called by client13, server13 and the key update.

    0 ─▶ early ─▶ derived ─▶ handshake(ECDHE) ─▶ derived ─▶ master
                               ├─▶ c hs, s hs traffic        ├─▶ c ap, s ap traffic ─▶ traffic upd
                               │    └─▶ finished             │    └─▶ key, iv, sn of epochs 3, 4, …
                               └─▶ key, iv, sn of epoch 2    └─▶ exp master ─▶ exporter
"""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from typing import Final, NamedTuple

from warp.crypto import (
    HASH_LENGTHS,
    AeadKind,
    ExpandKey,
    Hmac,
    hkdf_expand_label,
    hkdf_extract,
    hmac_digest,
)
from warp.dtls.record13 import ReadKeys13, WriteKeys13
from warp.dtls.suites import SUITES13

_IV_LENGTH: Final = 12
_KEY_LABELS: Final = {
    length: ((b"key", length), (b"iv", _IV_LENGTH), (b"sn", length)) for length in (16, 32)
}
"""What the keys of a direction are, by the length of the cipher's (RFC 9147 section 4.2.3)."""
_HANDSHAKE_KEY_LABELS: Final = {
    (key, digest): (*_KEY_LABELS[key], (b"finished", digest))
    for key in (16, 32)
    for digest in (32, 48)
}
"""Those, and the key of the Finished, by the length of the hash too (RFC 8446 section 4.4.4)."""
_HANDSHAKE_LABELS: Final = {
    length: ((b"c hs traffic", length), (b"s hs traffic", length)) for length in (32, 48)
}
_APPLICATION_LABELS: Final = {
    length: ((b"c ap traffic", length), (b"s ap traffic", length), (b"exp master", length))
    for length in (32, 48)
}
"""What follows from the secret of a stage, by the length of the hash (RFC 8446 section 7.1)."""


class TrafficSecrets(NamedTuple):
    """The secrets of one stage, one for each direction."""

    client: bytes
    server: bytes


@lru_cache(maxsize=4)
def _extractor(hash_name: str) -> Hmac:
    """Return what extracts the handshake secret; without a pre-shared key its salt is constant."""
    early = hkdf_extract(b"", bytes(HASH_LENGTHS[hash_name]), hash_name)
    salt = derive_secret(early, b"derived", _empty_hash(hash_name), hash_name)
    return Hmac(salt, hash_name)


@lru_cache(maxsize=4)
def _empty_hash(hash_name: str) -> bytes:
    return hashlib.new(hash_name).digest()


def derive_secret(secret: bytes, label: bytes, digest: bytes, hash_name: str) -> bytes:
    """Return Derive-Secret with a transcript hash that is already made."""
    return hkdf_expand_label(secret, label, digest, len(digest), hash_name)


class Schedule13:
    """The secrets of one handshake, in the order in which they can be known."""

    __slots__ = ("_derived", "aead", "hash_name", "suite")

    def __init__(self, suite: int) -> None:
        parameters = SUITES13[suite]
        self.suite = suite
        self.aead: Final[AeadKind] = parameters.aead
        self.hash_name: Final[str] = parameters.hash_name
        self._derived = b""

    def handshake_secrets(self, shared_secret: bytes, digest: bytes) -> TrafficSecrets:
        """Return the secrets of epoch 2; `digest` covers ClientHello to ServerHello."""
        name = self.hash_name
        key = ExpandKey(_extractor(name).digest(shared_secret), name)
        length = len(digest)
        self._derived = key.expand_label(b"derived", _empty_hash(name), length)
        return TrafficSecrets(*key.expand_labels(_HANDSHAKE_LABELS[length], digest))

    def application_secrets(self, digest: bytes) -> tuple[TrafficSecrets, bytes]:
        """Return the secrets of epoch 3 and the exporter's.

        `digest` covers ClientHello to the server's Finished.
        """
        name = self.hash_name
        length = len(digest)
        master = ExpandKey(hkdf_extract(self._derived, bytes(length), name), name)
        self._derived = b""
        client, server, exporter = master.expand_labels(_APPLICATION_LABELS[length], digest)
        return TrafficSecrets(client, server), exporter

    def handshake_keys(self, secret: bytes) -> tuple[list[bytes], bytes]:
        """Return what the keys of epoch 2 are made of, and the key of the Finished."""
        labels = _HANDSHAKE_KEY_LABELS[self.aead.key_length, len(secret)]
        *material, finished = ExpandKey(secret, self.hash_name).expand_labels(labels)
        return material, finished

    def verify_data(self, finished_key: bytes, digest: bytes) -> bytes:
        """Return the body of a Finished message of the side that owns the key."""
        return hmac_digest(finished_key, digest, self.hash_name)

    def read_keys(self, epoch: int, secret: bytes) -> ReadKeys13:
        """Return the keys to receive in `epoch`."""
        return ReadKeys13(epoch, self.aead, partial(self._keys, secret))

    def write_keys(self, epoch: int, secret: bytes) -> WriteKeys13:
        """Return the keys to send in `epoch`."""
        return WriteKeys13(epoch, self.aead, partial(self._keys, secret))

    def next_secret(self, secret: bytes) -> bytes:
        """Return the traffic secret after a key update (RFC 8446 section 7.2)."""
        return hkdf_expand_label(secret, b"traffic upd", b"", len(secret), self.hash_name)

    def _keys(self, secret: bytes) -> list[bytes]:
        labels = _KEY_LABELS[self.aead.key_length]
        return ExpandKey(secret, self.hash_name).expand_labels(labels)


class Exporter13:
    """Keying material for other protocols (RFC 8446 section 7.5)."""

    __slots__ = ("_hash_name", "_secret")

    def __init__(self, secret: bytes, hash_name: str) -> None:
        self._secret: Final = secret
        self._hash_name: Final = hash_name

    def export(self, label: bytes, length: int) -> bytes:
        """Return `length` bytes for `label`, with the empty context."""
        empty = _empty_hash(self._hash_name)
        derived = derive_secret(self._secret, label, empty, self._hash_name)
        return hkdf_expand_label(derived, b"exporter", empty, length, self._hash_name)
