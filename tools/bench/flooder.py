"""Sends first datagrams that are worth nothing: `python -m warp_tools.bench.flooder host port`.

Reads orders as lines of JSON: `{"datagrams": [base64...], "rate": per second, "seconds": s}`; the
datagrams go round, each with a transaction id of its own, from many addresses of 127.0.0.0/8.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from base64 import b64decode

from warp_tools.lines import Lines, pin_to_core

_PREFIXES = 64
_BATCH_S = 0.005


def open_sockets() -> list[socket.socket]:
    """Return sockets in as many address prefixes as the system gives us."""
    found = []
    for number in range(_PREFIXES):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.bind((f"127.0.{number + 1}.1", 0))
        except OSError:
            sock.bind(("127.0.0.1", 0))  # where 127.0.0.1 is the only one
        found.append(sock)
    return found


def flood(
    sockets: list[socket.socket],
    target: tuple[str, int],
    kinds: list[bytes],
    rate: int,
    span_s: float,
) -> int:
    """Send at a rate for some seconds; returns how many datagrams were sent."""
    began = time.monotonic()
    sent = 0
    while (passed := time.monotonic() - began) < span_s:
        due = int(passed * rate)
        while sent < due:
            kind = kinds[sent % len(kinds)]
            # a fresh transaction id, so that no two are equal; its integrity is wrong anyway
            data = kind[:8] + os.urandom(12) + kind[20:]
            sockets[sent % len(sockets)].sendto(data, target)
            sent += 1
        time.sleep(_BATCH_S)
    return sent


async def main(host: str, port: str) -> None:
    """Obey the parent until it closes the pipe."""
    pin_to_core()
    lines = Lines()
    sockets = open_sockets()
    lines.write(event="ready")
    while (order := await lines.read()) is not None:
        kinds = [b64decode(text) for text in order["datagrams"]]
        sent = flood(sockets, (host, int(port)), kinds, order["rate"], order["seconds"])
        lines.write(event="flooded", sent=sent)
    for sock in sockets:
        sock.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
