"""What a trace or a log line may show of an address, a ufrag or a ticket."""

from __future__ import annotations

import hashlib


def redact_text(value: str | bytes) -> str:
    """Return a short stable tag for a secret, so that equal values can still be matched."""
    raw = value.encode() if isinstance(value, str) else value
    return "~" + hashlib.sha256(raw).hexdigest()[:8]


def redact_address(host: str) -> str:
    """Return the address with the part that names a host removed (last 8 or 80 bits)."""
    if ":" in host:
        return ":".join(host.split(":")[:3]) + "::/48"
    parts = host.split(".")
    return ".".join([*parts[:3], "x"]) if len(parts) == 4 else "x"
