"""Sockets, clocks and asyncio around the machines: the only impure room of the house.

listen ─▶ Server.accept_offer(sdp) ─▶ Session        Client.connect(signal), connect ─▶ Session
Session: audio_in, audio_out, channel(...), closed   Driver, Port, UdpSocket: the pump below them
"""

from __future__ import annotations

from warp.io.audio import AudioIn, AudioOut
from warp.io.channel import Channel, ChannelClosedError
from warp.io.client import Client, connect
from warp.io.config import ClientConfig, ServerConfig, WarpOptions
from warp.io.server import Server, listen
from warp.io.session import Ending, Session
from warp.io.udp import AddressInUse

__all__ = [
    "AddressInUse",
    "AudioIn",
    "AudioOut",
    "Channel",
    "ChannelClosedError",
    "Client",
    "ClientConfig",
    "Ending",
    "Server",
    "ServerConfig",
    "Session",
    "WarpOptions",
    "connect",
    "listen",
]
