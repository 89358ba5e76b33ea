"""Whom `warp call` calls, and which way: looked at before anything is sent.

Called by `call` and the command line.
"""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

from warp_tools.failure import CommandRefused
from warp_tools.signalling import PATH, check_token


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlan:
    """Whom to call, and which way."""

    url: str
    token: str = field(default="", repr=False)
    instant: bool = False
    """By tickets, as far as there are any."""
    wallet: Path | None = None
    """File that keeps tickets for later calls."""
    timeout_s: float = 15.0
    trace: Path | None = None
    """File for what our machines did (qlog's JSON-SEQ): `warp trace` draws it."""

    def check(self) -> None:
        """Raise ToolFailure, one line, for what cannot be called; no secret is repeated."""
        check_token(self.token)
        _check_address("--instant" if self.instant else "--url", self.url)
        if self.instant and urllib.parse.urlsplit(self.url).path.rstrip("/").endswith(PATH):
            raise CommandRefused(f"--instant names the server: leave out {PATH}")


def _check_address(option: str, url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https"):
        shown = f"{url[:200]!r} is not an http(s) address" if "@" not in url else "no address"
        raise CommandRefused(f"{option}: {shown}; one is http://127.0.0.1:8080")
    if parts.username is not None or parts.password is not None:
        raise CommandRefused(
            f"{option}: leave user and password out of the address, and use --token"
        )
    if not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        raise CommandRefused(
            f"{option}: {url[:200]!r} has more than ASCII in it: "
            "write %20 for a blank and its kind, xn-- for a name"
        )
