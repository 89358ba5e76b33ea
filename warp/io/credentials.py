"""The process's own certificate, key log and wall clock: what no machine may fetch itself."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import lru_cache

from warp.crypto import Certificate
from warp.entropy import Entropy

DRIFT_S = 0.1
"""A wall clock that was set by more than this is told to new sessions."""


def default_certificate(entropy: Entropy) -> Certificate:
    """Return a fresh self-signed certificate, as browsers make them."""
    return Certificate.generate(entropy, time.time())


@lru_cache(maxsize=4)
def _writer(path: str) -> Callable[[str], object]:
    def write(line: str) -> None:
        with open(path, "a", encoding="ascii", opener=_private) as log:
            log.write(line.rstrip("\n") + "\n")

    return write


def _private(path: str, flags: int) -> int:
    """Open a file that nobody else may read if it is new: who reads it hears every call."""
    return os.open(path, flags, 0o600)


def key_log() -> Callable[[str], object] | None:
    """Return a writer for the file that SSLKEYLOGFILE names, or None; a new file has mode 0600."""
    path = os.environ.get("SSLKEYLOGFILE")
    return _writer(path) if path else None


def wall_offset(loop: asyncio.AbstractEventLoop) -> float:
    """Return wall time minus the loop's time, in seconds (RFC 3550 section 4)."""
    return time.time() - loop.time()
