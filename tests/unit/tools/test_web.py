"""The web server of `warp serve`: ports that cannot be had, and an end that nobody can hold up."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.unit.tools.web_server import HOST, web_server
from warp_tools.failure import ToolFailure
from warp_tools.web import Tls, open_quic_port, open_web_port, web_url


async def hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_a_port_in_use_is_one_line() -> None:
    with open_web_port(HOST, 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ToolFailure, match=rf"cannot listen on http://{HOST}:{port}: .*in use"):
            open_web_port(HOST, port)


@pytest.mark.parametrize(
    ("host", "port", "says"),
    [
        (HOST, -1, "a port is one of 0-65535"),
        (HOST, 65_536, "a port is one of 0-65535"),
        ("192.0.2.1", 0, r"cannot listen on http://192.0.2.1:0"),
        ("no such host", 0, "cannot listen on http://no such host:0"),
        ("a" * 300, 0, "cannot listen"),
    ],
)
def test_addresses_that_are_not_ours(host: str, port: int, says: str) -> None:
    with pytest.raises(ToolFailure, match=says) as caught:
        open_web_port(host, port)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return make_tls(tmp_path_factory.mktemp("tls"))


def make_tls(folder: Path) -> Tls:
    """A certificate for 127.0.0.1, signed by its own key."""
    made = Tls(certificate=folder / "certificate.pem", key=folder / "key.pem")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    made.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    return made


def test_browsers_get_http_2_over_tls(tls: Tls) -> None:
    async def story() -> None:
        tls.check()
        trust = ssl.create_default_context(cafile=tls.certificate)
        async with (
            web_server(hello, tls) as url,
            httpx.AsyncClient(verify=trust, http2=True) as web,
        ):
            assert url.startswith("https://")
            response = await web.get(url)
            assert (response.http_version, response.text) == ("HTTP/2", "hello")

    asyncio.run(story())


def test_a_udp_port_that_is_taken_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)  # aioquic, if it were there
    with (
        open_web_port(HOST, 0) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken,
    ):
        taken.bind(listener.getsockname())
        with pytest.raises(ToolFailure, match=r"UDP port \d+ for HTTP/3: .*in use"):
            open_quic_port(listener)


def test_http_3_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with open_web_port(HOST, 0) as listener, pytest.raises(ToolFailure, match="pip install"):
        open_quic_port(listener)


def test_files_that_hold_no_certificate_and_key(tls: Tls, tmp_path: Path) -> None:
    for wrong in (
        Tls(certificate=tmp_path / "none", key=tls.key),
        Tls(certificate=tls.certificate, key=tmp_path),
        Tls(certificate=tls.key, key=tls.key),
        Tls(certificate=tls.certificate, key=tls.certificate),
    ):
        with pytest.raises(ToolFailure, match="no certificate and key in") as caught:
            wrong.check()
        assert "\n" not in str(caught.value)


def test_addresses_are_written_as_browsers_read_them() -> None:
    assert web_url(HOST, 8080) == "http://127.0.0.1:8080"
    assert web_url("::1", 8080) == "http://[::1]:8080"


@pytest.mark.slow
def test_clients_that_dawdle_do_not_hold_up_the_end() -> None:
    reported: list[dict[str, Any]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        async with web_server(hello) as url:
            place = (HOST, int(url.rpartition(":")[2]))
            idle = await asyncio.open_connection(*place)
            slow = await asyncio.open_connection(*place)
            slow[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            done = await asyncio.open_connection(*place)
            done[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await done[0].readline()
        for reader, writer in (idle, slow, done):
            await reader.read()
            writer.close()
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(place)

    asyncio.run(story())
    assert reported == []
