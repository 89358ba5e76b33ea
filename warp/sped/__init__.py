"""SPED: DTLS handshakes inside connectivity checks (draft-hancke-webrtc-sped).

check ─▶ ICE (authenticates) ─▶ Piggyback.receive_message ─▶ datagrams for DTLS
check ◀─ ICE (integrity)     ◀─ Piggyback.attributes_to_send ◀─ flights of DTLS
"""

from __future__ import annotations

from warp.sped.attributes import (
    MAX_BODY_BYTES,
    SPED_OPTIONS,
    SpedDiscard,
    datagram_hash,
    decode_acknowledgement,
    echo_options,
    encode_acknowledgement,
    is_dtls,
    is_handshake_datagram,
    room_for_attributes,
)
from warp.sped.config import SpedConfig
from warp.sped.piggyback import UNFINISHED, Evidence, Piggyback, PiggybackInput, PiggybackState

__all__ = [
    "MAX_BODY_BYTES",
    "SPED_OPTIONS",
    "UNFINISHED",
    "Evidence",
    "Piggyback",
    "PiggybackInput",
    "PiggybackState",
    "SpedConfig",
    "SpedDiscard",
    "datagram_hash",
    "decode_acknowledgement",
    "echo_options",
    "encode_acknowledgement",
    "is_dtls",
    "is_handshake_datagram",
    "room_for_attributes",
]
