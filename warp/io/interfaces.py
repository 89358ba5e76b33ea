"""Which addresses this machine has, and sockets bound to them.

One socket for each address, never one for all: a datagram then leaves from the address that its
flow names, also where a machine has several of them (RFC 8445 section 5.1.1.1).
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from aioice import ice

from warp.errors import UsageError
from warp.io.udp import AddressInUse, bind_udp

WILDCARDS = ("", "0.0.0.0", "::")
_LOOPBACK = ("127.0.0.1", "::1")
_PORT_ATTEMPTS = 16


def host_addresses(*, loopback: bool = False, ipv6: bool = True) -> list[str]:
    """Return the numeric addresses of this host, IPv4 first, link-local ones left out.

    With `loopback`, or when there is nothing else, 127.0.0.1 (and ::1) are included.
    """
    found: set[str] = set()
    for text in ice.get_host_addresses(use_ipv4=True, use_ipv6=ipv6):
        address = ipaddress.ip_address(text)
        if not (address.is_link_local or address.is_loopback):
            found.add(str(address))
    if loopback or not found:
        found.update(a for a in _LOOPBACK if (ipv6 or ":" not in a) and _is_ours(a))
    return sorted(found, key=lambda a: (":" in a, a.startswith("127"), a))


def _is_ours(address: str) -> bool:
    try:
        bind_udp(address, 0).close()
    except UsageError:
        return False
    return True


def expand_host(host: str, *, loopback: bool) -> list[str]:
    """Return the addresses that a host to listen on stands for.

    `0.0.0.0` means every IPv4 address of this machine, `::` every IPv6 address, an empty text
    both; everything else is one address.
    """
    if host not in WILDCARDS:
        return [host]
    wanted = {"": (False, True), "0.0.0.0": (False,), "::": (True,)}[host]
    return [a for a in host_addresses(loopback=loopback) if (":" in a) in wanted]


def bind_each(hosts: list[str], port: int, *, reuse_port: bool = False) -> list[socket.socket]:
    """Return a socket for each address, all on one port (0: any that is free on all of them).

    Raises `AddressInUse` when the port is taken on one of them, `UsageError` when no address can
    be bound. An address that has just gone away is left out.
    """
    for _ in range(_PORT_ATTEMPTS - 1 if port == 0 else 0):
        with contextlib.suppress(AddressInUse):
            return _bind_all(hosts, port, reuse_port)
    return _bind_all(hosts, port, reuse_port)


def _bind_all(hosts: list[str], port: int, reuse_port: bool) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    failure: UsageError | None = None
    for host in hosts:
        try:
            sockets.append(bind_udp(host, port, reuse_port=reuse_port))
        except AddressInUse:
            for sock in sockets:
                sock.close()
            raise
        except UsageError as error:
            failure = error
            continue
        port = sockets[0].getsockname()[1]
    if not sockets:
        raise failure or UsageError("this machine has no address to listen on")
    return sockets
