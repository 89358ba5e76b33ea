"""Runs an application under hypercorn for the length of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from instant_connect.io import signalling_app
from warp.io import ServerConfig
from warp_tools.serve import EchoServer, open_echo_server
from warp_tools.web import Tls, open_quic_port, open_web_port, run_web, web_url

HOST = "127.0.0.1"


@asynccontextmanager
async def web_server(
    app: Any, tls: Tls | None = None, *, http3: bool = False
) -> AsyncIterator[str]:
    """The URL of an application that is served."""
    listener = open_web_port(HOST, 0)
    quic = open_quic_port(listener) if http3 else None
    url = web_url(HOST, listener.getsockname()[1], "http" if tls is None else "https")
    stop = asyncio.Event()
    running = asyncio.create_task(run_web(app, listener, stop, tls, quic=quic))
    try:
        yield url
    finally:
        stop.set()
        await running


@asynccontextmanager
async def echo_site(
    server: ServerConfig | None = None, *, instant: bool | None = None, **options: Any
) -> AsyncIterator[tuple[str, EchoServer]]:
    """The URL and the echoes of what `warp serve` serves: Instant Connect unless told otherwise."""
    config = server or ServerConfig(early_data=True)
    able = config.lite and config.audio and config.data
    takes = able if instant is None else instant
    echoes = await open_echo_server(HOST, 0, config, instant=takes)
    app = signalling_app(echoes.server, accept=echoes.receive_call, **options)
    try:
        async with web_server(app) as url:
            yield url, echoes
    finally:
        await echoes.close()
