"""Runs an application under hypercorn for the length of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from instant_connect.io import signalling_app
from warp.io import ServerConfig
from warp_tools.serve import EchoServer, open_echo_server
from warp_tools.web import Tls, open_web_port, run_web, web_url

HOST = "127.0.0.1"


@asynccontextmanager
async def web_server(app: Any, tls: Tls | None = None) -> AsyncIterator[str]:
    """The URL of an application that is served."""
    listener = open_web_port(HOST, 0)
    url = web_url(HOST, listener.getsockname()[1], "http" if tls is None else "https")
    stop = asyncio.Event()
    running = asyncio.create_task(run_web(app, listener, stop, tls))
    try:
        yield url
    finally:
        stop.set()
        await running


@asynccontextmanager
async def echo_site(
    server: ServerConfig | None = None, **options: Any
) -> AsyncIterator[tuple[str, EchoServer]]:
    """The URL and the echoes of what `warp serve` serves."""
    echoes = await open_echo_server(HOST, 0, server or ServerConfig(early_data=True))
    app = signalling_app(echoes.server, accept=echoes.receive_call, **options)
    try:
        async with web_server(app) as url:
            yield url, echoes
    finally:
        await echoes.close()
