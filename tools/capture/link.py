"""From a captured frame to the IP packet inside: link-layer headers, VLAN tags, PPPoE.

Link types as in https://www.tcpdump.org/linktypes.html: Ethernet (1), BSD loopback (0, 108),
raw IP (12, 14, 101, 228, 229), Linux cooked v1 (113) and v2 (276). Called by `reader`.
"""

from __future__ import annotations

from typing import Final

LINKS: Final = {
    0: "BSD loopback",
    1: "Ethernet",
    12: "raw IP",
    14: "raw IP",
    101: "raw IP",
    108: "OpenBSD loopback",
    113: "Linux cooked",
    228: "raw IPv4",
    229: "raw IPv6",
    276: "Linux cooked v2",
}
COOKED: Final = frozenset((113, 276))
"""Link types that say which way a packet went; they may show it twice."""
_IPV4, _IPV6, _PPPOE = 0x0800, 0x86DD, 0x8864
_VLAN: Final = (0x8100, 0x88A8, 0x9100)
_PPP: Final = {0x0021: _IPV4, 0x0057: _IPV6}
_MAX_TAGS: Final = 4
_OUTGOING: Final = 4


def ip_start(link: int, frame: bytes) -> int:
    """Return where the IP header of a frame starts, or -1 when there is none."""
    if link == 1:
        return _after_type(frame, 12)
    if link == 276:
        return _after_type(frame, 0, 20)
    if link == 113:
        return _after_type(frame, 14)
    if link in (0, 108):
        return 4
    return 0 if link in LINKS else -1


def place(link: int, frame: bytes) -> tuple[int, int]:
    """Return where on the machine a cooked frame was seen: 1 in, 2 out, 0 not said; interface."""
    if link == 276 and len(frame) > 10:
        return (2 if frame[10] == _OUTGOING else 1), int.from_bytes(frame[4:8], "big")
    if link == 113 and len(frame) > 1:
        return (2 if frame[1] == _OUTGOING else 1), 0
    return 0, 0


def _after_type(frame: bytes, at: int, header: int | None = None) -> int:
    """Follow the EtherType at `at`; the network packet begins after it, or at `header`."""
    start = at + 2 if header is None else header
    kind = int.from_bytes(frame[at : at + 2], "big")
    for _ in range(_MAX_TAGS):
        if kind not in _VLAN:
            break
        kind = int.from_bytes(frame[start + 2 : start + 4], "big")
        start += 4
    if kind == _PPPOE:
        kind = _PPP.get(int.from_bytes(frame[start + 6 : start + 8], "big"), 0)
        start += 8
    return start if kind in (_IPV4, _IPV6) and start < len(frame) else -1
