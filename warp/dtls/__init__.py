"""DTLS 1.3 and 1.2 for WebRTC, both roles, synchronous and without sockets or clocks.

receive_datagram ─▶ Intake (records) ─▶ HandshakeDriver ─▶ hello stage ─▶ client13 │ server13
                        │                                             └▶ client12 │ server12
                        └▶ application data ─▶ received_data()
send_data ─▶ WriteKeys ─┐
Flight (handshake) ─────┴▶ datagrams_to_send
"""

from __future__ import annotations

from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.connection import DtlsConnection
from warp.dtls.events import (
    CloseNotify,
    Connected,
    EarlyWriteReady,
    FlightAcknowledged,
    HandshakeCompleted,
    Negotiated,
    PeerCertificateReceived,
    PeerDataReceived,
    Terminated,
)
from warp.dtls.faults import Alert, DtlsRule
from warp.dtls.records import DtlsDiscard
from warp.dtls.states import DtlsState
from warp.dtls.suites import CipherSuite, DtlsVersion

__all__ = [
    "Alert",
    "CipherSuite",
    "CloseNotify",
    "Connected",
    "DtlsConfig",
    "DtlsConnection",
    "DtlsDiscard",
    "DtlsRole",
    "DtlsRule",
    "DtlsState",
    "DtlsVersion",
    "EarlyWriteReady",
    "FlightAcknowledged",
    "HandshakeCompleted",
    "Negotiated",
    "PeerCertificateReceived",
    "PeerDataReceived",
    "Terminated",
]
