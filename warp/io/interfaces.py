"""Which addresses this machine has, for candidates and for sockets."""

from __future__ import annotations

import ipaddress

import ifaddr


def host_addresses(*, loopback: bool = False, ipv6: bool = True) -> list[str]:
    """Return the numeric addresses of this host, IPv4 first, link-local ones left out.

    With `loopback`, or when there is nothing else, 127.0.0.1 (and ::1) are included.
    """
    found: list[str] = []
    local: list[str] = []
    for adapter in ifaddr.get_adapters():
        for entry in adapter.ips:
            text = entry.ip if isinstance(entry.ip, str) else entry.ip[0]
            address = ipaddress.ip_address(text)
            if address.is_link_local or (address.version == 6 and not ipv6):
                continue
            (local if address.is_loopback else found).append(str(address))
    chosen = found + local if loopback or not found else found
    return sorted(dict.fromkeys(chosen), key=lambda a: (":" in a, a.startswith("127"), a))
