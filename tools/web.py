"""An ASGI application on this event loop: hypercorn with HTTP/1.1, 2 and 3, beside the media.

open_web_port ─ a listening socket ─▶ run_web(app) ─ stop.set() ─▶ no connection is left
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypercorn.asyncio import serve
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.typing import LifespanState
from hypercorn.utils import wrap_app

from warp_tools.failure import CommandRefused

if TYPE_CHECKING:
    from starlette.types import ASGIApp

GRACE_S = 0.3
"""What a request in progress is given at the end."""
_BACKLOG = 128
_MAX_PORT = 65535
_READ_TIMEOUT_S = 30
_ALT_SVC_S = 3600


def open_web_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens already. Raises ToolFailure, one line, when it cannot."""
    if not 0 <= port <= _MAX_PORT:
        raise CommandRefused(
            f"cannot listen on {web_url(host, port)}: a port is one of 0-{_MAX_PORT}"
        )
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_BACKLOG,
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandRefused(f"cannot listen on {web_url(host, port)}: {reason}") from error


def web_url(host: str, port: int, scheme: str = "http") -> str:
    """Return the address of the root, as a browser takes it."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM that prove to browsers who we are: elsewhere than on localhost, pages need that
    before they may use the microphone."""

    certificate: Path
    key: Path

    def check(self) -> None:
        """Raise ToolFailure, one line, unless the files hold a certificate and its key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # a passphrase would be asked for on the terminal
            context.load_cert_chain(self.certificate, self.key, password="")
        except OSError as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandRefused(
                f"no certificate and key in {self.certificate} and {self.key}: {reason}"
            ) from error


def open_quic_port(listener: socket.socket, *, reuse_port: bool = False) -> socket.socket:
    """Return a UDP socket at the address of a listener, for HTTP/3 beside it.

    With `reuse_port` other processes may have one there too. Raises ToolFailure, one line, when
    it is taken or what HTTP/3 needs is not installed.
    """
    if importlib.util.find_spec("aioquic") is None:
        raise CommandRefused("HTTP/3 needs aioquic: pip install 'warp-rtc[http3]'")
    address = listener.getsockname()
    sock = socket.socket(listener.family, socket.SOCK_DGRAM)
    try:
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise CommandRefused(
            f"cannot listen on UDP port {address[1]} for HTTP/3: {error.strerror}"
        ) from error
    return sock


async def run_web(
    app: ASGIApp,
    listener: socket.socket,
    stop: asyncio.Event,
    tls: Tls | None = None,
    *,
    quic: socket.socket | None = None,
) -> None:
    """Serve until `stop` is set; takes over the sockets.

    With `quic`, which needs `tls`, responses name HTTP/3 on its port (Alt-Svc, RFC 7838).
    """
    config = Config()
    if tls is not None:
        config.certfile, config.keyfile = str(tls.certificate), str(tls.key)
        if quic is not None:
            config.alt_svc_headers = [f'h3=":{quic.getsockname()[1]}"; ma={_ALT_SVC_S}']
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = GRACE_S
    config.shutdown_timeout = GRACE_S + 1
    config.read_timeout = _READ_TIMEOUT_S
    # whoever listens and says nothing is heard of all the same: RFC 6455 section 5.5.3
    config.websocket_ping_interval = _READ_TIMEOUT_S / 3
    config.include_server_header = False
    config.errorlog = logging.getLogger("hypercorn.error")
    framework: Any = app  # hypercorn spells the same protocol in other words
    serving = asyncio.create_task(serve(framework, config, shutdown_trigger=stop.wait, mode="asgi"))
    stopping = asyncio.create_task(stop.wait())
    tasks = [serving, stopping]
    if quic is not None:
        tasks.append(asyncio.create_task(_serve_quic(framework, config, quic)))
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        # a client that dawdles does not hold up the end
        with _unreported_cancellations():
            await asyncio.wait({serving}, timeout=2 * GRACE_S)
    finally:
        with _unreported_cancellations():
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    if not serving.cancelled() and (error := serving.exception()) is not None:
        raise error


async def _serve_quic(app: Any, config: Config, sock: socket.socket) -> None:
    """Serve HTTP/3 until cancelled: hypercorn's own way leaves the socket open at the end."""
    from hypercorn.asyncio.udp_server import UDPServer

    loop = asyncio.get_running_loop()
    wrapped = wrap_app(app, config.wsgi_max_body_size, "asgi")
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: UDPServer(wrapped, loop, config, WorkerContext(None), LifespanState({})), sock=sock
    )
    try:
        await protocol.run()
    finally:
        transport.close()


@contextlib.contextmanager
def _unreported_cancellations() -> Iterator[None]:
    """Let nobody hear of connections that are cut off: asyncio's streams call that an error."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), asyncio.CancelledError):
            return
        if before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(report)
    try:
        yield
    finally:
        loop.set_exception_handler(before)
