"""What `warp serve --workers` and `warp relay` cannot do: one line each, and the end."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from instant_connect.keyring import parse_relay_keys
from tests.unit.tools.test_main import fails
from warp_tools.failure import ToolFailure
from warp_tools.keys import new_keyring, write_route_keys
from warp_tools.relay import load_route_keys
from warp_tools.serve import ServeConfig
from warp_tools.web import Tls
from warp_tools.workers import config_of, settings_of

HOST = "127.0.0.1"


@pytest.fixture(autouse=True)
def _needs_no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is wrong in another way fetches nothing before it says so."""
    monkeypatch.setenv("WARP_BACKEND", "echo")


@pytest.fixture
def taken() -> Iterator[int]:
    """A UDP port that somebody has, who would share it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((HOST, 0))
        yield sock.getsockname()[1]


@pytest.fixture
def routes(tmp_path: Path) -> Path:
    """A file of route keys."""
    new_keyring(tmp_path / "cell.json", 3)
    write_route_keys(tmp_path / "cell.json", tmp_path / "routes.json")
    return tmp_path / "routes.json"


@pytest.mark.parametrize("count", [0, -1, 65, 1000])
def test_a_number_of_workers_that_cannot_be(capsys: pytest.CaptureFixture[str], count: int) -> None:
    line = fails(capsys, "serve", "--port", 0, "--workers", count)
    assert f"workers are 1 to 64, not {count}" in line


def test_a_number_of_a_server_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "serve", "--port", 0, "--workers", 2, "--server-id", 65_535)
    assert "choose a smaller" in line


def test_a_port_in_use_is_not_shared_with_a_stranger(
    capsys: pytest.CaptureFixture[str], taken: int
) -> None:
    line = fails(capsys, "serve", "--port", 0, "--workers", 2, "--udp-port", taken)
    assert f"UDP port {taken} on {HOST} is in use" in line


def test_a_web_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        assert "in use" in fails(capsys, "serve", "--port", port, "--workers", 2)


def test_options_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "serve", "--port", 0, "--workers", 2, "--no-instant")
    assert "leave out --no-instant" in line
    line = fails(capsys, "serve", "--port", 0, "--workers", 2, "--advertise", "0.0.0.0")
    assert "numeric addresses" in line
    line = fails(capsys, "serve", "--port", 0, "--workers", 2, "--keys", "nowhere.json")
    assert "warp keys new" in line


def test_a_worker_is_told_all_that_its_parent_was(tmp_path: Path) -> None:
    config = ServeConfig(
        host="::1",
        udp_port=9,
        advertise=("203.0.113.1",),
        advertise_port=443,
        cors_origins=("https://a.example",),
        token="a secret",
        origin_trials=("token",),
        tls=Tls(certificate=tmp_path / "c.pem", key=tmp_path / "k.pem"),
        http3=True,
    )
    assert config_of(settings_of(config, 9)) == config
    assert config_of(settings_of(ServeConfig(), 7)) == ServeConfig(udp_port=7)


# -- relays ---------------------------------------------------------------------------------------


def relay_fails(
    capsys: pytest.CaptureFixture[str],
    routes: Path,
    *,
    listen: str = "127.0.0.1:0",
    upstream: str = "1=127.0.0.1:9",
) -> str:
    options = ("--listen", listen, "--upstream", upstream, "--route-key", routes)
    return fails(capsys, "relay", *options)


@pytest.mark.parametrize("listen", ["", "127.0.0.1", "443", "::1:443", "127.0.0.1:x"])
def test_an_address_that_a_relay_cannot_listen_on(
    capsys: pytest.CaptureFixture[str], routes: Path, listen: str
) -> None:
    assert "--listen is HOST:PORT" in relay_fails(capsys, routes, listen=listen)


def test_a_relays_port_in_use(capsys: pytest.CaptureFixture[str], routes: Path, taken: int) -> None:
    line = relay_fails(capsys, routes, listen=f"{HOST}:{taken}")
    assert f"UDP port {taken} on {HOST} is in use" in line


@pytest.mark.parametrize(
    ("upstream", "says"),
    [
        ("127.0.0.1:443", "ID=HOST:PORT"),
        ("1=no-such-host.invalid:443", "no-such-host.invalid has no address"),
        ("1=255.255.255.255:443", "no way to upstream 1"),
        ("5-2=127.0.0.1:443", "ID=HOST:PORT"),
    ],
)
def test_upstreams_that_do_not_exist(
    capsys: pytest.CaptureFixture[str], routes: Path, upstream: str, says: str
) -> None:
    assert says in relay_fails(capsys, routes, upstream=upstream)


def test_files_that_hold_no_route_keys(
    capsys: pytest.CaptureFixture[str], routes: Path, tmp_path: Path
) -> None:
    assert "warp keys routes" in relay_fails(capsys, tmp_path / "nowhere.json")
    # the keys of a server are not for a relay
    line = relay_fails(capsys, tmp_path / "cell.json")
    assert "holds no route keys" in line
    broken = tmp_path / "broken.json"
    for content in (b"", b"\xff\xfe", b"{}", b'{"v": 1, "cell": 1, "route_keys": {}}'):
        broken.write_bytes(content)
        broken.chmod(0o600)
        assert "holds no route keys" in relay_fails(capsys, broken)
    routes.chmod(0o644)
    assert "others may read" in relay_fails(capsys, routes)


def test_the_keys_of_a_relay_open_nothing_and_are_its_owners(tmp_path: Path, routes: Path) -> None:
    assert load_route_keys(routes).cell == 3
    assert os.stat(routes).st_mode & 0o077 == 0
    text = routes.read_text()
    assert parse_relay_keys(text).cell == 3
    assert "PRIVATE" not in text
    with pytest.raises(ToolFailure, match="warp keys new"):
        write_route_keys(tmp_path / "nowhere.json", tmp_path / "out.json")
