"""What touches the network on behalf of `instant_connect` (the routes: extra `server`).

listen_instant ─▶ InstantServer: first datagrams become sessions
InstantCaller(url) ─▶ call(): bundles, first datagrams, offers        InstantClient: without HTTP
signalling_app(server, accept=...) ─▶ an ASGI application: app.mount("/voice", ...)
accept(session, info) ◀── every new call; events_channel(session, info) for its events
"""

from __future__ import annotations

from instant_connect.calls import CallInfo
from instant_connect.config import IceServer, SignallingConfig
from instant_connect.io.arrival import Arrival
from instant_connect.io.asgi import Authorize, Policy, signalling_app
from instant_connect.io.caller import CallerConfig, InstantCaller, PlacedCall, SignallingFailed
from instant_connect.io.client import InstantClient
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.reception import Accept, events_channel
from instant_connect.io.server import InstantServer
from instant_connect.offers import Kind
from instant_connect.sessions import Path

__all__ = [
    "Accept",
    "Arrival",
    "Authorize",
    "CallInfo",
    "CallerConfig",
    "IceServer",
    "InstantCaller",
    "InstantClient",
    "InstantConfig",
    "InstantServer",
    "Kind",
    "Path",
    "PlacedCall",
    "Policy",
    "SignallingConfig",
    "SignallingFailed",
    "events_channel",
    "listen_instant",
    "signalling_app",
]
