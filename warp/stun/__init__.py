"""STUN (RFC 8489): messages, attributes, integrity, and the client transaction.

datagram ─▶ is_stun? ─▶ peek_username (router) ─▶ parse_message ─▶ Message.verify_integrity
datagram ◀──────── build_message: seal_message ◀─ encode_attributes ◀─ attributes
"""

from __future__ import annotations

from warp.stun.attributes import (
    MAGIC_COOKIE,
    Attribute,
    StunDiscard,
    decode_error_code,
    decode_xor_address,
    encode_error_code,
    encode_xor_address,
    split_username,
)
from warp.stun.integrity import (
    FINGERPRINT_ATTRIBUTE_BYTES,
    INTEGRITY_ATTRIBUTE_BYTES,
    IntegrityKey,
    long_term_key,
)
from warp.stun.message import (
    BINDING,
    HEADER_BYTES,
    Message,
    MessageClass,
    build_message,
    encode_attributes,
    encode_type,
    is_stun,
    parse_message,
    peek_username,
    seal_message,
)
from warp.stun.transaction import ClientTransaction, TransactionConfig, TransactionState

__all__ = [
    "BINDING",
    "FINGERPRINT_ATTRIBUTE_BYTES",
    "HEADER_BYTES",
    "INTEGRITY_ATTRIBUTE_BYTES",
    "MAGIC_COOKIE",
    "Attribute",
    "ClientTransaction",
    "IntegrityKey",
    "Message",
    "MessageClass",
    "StunDiscard",
    "TransactionConfig",
    "TransactionState",
    "build_message",
    "decode_error_code",
    "decode_xor_address",
    "encode_attributes",
    "encode_error_code",
    "encode_type",
    "encode_xor_address",
    "is_stun",
    "long_term_key",
    "parse_message",
    "peek_username",
    "seal_message",
    "split_username",
]
