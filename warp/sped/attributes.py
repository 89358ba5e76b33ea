"""The two attributes of SPED: a DTLS datagram, and CRC-32 acknowledgements of such datagrams.

draft-hancke-webrtc-sped-00 section 3.3; codes as registered by IANA. Called by `piggyback`.

    0xC070 META-DTLS-IN-STUN                  one DTLS datagram (may be empty: "I speak SPED")
    0xC071 META-DTLS-IN-STUN-ACKNOWLEDGEMENT  0 to 4 CRC-32, big-endian, of received datagrams
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from warp.errors import Discard

MAX_ACKNOWLEDGEMENTS = 4  # section 3.3.2.2
MAX_BODY_BYTES = 1168  # STUN length field before MESSAGE-INTEGRITY, as libwebrtc limits it
ATTRIBUTE_HEADER_BYTES = 4
_MAX_ACCEPTED_ACKNOWLEDGEMENTS = 16  # more than four is against the draft, but harmless
# by the bytes of the list
_LISTS = {4 * n: struct.Struct(f"!{n}I") for n in range(_MAX_ACCEPTED_ACKNOWLEDGEMENTS + 1)}
_DTLS_RECORD_MIN_BYTES = 13
_PLAIN = (22, 20)  # Handshake, ChangeCipherSpec
_UNIFIED_EPOCH_MASK = 0xE3  # of a DTLS 1.3 record's first byte: its kind, and bits of its epoch
_UNIFIED_HANDSHAKE = 0x20 | 2  # epoch 2, RFC 9147 section 6.1

SPED_OPTIONS = ("sped", "googspedv1", "goog-sped-v1")
"""ice-options tokens that mean SPED: the draft's, Chromium 155 on, Chromium 149 to 154."""


class SpedDiscard(enum.Enum):
    """Why an attribute was worthless."""

    MALFORMED_ACKNOWLEDGEMENT = "acknowledgement is no list of CRC-32"
    NOT_DTLS = "embedded bytes are no DTLS datagram"
    NOT_HANDSHAKE = "captured bytes belong to no handshake flight"


datagram_hash: Final = crc32
"""`datagram_hash(datagram: bytes) -> int`: what acknowledges a datagram, CRC-32 (RFC 1952) without
FINGERPRINT's XOR."""


def encode_acknowledgement(hashes: Sequence[int]) -> bytes:
    """Return the value of an acknowledgement attribute."""
    return _LISTS[4 * len(hashes)].pack(*hashes)


def decode_acknowledgement(value: bytes) -> tuple[int, ...]:
    """Return the acknowledged hashes; raises `Discard` when the value is no such list."""
    form = _LISTS.get(len(value))
    if form is None:
        raise Discard(SpedDiscard.MALFORMED_ACKNOWLEDGEMENT)
    return form.unpack(value)


def is_dtls(data: bytes) -> bool:
    """Tell whether embedded bytes may be DTLS: first byte 20 to 63 (RFC 9443 section 3)."""
    return len(data) >= _DTLS_RECORD_MIN_BYTES and 20 <= data[0] <= 63


def is_handshake_datagram(data: bytes) -> bool:
    """Tell whether a datagram begins with a record of a handshake flight.

    Handshake, ChangeCipherSpec, or a DTLS 1.3 record of epoch 2. Application data (and the DTLS
    acknowledgement of a last flight, epoch 3) would push out entries which are still needed.
    """
    if len(data) < _DTLS_RECORD_MIN_BYTES:
        return False
    first = data[0]
    return first in _PLAIN or first & _UNIFIED_EPOCH_MASK == _UNIFIED_HANDSHAKE


def echo_options(offered: Sequence[str]) -> list[str]:
    """Return the ice-options that an answer lists for SPED: those offered, as they were spelt."""
    return [option for option in offered if option in SPED_OPTIONS]


def room_for_attributes(body_bytes: int) -> int:
    """Return how many bytes of attributes still fit behind `body_bytes` of other attributes."""
    return max(0, MAX_BODY_BYTES - body_bytes)
