"""A call by its first datagram: a ticket ahead of time, an answer that we write ourselves.

    GET …/v1/instant ─▶ bundle ─ ticket ─▶ compose_call ─▶ first datagram
                                             └ headers ──▶ POST of the same offer, beside it

What an Instant Connect client does, once. Called by `run` (the bundle) and `attempt` (the call).
"""

from __future__ import annotations

import urllib.parse
from typing import Final, NamedTuple

from instant_connect.bundle import Bundle, SealedTicket, parse_bundle
from instant_connect.client import InstantCall, compose_call
from instant_connect.io.caller import BUNDLE_PATH, CALLS_PATH
from warp.crypto import Certificate
from warp.entropy import SystemEntropy
from warp.errors import InvalidConfig
from warp_tools.failure import ToolFailure
from warp_tools.signalling import PATH, fetch

_DOORS: Final = (PATH, CALLS_PATH, BUNDLE_PATH)


class Ticket(NamedTuple):
    """What one call needs."""

    bundle: Bundle
    sealed: SealedTicket

    def compose(self, offer: str, certificate: Certificate) -> InstantCall:
        """Return the answer to our own offer. Raises ToolFailure, one line."""
        try:
            return compose_call(self.bundle, self.sealed, offer, certificate, SystemEntropy())
        except InvalidConfig as error:
            raise ToolFailure(f"the bundle does not fit our offer: {error}") from error


def _beside(url: str, path: str) -> str:
    """Return the address of another door of the same application; empty when it is not known."""
    parts = urllib.parse.urlsplit(url)
    given = parts.path.rstrip("/") or PATH
    base = next((given.removesuffix(door) for door in _DOORS if given.endswith(door)), None)
    if base is None:
        return ""
    return urllib.parse.urlunsplit(parts._replace(path=base + path, query="", fragment=""))


def offers_url(url: str) -> str:
    """Return where offers go: the address itself, unless it is that of the bundles."""
    path = urllib.parse.urlsplit(url).path.rstrip("/")
    return _beside(url, CALLS_PATH) if path.endswith(BUNDLE_PATH) else url


def bundle_url(url: str) -> str:
    """Return where bundles would be; empty when the address does not tell."""
    return _beside(url, BUNDLE_PATH)


async def fetch_ticket(url: str, token: str) -> Ticket | None:
    """Return a ticket, or None from a server that gives none. Never raises."""
    address = bundle_url(url)
    text = await fetch(address, token=token) if address else None
    if text is None:
        return None
    try:
        bundle = parse_bundle(text)
    except InvalidConfig:
        return None
    return Ticket(bundle, bundle.tickets[0]) if bundle.tickets else None
