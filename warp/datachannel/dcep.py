"""The Data Channel Establishment Protocol on the wire (RFC 8832 section 5), and the PPIDs.

     0                   1                   2                   3
    |  type = 0x03  | channel type  |            priority           |
    |                     reliability parameter                     |
    |         label length          |        protocol length        |
    |  label (UTF-8) ...            |  protocol (UTF-8) ...         |

ACK is the single byte 0x02. Lengths count bytes, not characters. Used by `registry`.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from warp.errors import Discard

_OPEN: Final = struct.Struct("!BBHIHH")
_TYPE_OPEN: Final = 0x03
_TYPE_ACK: Final = 0x02
_UNORDERED: Final = 0x80
ACK: Final = bytes([_TYPE_ACK])
MAX_PARAMETER: Final = 0xFFFF  # W3C values have 16 bits, the field has 32 (RFC 8832 section 5.1)


class Ppid(enum.IntEnum):
    """Payload protocol identifiers (RFC 8831 section 8)."""

    DCEP = 50
    STRING = 51
    BINARY_PARTIAL = 52
    BINARY = 53
    STRING_PARTIAL = 54
    STRING_EMPTY = 56
    BINARY_EMPTY = 57


class DcepDiscard(enum.Enum):
    """Why a DCEP message is worthless."""

    EMPTY = "no message type"
    UNKNOWN_TYPE = "unknown message type"
    TRUNCATED = "shorter than its own fields say"
    RESERVED_TYPE = "reserved channel type"
    NOT_UTF8 = "label or protocol is not UTF-8"


class Reliability(enum.IntEnum):
    """The lower bits of the channel type (RFC 8832 section 5.1)."""

    RELIABLE = 0x00
    RETRANSMITS = 0x01
    LIFETIME = 0x02


@dataclass(frozen=True, slots=True)
class DcepOpen:
    """DATA_CHANNEL_OPEN. `parameter` counts retransmissions, or milliseconds of lifetime."""

    label: str
    protocol: str = ""
    ordered: bool = True
    reliability: Reliability = Reliability.RELIABLE
    parameter: int = 0
    priority: int = 256

    def to_bytes(self) -> bytes:
        """Return the wire form; `ValueError` when label or protocol exceed 65 535 bytes."""
        label, protocol = self.label.encode(), self.protocol.encode()
        if len(label) > 0xFFFF or len(protocol) > 0xFFFF:
            raise ValueError("label and protocol have at most 65535 bytes (RFC 8832 section 5.1)")
        kind = self.reliability | (0 if self.ordered else _UNORDERED)
        head = _OPEN.pack(
            _TYPE_OPEN, kind, self.priority, self.parameter, len(label), len(protocol)
        )
        return head + label + protocol


def parse_dcep(data: bytes) -> DcepOpen | None:
    """Return the OPEN, or None for an ACK; raise `Discard(DcepDiscard)` for anything else.

    Bytes after the end of either message are ignored (RFC 8832 section 5.2).
    """
    if not data:
        raise Discard(DcepDiscard.EMPTY)
    if data[0] == _TYPE_ACK:
        return None
    if data[0] != _TYPE_OPEN:
        raise Discard(DcepDiscard.UNKNOWN_TYPE, str(data[0]))
    if len(data) < _OPEN.size:
        raise Discard(DcepDiscard.TRUNCATED)
    _, kind, priority, parameter, label_length, protocol_length = _OPEN.unpack_from(data)
    middle = _OPEN.size + label_length
    if len(data) < middle + protocol_length:
        raise Discard(DcepDiscard.TRUNCATED)
    if kind & ~_UNORDERED not in (0, 1, 2):
        raise Discard(DcepDiscard.RESERVED_TYPE, str(kind))
    try:
        label = data[_OPEN.size : middle].decode()
        protocol = data[middle : middle + protocol_length].decode()
    except UnicodeDecodeError:
        raise Discard(DcepDiscard.NOT_UTF8) from None
    reliability = Reliability(kind & ~_UNORDERED)
    limit = 0 if reliability is Reliability.RELIABLE else min(parameter, MAX_PARAMETER)
    return DcepOpen(label, protocol, not kind & _UNORDERED, reliability, limit, priority)
