"""The connection to the runner: datagrams and commands, one byte of opcode before each.

The runner's PORTING document and packet adaptor define it. Called by the shim, which hands in what
the commands are about. The clock is the runner's: it stands still until the runner turns it.

    P  length u32, datagram    both ways
    T  nanoseconds u64         time passes; answered with t before anything else is sent
    M  bytes u32               a new MTU
    E  nanoseconds u64         so long must be left until our next timer, all ones: none runs
"""

from __future__ import annotations

import contextlib
import socket
from enum import Enum

NEVER = (1 << 64) - 1
NANOSECONDS = 1e9
_LARGEST = 1 << 20


class Opcode(Enum):
    """What the runner asks for."""

    PACKET = b"P"
    TIMEOUT = b"T"
    MTU = b"M"
    EXPECT_TIMEOUT = b"E"


class LinkError(Exception):
    """The runner sent what no version of it is known to send."""


class Link:
    """One TCP connection to the runner."""

    def __init__(self, *, port: int, shim_id: int, ipv6: bool) -> None:
        family, host = (socket.AF_INET6, "::1") if ipv6 else (socket.AF_INET, "127.0.0.1")
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.connect((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(shim_id.to_bytes(8, "little"))
        self._reader = self._socket.makefile("rb")

    def receive(self) -> tuple[Opcode, bytes] | None:
        """Return the next command with its datagram or number, or None at the end."""
        try:
            first = self._reader.read(1)
            if not first:
                return None
            opcode = Opcode(first)
            if opcode is Opcode.PACKET:
                length = int.from_bytes(self._reader.read(4), "big")
                if length > _LARGEST:
                    raise LinkError(f"a datagram of {length} bytes")
                return opcode, self._reader.read(length)
            return opcode, self._reader.read(4 if opcode is Opcode.MTU else 8)
        except ValueError as error:
            raise LinkError(f"unknown opcode: {error}") from error
        except ConnectionError:
            return None

    def send(self, datagrams: list[bytes]) -> None:
        """Send datagrams. Harmless when the runner has gone."""
        self._write(b"".join(b"P" + len(data).to_bytes(4, "big") + data for data in datagrams))

    def acknowledge_timeout(self) -> None:
        """Tell the runner that its T was seen."""
        self._write(b"t")

    def drain(self) -> None:
        """Say nothing more, and let the runner finish: it must not miss our last datagram."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while self._reader.read(4096):
                pass

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()
        self._socket.close()

    def _write(self, data: bytes) -> None:
        # a runner that has seen enough closes while we still speak
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)
