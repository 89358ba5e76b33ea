"""Fields that scapy does not have, and the one place that says what to do where scapy is missing.

Imported first by every module of this package.
"""

from __future__ import annotations

from typing import Any, Final

try:
    import scapy
    from scapy.fields import Field, StrLenField, XIntField, XShortField
    from scapy.packet import Packet, Raw
except ImportError as error:
    raise ImportError(
        "scapy is not installed: pip install 'warp-rtc[tools]' brings it along"
    ) from error

SCAPY_VERSION: Final[str] = scapy.__version__
"""The scapy that these layers are loaded into."""

__all__ = [
    "SCAPY_VERSION",
    "Beside",
    "Octets",
    "Packet",
    "RestField",
    "StrictPacket",
    "Uint",
    "XIntField",
    "XShortField",
    "leftover",
]


_SHOWN = 32


class Beside(Field[Any, Any]):
    """What a packet is told but does not say: it takes no bytes on the wire."""

    def __init__(self, name: str, default: Any = None) -> None:
        super().__init__(name, default, "0s")

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        """Add nothing."""
        return s

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Any]:
        """Take nothing; what was told stays."""
        return s, pkt.fields.get(self.name, self.default)

    def i2repr(self, pkt: Any, x: Any) -> str:
        """Say whether there is one; a key is nobody's business."""
        return "set" if x is not None else "none"


class Uint(Field[int, bytes]):
    """An unsigned number of any whole number of bytes (24 and 48 bits in DTLS)."""

    def __init__(self, name: str, default: int | None, size: int) -> None:
        super().__init__(name, default, f"{size}s")

    def addfield(self, pkt: Any, s: Any, val: int | None) -> Any:
        """Append the number."""
        return s + (val or 0).to_bytes(self.sz, "big")

    def getfield(self, pkt: Any, s: Any) -> tuple[Any, int]:
        """Take the number off the front."""
        if len(s) < self.sz:
            raise ValueError(f"{self.sz} bytes wanted for {self.name}, {len(s)} left")
        return s[self.sz :], int.from_bytes(s[: self.sz], "big")


class Octets(StrLenField):
    """Bytes, shown in hexadecimal when they are no text."""

    def i2repr(self, pkt: Any, x: Any) -> str:
        """Return text as text, everything else in hexadecimal."""
        data = bytes(x or b"")
        text = data.decode("ascii", "replace")
        if text.isprintable() and text.isascii():
            return repr(text)
        more = f"… ({len(data)} bytes)" if len(data) > _SHOWN else ""
        return data[:_SHOWN].hex() + more


class RestField(Octets):
    """All the bytes that are left."""

    def __init__(self, name: str, default: bytes = b"") -> None:
        super().__init__(name, default, length_from=None, max_length=None)

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, bytes]:
        """Take everything."""
        return b"", s


class StrictPacket(Packet):
    """A packet that is one element of another: what is behind it belongs to its neighbours."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Give back what is left."""
        return b"", s


def leftover(packet: Packet) -> bytes:
    """Return the bytes behind what a packet understood."""
    return bytes(packet.payload) if isinstance(packet.payload, Raw) else b""
