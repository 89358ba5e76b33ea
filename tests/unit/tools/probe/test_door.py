"""Doors that are shut: each in one line that says which, and what helps."""

from __future__ import annotations

import asyncio
import http.server
import io
import socket
import ssl
import threading
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.captures.pcap import CAPTURES
from warp_tools import signalling
from warp_tools.failure import ToolFailure
from warp_tools.probe import door
from warp_tools.probe.door import open_door

KEYS = CAPTURES / "dtls" / "illustrated"


def refused(url: str, token: str = "") -> str:
    with pytest.raises(ToolFailure) as caught:
        asyncio.run(open_door(url, "v=0\r\n", token=token))
    said = str(caught.value)
    assert "\n" not in said
    return said


@contextmanager
def endpoint(status: int) -> Iterator[str]:
    """A server that answers every offer with a status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(status)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/whip"
    finally:
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_is_wanted(status: int) -> None:
    with endpoint(status) as url:
        assert refused(url).endswith("the endpoint wants a token; give one with --token")
    with endpoint(status) as url:
        said = refused(url, "secret")
        assert said.endswith("the endpoint wants a token; the token was not accepted")
        assert "secret" not in said


@pytest.mark.parametrize("status", [404, 405, 415])
def test_no_such_endpoint(status: int) -> None:
    with endpoint(status) as url:
        assert refused(url).endswith("is this the path of a WHIP or /v1/realtime/calls endpoint?")


def test_any_other_refusal_is_passed_on() -> None:
    with endpoint(503) as url:
        assert f"{url} refused the offer: 503" in refused(url)


def test_nothing_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert refused(f"http://127.0.0.1:{port}") == f"nothing listens at 127.0.0.1:{port}"


@pytest.mark.parametrize("url", ["ftp://x/whip", "nonsense", "http://"])
def test_no_address(url: str) -> None:
    assert refused(url) == f"{url} is not an http(s) address"


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (socket.gaierror(-2, "Name not known"), "there is no host example.invalid: Name"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]"), "TLS with example.invalid:8 failed"),
        (ConnectionResetError(104, "reset"), "example.invalid:8 hangs up without an answer"),
        (TimeoutError("timed out"), "example.invalid:8 does not answer over TCP"),
        (OSError(113, "No route to host"), "no answer"),
    ],
)
def test_what_the_network_says(monkeypatch: pytest.MonkeyPatch, reason: OSError, says: str) -> None:
    async def shut(url: str, offer: str, **_: object) -> None:
        raise ToolFailure("no answer") from urllib.error.URLError(reason)

    monkeypatch.setattr(door, "open_call", shut)
    assert refused("https://user:hush@example.invalid:8/whip").startswith(says)


def test_an_untrusted_certificate() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(KEYS / "server.crt", KEYS / "server.key")
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        said = refused(f"https://127.0.0.1:{server.server_port}/whip")
    finally:
        thread.join()
        server.server_close()
    assert said.startswith(f"TLS with 127.0.0.1:{server.server_port} failed: ")
    assert said.endswith(
        "certificate; one of your own is trusted with SSL_CERT_FILE=certificate.pem"
    )


def test_a_reset_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def shut(url: str, offer: str, **_: object) -> None:
        error = urllib.error.HTTPError(url, 500, "broken", None, io.BytesIO())  # type: ignore[arg-type]
        with error:
            raise ToolFailure("refused: 500") from error

    monkeypatch.setattr(door, "open_call", shut)
    assert refused("http://x/whip") == "refused: 500"


def test_a_server_of_the_other_scheme_is_guessed() -> None:
    """What speaks TLS hangs up on HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        said = refused(f"http://{host}/whip")
        thread.join()
    assert said == f"{host} hangs up without an answer; does it speak https:// there?"


def test_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is there, and no answer comes."""
    monkeypatch.setattr(signalling, "_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        assert refused(f"http://{host}/whip") == f"{host} takes the offer and does not answer"
