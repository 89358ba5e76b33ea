"""A server of Instant Connect whose time is told, and clients made by hand."""

from __future__ import annotations

from typing import Any

from instant_connect.admission import AdmissionConfig, Admit
from instant_connect.attempt import Attempt
from instant_connect.host import Host, HostConfig
from instant_connect.keyring import Epoch, Keyring
from instant_connect.profile import make_terms
from instant_connect.ticket import Grant, Route, seal_ticket
from instant_connect.ufrag import compose_ufrag
from tests.vectors.instant_connect import CERTIFICATE, FINGERPRINT
from warp.contract import Address, Flow
from warp.crypto import HmacSha1
from warp.entropy import SeededEntropy
from warp.peer import PeerConfig
from warp.stun import Attribute, MessageClass, build_message
from warp.trace import Trace

NOW = 1000.0
WALL = 1_790_000_000.0
CELL = 4
LOCAL: Address = ("203.0.113.1", 443)
CLIENT: Address = ("192.0.2.1", 50_000)
RING = Keyring(CELL, Epoch(2, b"k" * 32, CERTIFICATE))
PEER = PeerConfig(lite=True)
HELLO = bytes([22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1]) + bytes(3)
"""A record with the beginning of a ClientHello: enough to be taken for one."""
CONTROLLING = (int(Attribute.ICE_CONTROLLING), bytes(8))
PRIORITY = (int(Attribute.PRIORITY), bytes(4))
NOMINATED = (int(Attribute.USE_CANDIDATE), b"")
SPED_HELLO = (int(Attribute.META_DTLS_IN_STUN), HELLO)


def flow(number: int = 0, host: str = CLIENT[0]) -> Flow:
    return Flow(LOCAL, (host, CLIENT[1] + number))


def make_host(
    *,
    limits: AdmissionConfig | None = None,
    admit: Admit | None = None,
    config: HostConfig | None = None,
    ring: Keyring = RING,
    peer: PeerConfig = PEER,
    trace: Trace | None = None,
) -> Host:
    return Host(
        ring,
        config or HostConfig(),
        peer=peer,
        terms=make_terms((LOCAL,), peer.sctp()),
        entropy=SeededEntropy(1),
        limits=limits,
        admit=admit,
        wall_offset_s=WALL - NOW,
        trace=trace,
    )


class Knocker:
    """A client that has a ticket, and says what it is told to say."""

    def __init__(
        self,
        seed: int = 1,
        *,
        attempt: int = 0,
        grant: Grant | None = None,
        route: Route | None = None,
        epoch: Epoch = RING.current,
        client_ufrag: str = "abcd",
        password: str | None = None,
    ) -> None:
        grant = grant or Grant(int(WALL) + 600)
        self.ticket = seal_ticket(epoch, route or Route(CELL), grant, SeededEntropy(seed))
        nonce = attempt.to_bytes(8, "big")
        self.ufrag = compose_ufrag(self.ticket, Attempt(FINGERPRINT, 111, nonce, (5, 6)))
        self.password = password or epoch.password(self.ticket)
        self.client_ufrag = client_ufrag
        self._sent = 0

    def check(
        self,
        *attributes: tuple[int, bytes],
        ufrag: str | None = None,
        message_class: MessageClass = MessageClass.REQUEST,
        integrity: bool = True,
        fingerprint: bool = True,
        **_: Any,
    ) -> bytes:
        """A Binding request with a fresh transaction id."""
        self._sent += 1
        name = f"{ufrag or self.ufrag}:{self.client_ufrag}".encode()
        return build_message(
            1,
            message_class,
            self._sent.to_bytes(12, "big"),
            [(int(Attribute.USERNAME), name), *(attributes or (CONTROLLING, PRIORITY))],
            integrity_key=HmacSha1(self.password.encode()) if integrity else None,
            fingerprint=fingerprint,
        )
