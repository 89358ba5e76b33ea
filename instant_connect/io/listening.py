"""Opens the port of an Instant Connect server: the socket, the sans-IO half, and both together.

    server = await listen_instant("0.0.0.0", 3478, keyring=keyring)

Called by applications, and by every process of several that share a port.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from instant_connect.admission import AdmissionConfig, Admit
from instant_connect.host import Host, HostConfig
from instant_connect.io.arrival import Greet
from instant_connect.io.server import InstantServer
from instant_connect.keyring import Keyring
from instant_connect.profile import Terms, make_terms
from warp.entropy import Entropy, SystemEntropy
from warp.errors import InvalidConfig
from warp.io import Server, ServerConfig, listen
from warp.io.credentials import key_log, wall_offset
from warp.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantConfig:
    """What an Instant Connect server is told."""

    host: HostConfig = field(default_factory=HostConfig)
    limits: AdmissionConfig = field(default_factory=AdmissionConfig)
    server: ServerConfig = field(default_factory=lambda: ServerConfig(early_data=True))

    def __post_init__(self) -> None:
        if not (self.server.lite and self.server.passive):
            raise InvalidConfig("an Instant Connect server is lite, and passive in DTLS")
        if not (self.server.audio and self.server.data):
            raise InvalidConfig("an Instant Connect server takes audio and channels")


async def listen_instant(
    host: str = "0.0.0.0",
    port: int = 0,
    *,
    keyring: Keyring | None = None,
    config: InstantConfig | None = None,
    admit: Admit | None = None,
    greet: Greet | None = None,
    entropy: Entropy | None = None,
    trace: Trace | None = None,
    reuse_port: bool = False,
) -> InstantServer:
    """Open one UDP port (0: any) and return the server on it; addresses as for `warp.io.listen`.

    Servers that share a `keyring` open each other's tickets; without one the keys are this
    server's alone and end with it. `admit` is asked about every ticket, and `greet` is called for
    every session that begins. Raises what `warp.io.listen` raises.
    """
    config = config or InstantConfig()
    source = entropy or SystemEntropy()
    offset = wall_offset(asyncio.get_running_loop())
    ring = keyring or Keyring.generate(source, asyncio.get_running_loop().time() + offset)
    inner = await listen(
        host,
        port,
        config=config.server,
        certificate=ring.current.certificate,
        entropy=source,
        trace=trace,
        reuse_port=reuse_port,
    )
    most = min(config.limits.max_sessions, config.server.max_sessions)
    made = Host(
        ring,
        config.host,
        peer=inner.present_config(),
        terms=_terms(inner),
        entropy=source,
        limits=replace(config.limits, max_sessions=most),
        admit=admit,
        wall_offset_s=offset,
        trace=trace,
        keylog=key_log(),
    )
    return InstantServer(inner, made, greet=greet)


def _terms(server: Server) -> Terms:
    """Return what every answer of a server says, and its bundles with it."""
    config = server.present_config()
    return make_terms(
        tuple((candidate.host, candidate.port) for candidate in server.candidates),
        config.sctp(),
        max_message_size=config.max_message_size,
        sped=config.sped,
        snap=config.snap,
    )
