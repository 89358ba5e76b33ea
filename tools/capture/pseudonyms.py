"""Names for what must not be known: equal values get equal ones, and none leads back.

A key is drawn for each run and forgotten: BLAKE2b with it turns bytes into other bytes of the same
length. Addresses are numbered as they come. Called by `redact`.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from typing import Final

from warp_tools.capture.hellos import Hellos
from warp_tools.capture.ip import Address

MAX_ADDRESSES: Final = 100_000
_BLOCK: Final = 64
_ICE_CHARS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_V4_FIRST: Final = int(ipaddress.ip_address("10.0.0.1"))
_V6_FIRST: Final = int(ipaddress.ip_address("fd00::1"))


class Pseudonyms:
    """One run's names."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key: Final = os.urandom(32) if key is None else key
        self._hosts: dict[str, str] = {}
        self._crcs: dict[int, int] = {}
        self.hellos: Final = Hellos()

    def octets(self, value: bytes, about: bytes = b"") -> bytes:
        """Return as many other bytes."""
        size = len(value)
        if not size:
            return b""
        seed = hashlib.blake2b(value, key=self._key, person=about[:16]).digest()
        if size <= _BLOCK:
            return seed[:size]
        out = [seed]
        for number in range(1, -(-size // _BLOCK)):
            out.append(hashlib.blake2b(number.to_bytes(4, "big"), key=seed).digest())
        return b"".join(out)[:size]

    def text(self, value: bytes) -> bytes:
        """Return as many other letters, such as a ufrag may have."""
        return bytes(_ICE_CHARS[octet & 63] for octet in self.octets(value, b"text"))

    def host(self, host: str) -> str:
        """Return another address of the same family."""
        known = self._hosts.get(host)
        if known is not None:
            return known
        is_6 = ":" in host
        first = _V6_FIRST if is_6 else _V4_FIRST
        if len(self._hosts) >= MAX_ADDRESSES:
            number = int.from_bytes(self.octets(host.encode(), b"host")[:2], "big") + MAX_ADDRESSES
        else:
            number = len(self._hosts)
        named = str(ipaddress.IPv6Address(first + number) if is_6 else _v4(first + number))
        if len(self._hosts) < MAX_ADDRESSES:
            self._hosts[host] = named
        return named

    def address(self, address: Address) -> Address:
        """Return another address; the port stays."""
        return self.host(address[0]), address[1]

    def learn_crc(self, before: int, after: int) -> None:
        """Remember what an acknowledgement of a rewritten datagram has to say."""
        if len(self._crcs) < MAX_ADDRESSES:
            self._crcs[before] = after

    def crc(self, before: int) -> int:
        """Return the CRC of the rewritten datagram, or another unknown one."""
        known = self._crcs.get(before)
        if known is not None:
            return known
        return int.from_bytes(self.octets(before.to_bytes(4, "big"), b"crc"), "big")


def _v4(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(number & 0xFFFFFFFF)
