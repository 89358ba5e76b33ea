"""Which pages may call: origins, preflights, and the headers of the answers (Fetch, section 3.2).

A page of our own origin may, pages elsewhere only when configured, and what is no page (curl,
another server) sends no Origin. Refusing others matters beyond reading answers: a form posts
across origins without asking. Called by `io.asgi` for every request; pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from instant_connect.exchange import Headers, Refusal

_ALLOWED_HEADERS: Final = "Authorization, Content-Type, If-Match, Instant-Ufrag, Instant-Proof"
_EXPOSED: Final = "Location, ETag, Link, Accept-Patch, Retry-After, Instant-Status"
_MAX_AGE_S: Final = 600


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser asks if a request may be made."""
    return method == "OPTIONS" and "access-control-request-method" in headers and (
        "origin" in headers
    )  # fmt: skip


def cors_headers(headers: Mapping[str, str], origins: Sequence[str]) -> Headers:
    """Return what lets a page of a configured origin read the answer; nothing for others."""
    origin = headers.get("origin")
    if not origins:
        return ()
    vary = ("Vary", "Origin")
    if origin is None or not is_listed(origin, origins):
        return (vary,)
    shown = "*" if "*" in origins else origin
    return (
        ("Access-Control-Allow-Origin", shown),
        ("Access-Control-Expose-Headers", _EXPOSED),
        vary,
    )


def preflight_headers(methods: Sequence[str]) -> Headers:
    """Return what a preflight is told beside `cors_headers`."""
    return (
        ("Access-Control-Allow-Methods", ", ".join(methods)),
        ("Access-Control-Allow-Headers", _ALLOWED_HEADERS),
        ("Access-Control-Max-Age", str(_MAX_AGE_S)),
    )


def is_listed(origin: str, origins: Sequence[str]) -> bool:
    """Whether an origin is among those configured."""
    return "*" in origins or origin in origins


def require_origin(headers: Mapping[str, str], origins: Sequence[str]) -> None:
    """Raise `Refusal` (403) when a page of a foreign origin asks.

    Browsers say themselves how the page relates to us (Fetch Metadata) wherever they trust the
    connection; else the host of its origin is compared with the one that was asked.
    """
    origin = headers.get("origin")
    if origin is None or is_listed(origin, origins):
        return
    site = headers.get("sec-fetch-site")
    if site is not None:
        own = site in ("same-origin", "none")
    else:
        own = origin.partition("://")[2] == headers.get("host")
    if not own:
        raise Refusal(
            403,
            "origin_not_allowed",
            f"pages of {origin[:80]!r} may not call here: add the origin to cors_origins",
        )
