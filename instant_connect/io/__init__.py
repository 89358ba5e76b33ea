"""What touches the network on behalf of `instant_connect`: HTTP routes (the extra `server`).

signalling_app(server, accept=...) ─▶ an ASGI application: app.mount("/voice", ...)
accept(session, info) ◀── every new call; events_channel(session, info) for its events
"""

from __future__ import annotations

from instant_connect.calls import CallInfo
from instant_connect.config import IceServer, SignallingConfig
from instant_connect.io.asgi import Authorize, signalling_app
from instant_connect.io.reception import Accept, events_channel
from instant_connect.offers import Kind

__all__ = [
    "Accept",
    "Authorize",
    "CallInfo",
    "IceServer",
    "Kind",
    "SignallingConfig",
    "events_channel",
    "signalling_app",
]
