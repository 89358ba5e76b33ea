"""A path that loses media, for any number of clients: `python -m warp_tools.bench.lossy_path`.

    client ──▶ front ─ 1 % of RTP is lost, each way ─▶ a socket a client ──▶ server

Prints the port of its front, and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import selectors
import socket
import sys

HOST = "127.0.0.1"
_AT_ONCE = 64
_RTP = range(128, 192)  # first byte (RFC 7983)
_RTCP = range(192, 224)  # second byte (RFC 5761 section 4)


class LossyPath:
    """Forwards until its owner goes."""

    def __init__(self, server_port: int, loss: float, seed: int) -> None:
        self._server = (HOST, server_port)
        self._loss = loss
        self._luck = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._front = self._bound()
        self._ways: dict[tuple[str, int], socket.socket] = {}
        self._clients: dict[socket.socket, tuple[str, int]] = {}

    @property
    def port(self) -> int:
        """Where clients find the server."""
        return int(self._front.getsockname()[1])

    def close(self) -> None:
        """Give the sockets back."""
        for sock in (self._front, *self._ways.values()):
            sock.close()
        self._selector.close()

    def _bound(self) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.bind((HOST, 0))
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ)
        return sock

    def run(self) -> None:
        """Forward."""
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return
                sock = key.fileobj
                if isinstance(sock, socket.socket):
                    self._read(sock)

    def _read(self, sock: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, source = sock.recvfrom(2048)
            except BlockingIOError:
                return
            except OSError:
                continue
            if self._is_lost(data):
                continue
            with contextlib.suppress(OSError):
                if sock is self._front:
                    self._way(source).sendto(data, self._server)
                else:
                    self._front.sendto(data, self._clients[sock])

    def _is_lost(self, data: bytes) -> bool:
        is_media = len(data) > 1 and data[0] in _RTP and data[1] not in _RTCP
        return is_media and self._luck.random() < self._loss

    def _way(self, client: tuple[str, int]) -> socket.socket:
        way = self._ways.get(client)
        if way is None:
            way = self._ways[client] = self._bound()
            self._clients[way] = client
        return way


def main() -> None:
    """Read the command line and forward."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server_port", type=int)
    parser.add_argument("--loss", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    path = LossyPath(chosen.server_port, chosen.loss, chosen.seed)
    print(path.port, flush=True)
    path.run()
    path.close()


if __name__ == "__main__":
    main()
