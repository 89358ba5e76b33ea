"""WebRTC on a UDP port: what a datagram is, by its first byte (RFC 7983), on ports that you name.

    bind(3478, 50000)      # from now on scapy reads WebRTC there; no other port is touched
    unbind(3478)

Nothing is bound by importing this package.
"""

from __future__ import annotations

from typing import Any, Final

from scapy.layers.inet import UDP
from scapy.layers.rtp import RTP
from scapy.packet import Raw, bind_bottom_up, split_bottom_up

from warp.peer import Kind, classify
from warp.stun import is_stun
from warp_tools.scapy_layers.base import Packet
from warp_tools.scapy_layers.dtls import DTLS
from warp_tools.scapy_layers.stun import STUN

_LAYERS: Final[dict[Kind, type[Packet]]] = {Kind.STUN: STUN, Kind.DTLS: DTLS, Kind.RTP: RTP}
_bound: set[int] = set()


class WebRTC(Packet):
    """A datagram of WebRTC: turns into STUN, DTLS or RTP, else stays bytes."""

    name = "WebRTC"

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_: Any, **__: Any) -> type[Packet]:
        """Return the layer that the first byte calls for, and that there is room for."""
        kind = classify(_pkt)
        if kind is Kind.STUN and not is_stun(_pkt):
            return Raw
        return _LAYERS.get(kind, Raw)


def bind(*ports: int) -> None:
    """Read WebRTC on these UDP ports, in either direction. Harmless when repeated."""
    for port in ports:
        if not 0 < port < 65536:
            raise ValueError(f"there is no UDP port {port}")
        if port not in _bound:
            _bound.add(port)
            bind_bottom_up(UDP, WebRTC, sport=port)
            bind_bottom_up(UDP, WebRTC, dport=port)


def unbind(*ports: int) -> None:
    """Leave these ports alone again; without any, all that were bound."""
    for port in ports or tuple(_bound):
        if port in _bound:
            _bound.discard(port)
            split_bottom_up(UDP, WebRTC, sport=port)
            split_bottom_up(UDP, WebRTC, dport=port)
