"""What travels through a TURN server, unwrapped: as if client and peer spoke to each other.

RFC 8656: Send and Data indications carry the peer's address; ChannelData only a number, which a
ChannelBind request on the same flow has bound to it. Called by the finder for what is neither
STUN for ICE nor media. An unwrapped datagram has the transport "turn".
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from warp.errors import Discard
from warp.stun import Attribute, MessageClass, decode_xor_address, is_stun, parse_message
from warp_tools.capture.ip import Address
from warp_tools.capture.reader import Datagram

MAX_CHANNELS: Final = 4096
SEND, DATA, CHANNEL_BIND = 0x006, 0x007, 0x009
_CHANNEL_FIRST, _CHANNEL_LAST = 0x40, 0x4F
_HEADER: Final = 4


class Relays:
    """Channels that were bound, and how to unwrap what goes through them."""

    def __init__(self) -> None:
        self._channels: OrderedDict[tuple[Address, Address, int], Address] = OrderedDict()
        self.carriers: Final[set[tuple[Address, Address]]] = set()
        """Client and server of each relayed flow."""

    def unwrap(self, datagram: Datagram) -> Datagram | None:
        """Return the datagram inside, or None when there is none or its peer is not known."""
        data = datagram.payload
        if len(data) >= _HEADER and _CHANNEL_FIRST <= data[0] <= _CHANNEL_LAST:
            inside = self._channel_data(datagram)
            if inside is not None and len(self.carriers) < MAX_CHANNELS:
                self.carriers.add((datagram.source, datagram.destination))
            return inside
        if not is_stun(data) or datagram.cut:
            return None
        try:
            message = parse_message(data)
        except Discard:
            return None
        address = message.get(Attribute.XOR_PEER_ADDRESS)
        if address is None:
            return None
        try:
            peer = decode_xor_address(address, message.transaction_id)
        except Discard:
            return None
        if message.method == CHANNEL_BIND and message.message_class is MessageClass.REQUEST:
            self._bind(datagram, message.get(Attribute.CHANNEL_NUMBER), peer)
            return None
        inner = message.get(Attribute.DATA)
        if inner is None or message.message_class is not MessageClass.INDICATION:
            return None
        if message.method == SEND:
            return _inside(datagram, datagram.source, peer, inner, len(inner))
        if message.method == DATA:
            return _inside(datagram, peer, datagram.destination, inner, len(inner))
        return None

    def _bind(self, datagram: Datagram, number: bytes | None, peer: Address) -> None:
        if number is None or len(number) != 4:
            return
        key = (datagram.source, datagram.destination, int.from_bytes(number[:2], "big"))
        self._channels[key] = peer
        self._channels.move_to_end(key)
        if len(self._channels) > MAX_CHANNELS:
            self._channels.popitem(last=False)

    def _channel_data(self, datagram: Datagram) -> Datagram | None:
        data = datagram.payload
        channel, length = data[0] << 8 | data[1], data[2] << 8 | data[3]
        inner = data[_HEADER : _HEADER + length]
        client, server = datagram.source, datagram.destination
        peer = self._channels.get((client, server, channel))
        if peer is not None:
            return _inside(datagram, client, peer, inner, length)
        peer = self._channels.get((server, client, channel))
        if peer is not None:
            return _inside(datagram, peer, server, inner, length)
        return None


def _inside(
    datagram: Datagram, source: Address, destination: Address, inner: bytes, length: int
) -> Datagram | None:
    if not length:
        return None
    return datagram._replace(
        source=source, destination=destination, payload=inner, length=length, transport="turn"
    )
