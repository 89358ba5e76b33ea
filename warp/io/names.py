"""Host names in remote candidates: mDNS only, on aioice's resolver.

Browsers hide their addresses behind `.local` names (draft-ietf-mmusic-mdns-ice-candidates).
Called by whoever feeds remote candidates to a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aioice import mdns

from warp.ice import Candidate


class MdnsResolver:
    """Turns `.local` host names of remote candidates into addresses (RFC 6762).

    Other names are not looked up: a peer must not make us ask the DNS for it.
    """

    __slots__ = ("_attempts", "_create", "_opening", "_timeout_s", "failed")

    def __init__(
        self,
        create: Callable[[], Awaitable[mdns.MDnsProtocol]] = mdns.create_mdns_protocol,
        *,
        attempts: int = 3,
        timeout_s: float = 1.0,
    ) -> None:
        self._create = create
        self._attempts = attempts
        self._timeout_s = timeout_s
        self._opening: asyncio.Future[mdns.MDnsProtocol] | None = None
        self.failed = 0

    async def resolve(self, candidate: Candidate) -> Candidate | None:
        """Return the candidate with a numeric host, or None when its name leads nowhere."""
        if candidate.is_usable:
            return candidate
        host: str | None = None
        if mdns.is_mdns_hostname(candidate.host):
            host = await self._ask(candidate.host)
        if host is None:
            self.failed += 1
            return None
        return replace(candidate, host=host)

    async def _ask(self, name: str) -> str | None:
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._create())
        try:
            protocol = await asyncio.shield(self._opening)
        except OSError:
            return None  # no multicast here, or the port is taken without sharing
        for _ in range(self._attempts):
            host: str | None = await protocol.resolve(name, timeout=self._timeout_s)
            if host is not None:
                return host
        return None

    async def close(self) -> None:
        """Close the multicast socket; harmless when it was never opened."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        try:
            protocol = await opening
        except OSError:
            return
        await protocol.close()
