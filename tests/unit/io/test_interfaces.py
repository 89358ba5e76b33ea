from __future__ import annotations

import ipaddress
import socket
from contextlib import ExitStack

import pytest

from tests.unit.io.support import HOST
from warp.errors import UsageError
from warp.io import interfaces
from warp.io.interfaces import bind_each, expand_host, host_addresses
from warp.io.udp import AddressInUse, bind_udp

KNOWN = ["192.0.2.7", "169.254.3.3", "127.0.0.2", "2001:db8::7", "fd00::1", "fe80::1"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with these addresses."""
    addresses = list(KNOWN)

    def known(*, use_ipv4: bool, use_ipv6: bool) -> list[str]:
        return [a for a in addresses if (use_ipv6 if ":" in a else use_ipv4)]

    monkeypatch.setattr(interfaces.ice, "get_host_addresses", known)
    monkeypatch.setattr(interfaces, "_is_ours", lambda address: True)
    return addresses


def test_this_machine_has_addresses() -> None:
    found = host_addresses()
    assert found
    assert all(not ipaddress.ip_address(address).is_link_local for address in found)


def test_ipv4_first_without_link_local_and_loopback(machine: list[str]) -> None:
    assert host_addresses() == ["192.0.2.7", "2001:db8::7", "fd00::1"]
    assert host_addresses(ipv6=False) == ["192.0.2.7"]


def test_loopback_when_asked_for_or_when_there_is_nothing_else(machine: list[str]) -> None:
    assert host_addresses(loopback=True) == [
        "192.0.2.7",
        "127.0.0.1",
        "2001:db8::7",
        "::1",
        "fd00::1",
    ]
    machine.clear()
    assert host_addresses() == ["127.0.0.1", "::1"]
    assert host_addresses(ipv6=False) == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("0.0.0.0", ["192.0.2.7"]),
        ("::", ["2001:db8::7", "fd00::1"]),
        ("", ["192.0.2.7", "2001:db8::7", "fd00::1"]),
        ("192.0.2.9", ["192.0.2.9"]),
    ],
)
def test_what_a_host_stands_for(machine: list[str], host: str, expected: list[str]) -> None:
    assert expand_host(host, loopback=False) == expected


def close_all(sockets: list[socket.socket]) -> set[int]:
    with ExitStack() as stack:
        return {stack.enter_context(sock).getsockname()[1] for sock in sockets}


def test_all_addresses_get_one_port() -> None:
    sockets = bind_each([HOST, "127.0.0.2", "127.0.0.3"], 0)
    assert len(sockets) == 3
    assert len(close_all(sockets)) == 1


def test_a_port_that_is_taken_on_one_address_is_taken() -> None:
    with bind_udp("127.0.0.2", 0) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressInUse, match=r"127\.0\.0\.2 is in use"):
            bind_each([HOST, "127.0.0.2"], port)
    assert close_all(bind_each([HOST, "127.0.0.2"], port)) == {port}


def test_any_port_means_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[tuple[str, int]] = []

    def bind(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
        tries.append((host, port))
        if host == "127.0.0.2" and len(tries) < 5:
            raise AddressInUse("taken")
        return bind_udp(host, port)

    monkeypatch.setattr(interfaces, "bind_udp", bind)
    assert len(close_all(bind_each([HOST, "127.0.0.2"], 0))) == 1
    assert [host for host, _ in tries] == [HOST, "127.0.0.2"] * 3
    assert all(port == 0 for host, port in tries if host == HOST)


def test_an_address_that_went_away_is_left_out() -> None:
    assert len(close_all(bind_each(["203.0.113.9", HOST], 0))) == 1


def test_no_address_at_all_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"203\.0\.113\.9"):
        bind_each(["203.0.113.9"], 0)
    with pytest.raises(UsageError, match="no address"):
        bind_each([], 0)
