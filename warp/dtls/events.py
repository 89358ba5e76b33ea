"""What a DTLS connection says upward. Application data is not an event: it is drained apart."""

from __future__ import annotations

from dataclasses import dataclass

from warp.contract import Event
from warp.crypto import NamedGroup
from warp.dtls.suites import CipherSuite, DtlsVersion
from warp.errors import WarpError


@dataclass(frozen=True, slots=True)
class Negotiated(Event):
    """Version, suite, group and SRTP profile are agreed on; nobody is authenticated yet."""

    version: DtlsVersion
    suite: CipherSuite
    group: NamedGroup
    srtp_profile: int | None


@dataclass(frozen=True, slots=True)
class EarlyWriteReady(Event):
    """A 1.3 server has made its Finished: the exporter works, the client is not known yet."""


@dataclass(frozen=True, slots=True)
class PeerCertificateReceived(Event):
    """The peer has shown this certificate (DER) and proved that it has the key."""

    der: bytes


@dataclass(frozen=True, slots=True)
class HandshakeCompleted(Event):
    """Both Finished messages are in place; the fingerprint may still be missing."""

    version: DtlsVersion


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """The handshake is complete and the peer is who its description said."""

    version: DtlsVersion
    suite: CipherSuite
    group: NamedGroup
    srtp_profile: int | None


@dataclass(frozen=True, slots=True)
class FlightAcknowledged(Event):
    """The peer has acknowledged all that we had outstanding, by an ACK (RFC 9147 section 7)."""


@dataclass(frozen=True, slots=True)
class PeerDataReceived(Event):
    """The first application data of the peer has decrypted: it has finished its handshake."""


@dataclass(frozen=True, slots=True)
class CloseNotify(Event):
    """The peer has closed the connection (RFC 8446 section 6.1)."""


@dataclass(frozen=True, slots=True)
class Terminated(Event):
    """The connection has failed; nothing more will come or go."""

    error: WarpError
