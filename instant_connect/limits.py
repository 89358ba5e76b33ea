"""How often one client may ask: a token bucket for each key, in a bounded number.

    request ─ key: an address, a token ─▶ RateLimit.wait_s ─┬ 0: it is served
                                                            └ seconds until it would be: 429

Called by `io.asgi`. Keys are whatever tells clients apart; of many, those that asked longest ago
are forgotten, and start anew.
"""

from __future__ import annotations

import hashlib
import ipaddress

from warp.errors import InvalidConfig

_IPV6_PREFIX = 64  # what one host of an IPv6 network has at its disposal


class RateLimit:
    """`rate_per_s` requests of each key in the long run, `burst` at once."""

    __slots__ = ("_buckets", "_burst", "_capacity", "_rate_per_s")

    def __init__(self, rate_per_s: float, burst: int, capacity: int = 16_384) -> None:
        if not rate_per_s > 0 or burst < 1 or capacity < 1:
            raise InvalidConfig("a rate is above 0, with a burst of at least one request")
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._capacity = capacity
        self._buckets: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, key: str, now: float) -> float:
        """Return 0.0 and count a request, or return after how long it would be taken."""
        tokens, since = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate_per_s)
        passes = tokens >= 1
        if len(self._buckets) >= self._capacity:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = (tokens - 1 if passes else tokens, now)
        return 0.0 if passes else (1 - tokens) / self._rate_per_s


def address_key(host: str) -> str:
    """Return what a client is known by at an address: its IPv4 address, or its IPv6 /64."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))


def token_key(authorization: str) -> str:
    """Return what a token is counted under: its digest, so that no secret is kept."""
    return hashlib.sha256(authorization.encode("utf-8", "replace")).hexdigest()
