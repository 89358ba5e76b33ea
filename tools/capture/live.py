"""`warp pcap live`: the ladder while it happens, from a network interface.

Linux: a packet socket with the kernel's own time stamps. Elsewhere scapy (extra `tools`) opens the
interface. What leaves and what arrives on a loopback is one packet and is taken once.

    interface ─▶ LiveFrames ─▶ Reader ─▶ Finder ─▶ a line as soon as it is known
                     └ PacketWriter (--write)
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from warp_tools.capture import link
from warp_tools.capture.files import Frame
from warp_tools.capture.writer import PacketWriter
from warp_tools.failure import CommandRefused, ToolFailure

ANY: Final = "any"
_ALL_PROTOCOLS: Final = 0x0003
_OUTGOING: Final = 4
_LOOPBACK, _ETHERNET = 772, 1
_RAW_IP: Final = 101
_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@qq")
_MAX_FRAME: Final = 1 << 18
_BUFFER: Final = 8 << 20
_PATIENCE_S: Final = 0.25


class LiveFrames:
    """The frames of an interface, until a time has passed or enough were seen."""

    def __init__(
        self,
        interface: str,
        *,
        seconds: float | None = None,
        packets: int | None = None,
        writer: PacketWriter | None = None,
    ) -> None:
        """Open the interface. Raises `ToolFailure` when it is not there or not allowed."""
        self.damage: str | None = None
        self.odd: Counter[str] = Counter()
        self.secrets = b""
        self._interface = interface
        self._seconds = seconds
        self._packets = packets
        self._writer = writer
        self._numbers: dict[str, int] = {}
        self._socket: Any = open_interface(interface)

    @property
    def interfaces(self) -> int:
        """Several for `any`: a packet may be seen on more than one."""
        return 2 if self._interface == ANY else 1

    def __iter__(self) -> Iterator[Frame]:
        """Yield every frame; ends at the time or number that was asked for."""
        deadline = None if self._seconds is None else time.monotonic() + self._seconds
        number = 0
        while self._packets is None or number < self._packets:
            left = _PATIENCE_S
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
                if left <= 0:
                    return
            if not select.select([self._socket], [], [], left)[0]:
                continue
            frame = self._receive(number + 1)
            if frame is not None:
                number += 1
                yield frame

    def close(self) -> None:
        """Give the interface back."""
        self._socket.close()

    def _receive(self, number: int) -> Frame | None:
        try:
            received = receive(self._socket)
        except OSError as error:
            failure = CommandRefused if number == 1 else ToolFailure
            why = error.strerror or error
            raise failure(f"cannot capture on {self._interface}: {why}; is it up?") from error
        if received is None:
            return None
        name, kind, time_ns, data = received
        interface = self._numbers.setdefault(name, len(self._numbers))
        if self._writer is not None:
            start = link.ip_start(kind, data)
            if start >= 0:
                self._writer.write(time_ns, data[start:])
                self._writer.flush()
        return Frame(number, time_ns, kind, interface, data, len(data))


def open_interface(name: str) -> Any:
    """Open an interface for reading. Raises `ToolFailure` with what to do when that fails."""
    try:
        if hasattr(socket, "AF_PACKET"):
            return _open_packet_socket(name)
        return _open_scapy(name)
    except PermissionError as error:
        raise CommandRefused(
            "capturing needs the right to open packet sockets: run it as root, or give Python "
            "cap_net_raw (or record with tcpdump -w FILE and use warp pcap explain FILE)"
        ) from error
    except OSError as error:
        known = ", ".join(one for _, one in socket.if_nameindex())
        raise CommandRefused(
            f"cannot capture on {name}: {error.strerror or error}; there are {known} and any"
        ) from error


def _open_packet_socket(name: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        opened.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        if name != ANY:
            opened.bind((name, _ALL_PROTOCOLS))
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def _open_scapy(name: str) -> Any:
    try:
        from scapy.config import conf
    except ImportError as error:
        raise CommandRefused(
            "capturing on this system needs scapy: pip install 'warp-rtc[tools]'"
        ) from error
    return conf.L2listen(iface=None if name == ANY else name)


def receive(opened: Any) -> tuple[str, int, int, bytes] | None:
    """Read one frame: interface, link type, time and bytes; None when it is to be passed over."""
    if not isinstance(opened, socket.socket):
        _, data, seconds = opened.recv_raw()
        if not data:
            return None
        return "", _ETHERNET, int((seconds or time.time()) * 1e9), data
    try:
        data, ancillary, _, address = opened.recvmsg(_MAX_FRAME, 64)
    except BlockingIOError:
        return None
    name, _, kind, hardware = address[:4]
    if hardware == _LOOPBACK and kind == _OUTGOING:
        return None  # it arrives again
    time_ns = 0
    for level, what, value in ancillary:
        if level == socket.SOL_SOCKET and what == _TIMESTAMPNS and len(value) >= _TIMESPEC.size:
            seconds, rest = _TIMESPEC.unpack_from(value)
            time_ns = seconds * 1_000_000_000 + rest
    link_type = _ETHERNET if hardware in (_ETHERNET, _LOOPBACK) else _RAW_IP
    return name, link_type, time_ns or time.time_ns(), data
