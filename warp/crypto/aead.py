"""AEAD ciphers with a fixed key, and the masks that hide record numbers (RFC 9147 section 4.2.3).

Called for every DTLS record. `Aead.seal`, `Aead.open` and `RecordNumberMask.mask` are the
library's own bound methods where its signature is the one we want: no Python frame in between.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES128, AES256, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import ECB

DecryptError: Final = InvalidTag
"""The ciphertext, its associated data, its nonce or its key is not what was sealed."""

TAG_LENGTH: Final = 16
NONCE_LENGTH: Final = 12

_ECB: Final = ECB()
# the library's class for any length of key asks for it in Python again and again
_AES: Final[dict[int, Callable[[bytes], AES128 | AES256]]] = {16: AES128, 32: AES256}
_Seal: TypeAlias = Callable[[bytes, bytes, bytes], bytes]
_Mask: TypeAlias = Callable[[bytes], bytes]


class AeadKind(enum.Enum):
    """The ciphers in use, named as in RFC 5116 and RFC 8439, with the bytes in a key."""

    AES_128_GCM = ("aes-128-gcm", 16)
    AES_256_GCM = ("aes-256-gcm", 32)
    CHACHA20_POLY1305 = ("chacha20-poly1305", 32)

    key_length: int

    def __init__(self, _: str, key_length: int) -> None:
        # a plain attribute: `value` goes through a descriptor written in Python
        self.key_length = key_length


class Aead:
    """One cipher under one key.

    `seal(nonce, plaintext, aad) -> ciphertext` adds 16 bytes; `open(nonce, ciphertext, aad)`
    gives the plaintext back or raises `DecryptError`. The nonce has 12 bytes, never used twice.
    """

    __slots__ = ("open", "seal")

    def __init__(self, kind: AeadKind, key: bytes) -> None:
        if len(key) != kind.key_length:
            raise ValueError(f"{kind.name} takes a key of {kind.key_length} bytes, not {len(key)}")
        cipher = ChaCha20Poly1305(key) if kind is AeadKind.CHACHA20_POLY1305 else AESGCM(key)
        self.seal: Final[_Seal] = cipher.encrypt
        self.open: Final[_Seal] = cipher.decrypt


class RecordNumberMask:
    """The mask over a record's sequence bytes, made from the first 16 bytes of its ciphertext.

    `mask(sample16) -> bytes`: at least two bytes to XOR (RFC 9147 section 4.2.3). The cipher
    context is kept: a fresh one costs twenty times the block.
    """

    __slots__ = ("mask",)

    def __init__(self, kind: AeadKind, key: bytes) -> None:
        if len(key) != kind.key_length:
            raise ValueError(f"{kind.name} takes a key of {kind.key_length} bytes, not {len(key)}")
        self.mask: Final[_Mask] = (
            _ChaChaMask(key).mask
            if kind is AeadKind.CHACHA20_POLY1305
            else Cipher(_AES[len(key)](key), _ECB).encryptor().update
        )


class _ChaChaMask:
    """ChaCha20's counter (4 bytes, little-endian) and nonce (12) are the sample as it stands."""

    __slots__ = ("_context",)

    def __init__(self, key: bytes) -> None:
        self._context: Final[CipherContext] = Cipher(ChaCha20(key, bytes(16)), None).encryptor()

    def mask(self, sample: bytes) -> bytes:
        self._context.reset_nonce(sample)
        return self._context.update(b"\x00\x00")
