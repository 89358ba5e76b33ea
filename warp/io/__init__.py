"""Sockets, clocks and asyncio around the machines: the only impure room of the house.

listen ─▶ Server.accept_offer(sdp) ─▶ Session        Client.connect(signal), connect ─▶ Session
Session: audio_in, audio_out, channel(...), closed   Driver, Port, UdpSocket: the pump below them
"""

from __future__ import annotations

from warp.crypto import Certificate
from warp.errors import HandshakeTimedOut, UsageError, WarpError
from warp.io.audio import AudioIn, AudioOut
from warp.io.channel import Channel, ChannelClosedError
from warp.io.client import Client, connect
from warp.io.config import ClientConfig, ServerConfig, WarpOptions
from warp.io.process import prepare_process
from warp.io.server import Server, listen
from warp.io.session import Ending, Session
from warp.io.udp import AddressInUse
from warp.peer import ConnectionState
from warp.rtp import AudioFrame
from warp.sdp import SdpError

__all__ = [
    "AddressInUse",
    "AudioFrame",
    "AudioIn",
    "AudioOut",
    "Certificate",
    "Channel",
    "ChannelClosedError",
    "Client",
    "ClientConfig",
    "ConnectionState",
    "Ending",
    "HandshakeTimedOut",
    "SdpError",
    "Server",
    "ServerConfig",
    "Session",
    "UsageError",
    "WarpError",
    "WarpOptions",
    "connect",
    "listen",
    "prepare_process",
]
