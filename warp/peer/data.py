"""SCTP over DTLS, and the channels on it: how the association starts, and when.

    agreement ─▶ SNAP: both INIT chunks are known, nothing is exchanged (SNAP section 6)
               ─▶ classic: INIT from both ends, or from the DTLS client only
    DTLS server 1.3 may write ─▶ its INIT
    DTLS connected ─▶ start ─▶ channels open ─▶ messages

Called by `warp.peer.bundle`. Packets that come before the start are held by the association.
"""

from __future__ import annotations

from functools import lru_cache

from warp.contract import Event
from warp.datachannel import (
    Channel,
    ChannelConfig,
    ChannelOpened,
    ChannelRegistry,
    RegistryConfig,
)
from warp.entropy import Entropy
from warp.errors import WarpError
from warp.peer.config import PeerConfig
from warp.sctp import Association, InitChunk, PeerAborted, local_init, parse_init
from warp.sdp import DataParameters, SnapMode, SnapNegotiation
from warp.trace import Trace

USER_INITIATED_ABORT = 12


@lru_cache(maxsize=16)
def _registry_config(receive_limit: int) -> RegistryConfig:
    return RegistryConfig(receive_limit=receive_limit)


class DataTransport:
    """The data-channel half of a connection. It exists from the start, so that channels may."""

    __slots__ = (
        "_agreed",
        "_association",
        "_connected",
        "_is_client",
        "_registry",
        "_remote_init",
        "_simultaneous",
        "_started",
        "_waits",
        "local_init",
        "milestones",
    )

    def __init__(
        self,
        config: PeerConfig,
        entropy: Entropy,
        trace: Trace | None,
        *,
        init: InitChunk | None = None,
    ) -> None:
        """`init` is the INIT that our description already says, if it does."""
        sctp = config.sctp()
        chunk = init
        if chunk is None and config.snap and config.data:
            chunk = local_init(sctp, entropy)
        self.local_init = chunk.to_bytes() if chunk is not None else None
        self._association = Association(sctp, local_init=chunk, entropy=entropy, trace=trace)
        self._registry = ChannelRegistry(
            self._association,
            _registry_config(config.max_message_size),
            trace=trace,
        )
        self._simultaneous = config.simultaneous_open
        self._remote_init: InitChunk | None = None
        self._is_client = False
        self._agreed = False
        self._connected = False
        self._started = False
        self._waits = False
        self.milestones: dict[str, float] = {}

    @property
    def error(self) -> WarpError | None:
        """What ended the association against our will, or None."""
        return self._registry.error

    @property
    def hung_up(self) -> bool:
        """Whether the peer ended the association on purpose: the first half of its goodbye.

        Browsers and aiortc abort when their application closes the connection, with cause 12 or
        none (RFC 9260 section 3.3.10.12); every other cause tells of a fault.
        """
        error = self._registry.error
        return isinstance(error, PeerAborted) and error.cause in (None, USER_INITIATED_ABORT)

    def create_channel(self, config: ChannelConfig, now: float) -> Channel:
        """Return a new channel; it opens when the association is up."""
        return self._registry.create_channel(config, now)

    def agree(
        self, data: DataParameters, snap: SnapNegotiation, is_dtls_client: bool, now: float
    ) -> None:
        """Take in what offer and answer agreed on; a running association keeps its ports."""
        self._registry.set_send_limit(data.send_limit)
        if self._agreed:
            return
        self._agreed = True
        self._is_client = is_dtls_client
        self._association.set_remote_port(data.remote_port)
        if snap.mode is SnapMode.SNAP and snap.remote is not None:
            self._remote_init = parse_init(snap.remote)
        self._registry.set_dtls_role(is_dtls_client, now)
        if self._connected:
            self._establish(now)

    def start(self, now: float, *, rtt_s: float | None) -> None:
        """DTLS is connected: establish the association, or do it once one is agreed on."""
        self._connected = True
        if rtt_s is not None:
            self._association.set_rtt_hint(rtt_s)
        if self._agreed:
            self._establish(now)

    def start_early(self, now: float) -> None:
        """Send our INIT to a peer that is not known yet, where both ends send one.

        It holds random numbers and nothing of the application's, and the peer can answer it with
        its last flight: the channels open a round trip earlier. What it answers is read when it
        is known.
        """
        if self._agreed and self._simultaneous and not self._started and not self._remote_init:
            self._started = True
            self._association.start(now)

    def _establish(self, now: float) -> None:
        """Begin: at once up where SNAP was agreed on, by INIT otherwise."""
        if self._started:
            return
        self._started = True
        remote_init, self._remote_init = self._remote_init, None
        if remote_init is not None:
            self._association.start_snap(remote_init, now)
        elif self._is_client or self._simultaneous:
            self._association.start(now)
        else:
            self._waits = True
        self._registry.receive(now)

    def receive_datagram(self, packet: bytes, now: float) -> None:
        """Take in a decrypted packet."""
        self._registry.receive_datagram(packet, now)
        if self._waits:
            # the peer has begun: what it sent is held by the association until we do
            self._waits = False
            self._association.start(now)
            self._registry.receive(now)

    def datagrams_to_send(self, now: float) -> list[bytes]:
        """Drain the packets that may leave now."""
        return self._registry.datagrams_to_send(now)

    def events(self, now: float) -> list[Event]:
        """Drain what the channels have to say."""
        events = self._registry.events()
        if events and "channel_open" not in self.milestones:
            for event in events:
                if isinstance(event, ChannelOpened):
                    self.milestones["channel_open"] = now
                    break
        return events

    def get_timer(self) -> float | None:
        """Return the next deadline of the association and its channels."""
        return self._registry.get_timer()

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        self._registry.handle_timer(now)

    def close(self, now: float) -> None:
        """Close every channel and abort; the ABORT leaves with the next drain."""
        self._registry.close(now)
