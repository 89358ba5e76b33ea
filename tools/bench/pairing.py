"""Two measured processes of one stack, and how sessions are set up between them."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from warp_tools.lines import Line, Worker

CHILD = "warp_tools.bench.child"


def has_aiortc() -> bool:
    """Whether there is an aiortc to measure beside ours: the extra `peers` brings it."""
    return importlib.util.find_spec("aiortc") is not None


class Pairing:
    """A client and a server process, each on a core of its own where there are two."""

    __slots__ = ("client", "server")

    def __init__(self, client: Worker, server: Worker) -> None:
        self.client = client
        self.server = server

    @classmethod
    async def start(cls, stack: str, caller: str | None = None) -> Pairing:
        """Start both processes; `caller` is the client's stack where that is another one."""
        two = (os.cpu_count() or 1) >= 2
        server = await Worker.start(CHILD, stack, "server", core=0 if two else None)
        client = await Worker.start(CHILD, caller or stack, "client", core=1 if two else None)
        for worker in (server, client):
            await worker.expect("ready", timeout_s=60)
        return cls(client, server)

    async def open(self, session: str, kind: str) -> tuple[Line, Line]:
        """Set up one session; returns what the client and the server say when it is up."""
        self.client.send(order="offer", session=session, kind=kind)
        offer = await self.client.expect("offer")
        self.server.send(order="answer", session=session, kind=kind, sdp=offer["sdp"])
        answer = await self.server.expect("answer")
        self.client.send(order="accept", session=session, sdp=answer["sdp"])
        return await self.client.expect("opened"), await self.server.expect("opened")

    async def open_many(self, sessions: list[str], kind: str) -> tuple[float, float]:
        """Set up sessions at the same time; returns CPU ms a start of the client and the server.

        What carries the descriptions between the processes is not counted.
        """
        self.client.send(order="offers", sessions=dict.fromkeys(sessions, ""), kind=kind)
        offers = (await self.client.expect("offers"))["sessions"]
        self.server.send(order="answers", sessions=offers, kind=kind)
        answers = (await self.server.expect("answers"))["sessions"]
        self.client.send(order="accepts", sessions=answers, kind=kind)
        client = await self.client.expect("all_opened")
        server = await self.server.expect("all_opened")
        return client["cpu_ms"], server["cpu_ms"]

    async def close_many(self, sessions: list[str]) -> None:
        """End sessions at both ends."""
        for worker in (self.client, self.server):
            worker.send(order="close_all", sessions=sessions)
            await worker.expect("closed")

    async def close(self, session: str) -> None:
        """End one session at both ends."""
        for worker in (self.client, self.server):
            worker.send(order="close", session=session)
            await worker.expect("closed")

    def tell_both(self, **order: Any) -> None:
        """Give both the same order."""
        self.client.send(**order)
        self.server.send(**order)

    async def stop(self) -> None:
        """End both processes."""
        await self.client.stop()
        await self.server.stop()
