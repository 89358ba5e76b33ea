"""The only place that asks the system for randomness.

Machines take an `Entropy` as an argument, so that a run can be replayed byte for byte from a seed.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol


class Entropy(Protocol):
    """A source of unpredictable bytes."""

    def random_bytes(self, length: int, /) -> bytes:
        """Return `length` fresh bytes."""


class SystemEntropy:
    """The operating system's generator. The one to use outside tests."""

    __slots__ = ()

    # the system's own function: a start asks it thirty times
    random_bytes = staticmethod(os.urandom)


class SeededEntropy:
    """A reproducible stream (SHA-256 in counter mode) for tests and replays. Never for real use."""

    __slots__ = ("_counter", "_pool", "_seed")

    def __init__(self, seed: int | bytes) -> None:
        raw = seed if isinstance(seed, bytes) else str(seed).encode()
        self._seed = hashlib.sha256(raw).digest()
        self._counter = 0
        self._pool = b""

    def random_bytes(self, length: int) -> bytes:
        """Return the next `length` bytes of the stream."""
        while len(self._pool) < length:
            block = self._seed + self._counter.to_bytes(8, "big")
            self._pool += hashlib.sha256(block).digest()
            self._counter += 1
        out, self._pool = self._pool[:length], self._pool[length:]
        return out


# each of the 64 stands for four byte values
_ICE_CHARS = 4 * b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def random_u32(entropy: Entropy, *, nonzero: bool = False) -> int:
    """Return 32 random bits; with `nonzero`, never 0."""
    while True:
        value = int.from_bytes(entropy.random_bytes(4), "big")
        if value or not nonzero:
            return value


def random_u64(entropy: Entropy) -> int:
    """Return 64 random bits."""
    return int.from_bytes(entropy.random_bytes(8), "big")


def random_text(entropy: Entropy, length: int) -> str:
    """Return `length` ice-chars (RFC 8839 section 5.4: letters, digits, plus, slash)."""
    return entropy.random_bytes(length).translate(_ICE_CHARS).decode("ascii")
