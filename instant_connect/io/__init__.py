"""What touches the network on behalf of `instant_connect`.

listen_instant ─▶ InstantServer: first datagrams become sessions
InstantCaller(url) ─▶ call(): bundles, first datagrams, offers        InstantClient: without HTTP
signalling_app(server, accept=...) ─▶ an ASGI application: app.mount("/voice", ...)
accept(session, info) ◀── every new call; events_channel(session, info) for its events

The application alone needs the extra `server`, and it is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instant_connect.calls import CallInfo
from instant_connect.config import IceServer, SignallingConfig
from instant_connect.io.arrival import Arrival
from instant_connect.io.caller import CallerConfig, InstantCaller, PlacedCall, SignallingFailed
from instant_connect.io.client import InstantClient
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.reception import Accept, events_channel
from instant_connect.io.server import InstantServer
from instant_connect.offers import Kind
from instant_connect.sessions import Path

if TYPE_CHECKING:
    from instant_connect.io.asgi import Authorize, Policy, signalling_app

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


def __getattr__(name: str) -> Any:
    if name not in ("Authorize", "Policy", "signalling_app"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from instant_connect.io import asgi
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name} needs starlette and python-multipart: pip install 'warp-rtc[server]'"
        ) from error

    return getattr(asgi, name)
