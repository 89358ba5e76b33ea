"""SCTP for data channels (RFC 9260, 3758, 6525, 8260, 9653, 8831) and its start by SNAP.

DTLS ──packet──▶ Association.receive_datagram ──▶ inbound ──▶ messages()
DTLS ◀─packets── Association.datagrams_to_send ◀── transmission ◀── queue ◀── send_message()

description ◀── local_init(...).to_bytes()      parse_init(...) ◀── peer's description
                        └────────▶ Association.start_snap ◀────────┘
"""

from __future__ import annotations

from warp.sctp.association import Association
from warp.sctp.config import SctpConfig
from warp.sctp.events import (
    Established,
    PeerAborted,
    ResetResult,
    Restarted,
    StreamsReset,
    StreamsResetFailed,
    Terminated,
)
from warp.sctp.inbound import ReceivedMessage
from warp.sctp.init_chunk import Capabilities, InitChunk, local_init, parse_init
from warp.sctp.reasons import SctpDiscard, SctpRule
from warp.sctp.snap import Agreement, is_echo
from warp.sctp.states import State

__all__ = [
    "Agreement",
    "Association",
    "Capabilities",
    "Established",
    "InitChunk",
    "PeerAborted",
    "ReceivedMessage",
    "ResetResult",
    "Restarted",
    "SctpConfig",
    "SctpDiscard",
    "SctpRule",
    "State",
    "StreamsReset",
    "StreamsResetFailed",
    "Terminated",
    "is_echo",
    "local_init",
    "parse_init",
]
