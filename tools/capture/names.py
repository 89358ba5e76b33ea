"""Names for numbers on the wire: what people call a group, a suite, a message, an alert.

IANA registries "TLS Supported Groups", "TLS Cipher Suites", "TLS HandshakeType", "RTCP Control
Packet Types". A number without a name is shown as a number.
"""

from __future__ import annotations

from typing import Final

from warp.dtls.faults import Alert
from warp.dtls.messages import HandshakeType
from warp.dtls.suites import CipherSuite

GROUPS: Final = {
    0x0017: "secp256r1",
    0x0018: "secp384r1",
    0x0019: "secp521r1",
    0x001D: "x25519",
    0x001E: "x448",
    0x0100: "ffdhe2048",
    0x11EB: "SecP256r1MLKEM768",
    0x11EC: "X25519MLKEM768",
    0x11ED: "SecP384r1MLKEM1024",
    0x0200: "MLKEM512",
    0x0201: "MLKEM768",
    0x0202: "MLKEM1024",
    0x6399: "X25519Kyber768Draft00",
}
POST_QUANTUM: Final = frozenset((0x11EB, 0x11EC, 0x11ED, 0x0200, 0x0201, 0x0202, 0x6399))
VERSIONS: Final = {0xFEFF: "1.0", 0xFEFD: "1.2", 0xFEFC: "1.3"}
CONTENT_TYPES: Final = {
    20: "ChangeCipherSpec",
    21: "Alert",
    22: "handshake",
    23: "data",
    26: "ACK",
}
_HANDSHAKES: Final = {
    int(kind): "".join(word.capitalize() for word in kind.name.split("_")) for kind in HandshakeType
} | {0: "HelloRequest"}
_RTCP: Final = {
    192: "FIR",
    193: "NACK",
    200: "SR",
    201: "RR",
    202: "SDES",
    203: "BYE",
    204: "APP",
    205: "RTPFB",
    206: "PSFB",
    207: "XR",
}
_SUITES: Final = {int(suite): f"TLS_{suite.name}" for suite in CipherSuite}


def group(number: int) -> str:
    """Return the name of a key agreement group."""
    return GROUPS.get(number, f"group 0x{number:04x}")


def suite(number: int) -> str:
    """Return the name of a cipher suite."""
    return _SUITES.get(number, f"suite 0x{number:04x}")


def version(number: int) -> str:
    """Return a DTLS version, e.g. `1.3`."""
    return VERSIONS.get(number, f"0x{number:04x}")


def handshake(kind: int) -> str:
    """Return the name of a handshake message."""
    return _HANDSHAKES.get(kind, f"handshake message {kind}")


def content_type(kind: int) -> str:
    """Return what a record carries."""
    return CONTENT_TYPES.get(kind, f"content type {kind}")


def alert(description: int) -> str:
    """Return the name of an alert."""
    try:
        return Alert(description).name.lower()
    except ValueError:
        return f"alert {description}"


def rtcp(kind: int) -> str:
    """Return the short name of an RTCP packet type."""
    return _RTCP.get(kind, f"RTCP type {kind}")
