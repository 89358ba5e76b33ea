"""AES on single blocks (FIPS 197): a permutation of 16 bytes under a key, nothing more.

For identifiers that are to look random and be read again by whoever has the key. It hides and
authenticates nothing by itself: equal blocks look equal, and every block means something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

BLOCK_LENGTH: Final = 16
_Permute: TypeAlias = Callable[[bytes], bytes]


class BlockCipher:
    """AES under one key of 16 bytes: `encrypt(block16)` and `decrypt(block16)`.

    Both are the library's own methods of a context that is kept: a fresh one costs twenty times
    the block.
    """

    __slots__ = ("decrypt", "encrypt")

    def __init__(self, key: bytes) -> None:
        if len(key) != BLOCK_LENGTH:
            raise ValueError(f"AES-128 takes a key of {BLOCK_LENGTH} bytes, not {len(key)}")
        cipher = Cipher(AES(key), ECB())
        self.encrypt: Final[_Permute] = cipher.encryptor().update
        self.decrypt: Final[_Permute] = cipher.decryptor().update
