"""One UDP socket: read all that is there, write without copying, batch where the kernel helps.

Stop 1 of the eight, and the last one on the way out. asyncio's own datagram endpoint allocates
256 KiB per read and hands out one packet a callback; here one readiness callback drains the
socket, and a run of equal-sized datagrams to one peer leaves by one system call (UDP_SEGMENT).
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence

from warp.contract import Address
from warp.errors import UsageError
from warp.io.readers import Watch

MAX_DATAGRAM = 2048
READ_BATCH = 64
BACKLOG_DATAGRAMS = 2048
BUFFER_BYTES = 4 * 1024 * 1024
_SOL_UDP = 17
_UDP_SEGMENT = 103
_GSO_MIN = 4
_NO_OFFLOAD = (errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.ENOPROTOOPT, errno.EOPNOTSUPP)
_GSO_MAX_BYTES = 60_000
_GSO_MAX_SEGMENTS = 60


class AddressInUse(UsageError):
    """The port is taken by another socket."""


def bind_udp(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """Return a bound, non-blocking UDP socket with large buffers.

    Raises `AddressInUse` when the port is taken, `UsageError` when the address is not ours or
    there is no such port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        sock.setblocking(False)
        sock.bind((host, port))
    except OverflowError:
        sock.close()
        raise UsageError(f"UDP port {port} does not exist: 0 to 65535") from None
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(f"UDP port {port} on {host} is in use: choose another") from error
        raise UsageError(f"cannot bind UDP {host} port {port}: {error.strerror}") from error
    return sock


def connect_udp(local: Address, remote: Address) -> socket.socket:
    """Return a socket on a shared port for one peer: the kernel leads that peer's datagrams to it.

    The port's other sockets must be bound with `reuse_port`. Raises `UsageError` when there is no
    room for another socket or no way to the peer.
    """
    try:
        sock = bind_udp(*local, reuse_port=True)
    except OSError as error:  # no descriptor is left
        raise UsageError(f"cannot open another socket: {error.strerror}") from error
    try:
        sock.connect(remote)
    except OSError as error:
        sock.close()
        raise UsageError(f"there is no way to a peer: {error.strerror}") from error
    return sock


class _Read(threading.local):
    """What the sockets of a thread read into, so that a datagram costs the memory that it needs."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(MAX_DATAGRAM))


_read = _Read()


def _ignore(data: bytes, address: tuple[str, int]) -> None:
    """Take in nothing any more."""


class UdpSocket:
    """A bound socket on an event loop. `receive(data, raw_address)` is called per datagram.

    `receive_done()` follows each drained batch, so that the owner flushes once a batch.
    """

    __slots__ = (
        "_backlog",
        "_gso",
        "_held",
        "_limit",
        "_receive",
        "_receive_done",
        "_sock",
        "_watch",
        "dropped",
        "local",
    )

    def __init__(
        self,
        sock: socket.socket,
        receive: Callable[[bytes, tuple[str, int]], None],
        receive_done: Callable[[], None],
        watch: Watch,
    ) -> None:
        """`watch` is the event loop, or what it watches."""
        self._sock = sock
        self._watch = watch
        self._limit = READ_BATCH
        self._receive = receive
        self._receive_done = receive_done
        self._backlog: deque[tuple[bytes, Address]] = deque()
        self._held: list[tuple[bytes, Address]] | None = None
        self._gso = hasattr(socket, "SO_REUSEPORT") and sock.type == socket.SOCK_DGRAM
        name = sock.getsockname()
        self.local: Address = (name[0], name[1])
        self.dropped = 0
        watch.add_reader(sock.fileno(), self._drain)

    @property
    def port(self) -> int:
        """The bound port."""
        return self.local[1]

    def fileno(self) -> int:
        """The descriptor, for socket options; -1 when closed."""
        return self._sock.fileno()

    def _drain(self) -> None:
        recvfrom_into, buffer = self._sock.recvfrom_into, _read.buffer
        receive = self._receive
        limit, count = self._limit, 0
        held = self._held = []
        try:
            while count < limit:
                size, address = recvfrom_into(buffer)
                count += 1
                receive(buffer[:size].tobytes(), address)
            # there may be more: we are called again then, which costs less than to ask in vain
            self._limit = min(2 * limit, READ_BATCH)
        except BlockingIOError:
            self._limit = max(count, 1)
        except OSError as error:
            # an ICMP error of an earlier send is reported here; the next read goes on.
            # What a datagram led to may also have closed the socket.
            passing = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)
            if error.errno not in passing and self._sock.fileno() >= 0:
                raise
        finally:
            try:
                self._receive_done()
            finally:
                self._held = None
                if held:
                    self._send_held(held)

    def _send_held(self, held: list[tuple[bytes, Address]]) -> None:
        """Send what a batch led to (the hot path of a bridge)."""
        left, sendto = iter(held), self._sock.sendto
        if not self._backlog:
            try:
                for data, remote in left:
                    sendto(data, remote)
            except OSError:
                # tried once more, and queued or counted there
                self.send(data, remote)
        for data, remote in left:
            self.send(data, remote)

    def send(self, data: bytes, remote: Address) -> None:
        """Send one datagram; when the kernel's buffer is full it waits its turn, bounded."""
        if self._backlog:
            self._queue(data, remote)
            return
        try:
            self._sock.sendto(data, remote)
        except BlockingIOError:
            self._queue(data, remote)
            self._watch.add_writer(self._sock.fileno(), self._write_backlog)
        except OSError:
            self.dropped += 1

    def send_behind(self, data: bytes, remote: Address) -> None:
        """Send one datagram behind the batch that is being read, or at once if there is none.

        Reading and writing by turns costs a tenth more: whoever receives is woken each time.
        """
        if self._held is None:
            self.send(data, remote)
        else:
            self._held.append((data, remote))

    def send_run(self, datagrams: Sequence[bytes], remote: Address) -> None:
        """Send datagrams to one peer, runs of equal size by UDP segmentation offload."""
        index, count = 0, len(datagrams)
        while index < count:
            size = len(datagrams[index])
            end = index + 1
            limit = min(count, index + min(_GSO_MAX_SEGMENTS, _GSO_MAX_BYTES // max(size, 1)))
            while end < limit and len(datagrams[end]) == size:
                end += 1
            if end < limit and 0 < len(datagrams[end]) < size:
                end += 1  # the last segment of a run may be shorter
            if not self._gso or self._backlog or end - index < _GSO_MIN:
                for position in range(index, end):
                    self.send(datagrams[position], remote)
            else:
                self._send_segments(datagrams[index:end], size, remote)
            index = end

    def _send_segments(self, run: Sequence[bytes], size: int, remote: Address) -> None:
        control = [(_SOL_UDP, _UDP_SEGMENT, struct.pack("=H", size))]
        try:
            self._sock.sendmsg(run, control, 0, remote)
        except BlockingIOError:
            for data in run:
                self._queue(data, remote)
            self._watch.add_writer(self._sock.fileno(), self._write_backlog)
        except OSError as error:
            if error.errno in _NO_OFFLOAD:
                # not on this path or kernel: never try again on this socket
                self._gso = False
            for data in run:
                self.send(data, remote)

    def _queue(self, data: bytes, remote: Address) -> None:
        if len(self._backlog) >= BACKLOG_DATAGRAMS:
            self.dropped += 1
        else:
            self._backlog.append((data, remote))

    def _write_backlog(self) -> None:
        while self._backlog:
            data, remote = self._backlog[0]
            try:
                self._sock.sendto(data, remote)
            except BlockingIOError:
                return
            except OSError:
                self.dropped += 1
            self._backlog.popleft()
        self._watch.remove_writer(self._sock.fileno())

    def close(self) -> None:
        """Stop reading and close the socket; harmless when repeated."""
        if self._sock.fileno() < 0:
            return
        self._watch.remove_reader(self._sock.fileno())
        self._watch.remove_writer(self._sock.fileno())
        with contextlib.suppress(OSError):
            self._sock.close()
        # whoever receives holds this socket: neither has to wait for the garbage collector
        self._receive = _ignore
