"""Calls through a relay, from a machine of its own; told what to do on stdin, a JSON line each.

{"do": "call", "bundle": TEXT}   ─▶ {"call": 0, "id": "rtc_..."}     or {"failed": "..."}
{"do": "ping"}                   ─▶ {"alive": [true, ...]}
{"do": "move", "host": ADDRESS}  ─▶ {"moved": true}                  a NAT's other address
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from typing import Any

from instant_connect.bundle import parse_bundle
from instant_connect.io.client import InstantClient, Posted
from warp.io import Channel, ClientConfig, Session
from warp_tools.lines import Lines

PATIENCE_S = 10.0


class Nat:
    """Between the clients and the relay: one outer socket for every client, which may change."""

    def __init__(self, host: str, relay: tuple[str, int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._host = host
        self._relay = relay
        self._outer: dict[tuple[str, int], socket.socket] = {}
        self.front = self._open("127.0.0.1")
        self._loop.add_reader(self.front.fileno(), self._out)

    def _open(self, host: str) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.bind((host, 0))
        return sock

    def _out(self) -> None:
        data, client = self.front.recvfrom(2048)
        if client not in self._outer:
            sock = self._outer[client] = self._open(self._host)
            self._loop.add_reader(sock.fileno(), self._back, sock, client)
        self._outer[client].sendto(data, self._relay)

    def _back(self, sock: socket.socket, client: tuple[str, int]) -> None:
        self.front.sendto(sock.recv(2048), client)

    def move(self, host: str) -> None:
        """Have other outer addresses from now on."""
        self._host = host
        for sock in self._outer.values():
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._outer.clear()


async def never(offer: str, headers: Mapping[str, str]) -> Posted:
    raise ConnectionError("there is no signalling here")


async def call(client: InstantClient, text: str, port: int) -> tuple[Session, Channel, str]:
    bundle = json.loads(text)
    bundle["candidates"] = [f"udp 127.0.0.1 {port}"]
    loop = asyncio.get_running_loop()
    client.wallet.put(parse_bundle(json.dumps(bundle)), loop.time())
    session = await client.connect(PATIENCE_S)
    channel = session.channel("oai-events", negotiated=True, stream_id=4)
    async with asyncio.timeout(PATIENCE_S):
        created = json.loads(await anext(channel))
    return session, channel, created["session"]["id"]


async def ping(session: Session, channel: Channel, seconds: float) -> bool:
    if session.closed.done():
        return False
    channel.send('{"type": "ping"}')
    try:
        async with asyncio.timeout(seconds):
            return bool(json.loads(await anext(channel))["type"] == "error")
    except (TimeoutError, StopAsyncIteration):
        await session.close()
        return False


async def main(host: str, relay: str, port: str) -> None:
    lines = Lines()
    nat = Nat(host, (relay, int(port)))
    calls: list[tuple[Session, Channel]] = []
    async with InstantClient(post=never, config=ClientConfig(host="127.0.0.1")) as client:
        lines.write(ready=True)
        while (line := await lines.read()) is not None:
            told: dict[str, Any] = {}
            if line["do"] == "call":
                try:
                    *made, name = await call(client, line["bundle"], nat.front.getsockname()[1])
                    calls.append((made[0], made[1]))
                    told = {"call": len(calls) - 1, "id": name}
                except Exception as error:
                    told = {"failed": f"{type(error).__name__}: {error}"}
            elif line["do"] == "ping":
                told = {
                    "alive": await asyncio.gather(*(ping(*each, line["seconds"]) for each in calls))
                }
            elif line["do"] == "move":
                nat.move(line["host"])
                told = {"moved": True}
            lines.write(**told)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
