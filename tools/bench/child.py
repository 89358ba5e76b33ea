"""A measured process: `python -m warp_tools.bench.child STACK client|server`.

STACK is `ours` or `aiortc`, with `-codec` for those that decode and encode, `aiortc-released-codec`
with settings of its own; `load` only calls.

Obeys one order a line (see `warp_tools.lines`) and measures its own CPU time around it.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from warp.io import prepare_process
from warp_tools.bench.party import Party
from warp_tools.bench.slices import Slices
from warp_tools.lines import Line, Lines, pin_to_core

_OPEN_TIMEOUT_S = 20.0
_ON_ITS_WAY_S = 0.3


def resident_kib() -> int:
    """Memory that this process holds now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize() // 1024


class Child:
    """Carries out orders on a party."""

    def __init__(self, party: Party, lines: Lines) -> None:
        self._party = party
        self._lines = lines
        self._began: dict[str, float] = {}
        self._crowd_cpu = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def obey(self, order: Line) -> None:
        """Carry out one order; what takes long runs beside."""
        name, session = order["order"], str(order.get("session", ""))
        match name:
            case "offer":
                self._began[session] = time.process_time()
                sdp = await self._party.offer(session, order["kind"])
                self._lines.write(event="offer", sdp=sdp)
            case "accept":
                await self._party.accept(session, order["sdp"])
                self._beside(self._opened(session))
            case "answer":
                self._began[session] = time.process_time()
                sdp = await self._party.answer(session, order["kind"], order["sdp"])
                self._lines.write(event="answer", sdp=sdp)
                self._beside(self._opened(session))
            case "offers" | "answers" | "accepts":
                await self._many(name, order["sessions"], order.get("kind", ""))
            case "close":
                await self._party.close(session)
                self._lines.write(event="closed")
            case "close_all":
                for one in order["sessions"]:
                    await self._party.close(one)
                self._lines.write(event="closed")
            case "memory":
                gc.collect()
                self._lines.write(event="memory", kib=resident_kib())
            case "prepare":
                # as a server of ours does
                prepare_process()
            case "media":
                raw = bool(order.get("raw"))
                self._beside(self._media(float(order["seconds"]), raw))
            case "blast":
                self._beside(self._blast(session, int(order["size"]), float(order["seconds"])))
            case "receive":
                self._began["cpu"] = time.process_time()
                self._party.start_receiving(session)
                self._lines.write(event="receiving")
            case "received":
                count, seconds = self._party.received(session)
                cpu = time.process_time() - self._began["cpu"]
                self._lines.write(event="received", bytes=count, seconds=seconds, cpu=cpu)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._lines.write(event="failure", text=f"{type(error).__name__}: {error}")

    async def _opened(self, session: str) -> None:
        async with asyncio.timeout(_OPEN_TIMEOUT_S):
            await self._party.opened(session)
        cpu = time.process_time() - self._began.pop(session)
        self._lines.write(event="opened", cpu_ms=cpu * 1000)

    async def _many(self, name: str, sessions: dict[str, str], kind: str) -> None:
        """One step of several starts that happen at the same time; its CPU time is counted."""
        began = time.process_time()
        party = self._party
        if name == "offers":
            found = await asyncio.gather(*[party.offer(one, kind) for one in sessions])
            sdps = dict(zip(sessions, found, strict=True))
        elif name == "answers":
            sdps = {one: await party.answer(one, kind, sdp) for one, sdp in sessions.items()}
        else:
            sdps = {}
            await asyncio.gather(*[party.accept(one, sdp) for one, sdp in sessions.items()])
        self._crowd_cpu += time.process_time() - began
        if name != "accepts":
            self._lines.write(event=name, sessions=sdps)
        if name != "offers":
            self._beside(self._all_opened(list(sessions)))

    async def _all_opened(self, sessions: list[str]) -> None:
        began = time.process_time()
        async with asyncio.timeout(_OPEN_TIMEOUT_S):
            for one in sessions:
                await self._party.opened(one)
        self._crowd_cpu += time.process_time() - began
        self._lines.write(event="all_opened", cpu_ms=self._crowd_cpu * 1000 / len(sessions))
        self._crowd_cpu = 0.0

    async def _media(self, seconds: float, raw: bool) -> None:
        await self._party.start_media()
        # the first second is a crowd: it belongs to the start
        await asyncio.sleep(1.0)
        slices = Slices()
        self._party.arrivals.begin()
        packets = self._party.packets
        await slices.sample(seconds)
        if raw:
            # what was said in the last slice is on its way still
            await asyncio.sleep(_ON_ITS_WAY_S)
        self._party.collect()
        packets = self._party.packets - packets
        late = self._party.arrivals.lateness()
        if raw:
            # whoever asked judges it by the slices of both ends
            figures = self._party.figures()
            both = {"slices": slices.found, "lateness": late, "figures": figures}
            self._lines.write(event="media", packets=packets, **both)
        else:
            self._lines.write(event="media", packets=packets, **slices.judge(late))

    async def _blast(self, session: str, size: int, seconds: float) -> None:
        began = time.process_time()
        await self._party.blast(session, size, seconds)
        self._lines.write(event="blasted", cpu=time.process_time() - began)


async def main(stack: str, role: str) -> None:
    """Obey the parent until it closes the pipe."""
    pin_to_core()
    party: Party
    if stack.endswith("-codec"):
        if stack.startswith("aiortc"):
            from warp_tools.bench.aiortc_talker import AiortcTalker

            # "aiortc-codec" codes as ours does, "aiortc-released-codec" as it does by itself
            party = AiortcTalker(as_released="released" in stack)
        else:
            from warp_tools.bench.talkers import OurTalker

            party = OurTalker()
    elif stack == "aiortc":
        from warp_tools.bench.aiortc_party import AiortcParty

        party = AiortcParty()
    elif stack == "load":
        from warp_tools.bench.load import LoadParty

        party = LoadParty()
    else:
        from warp_tools.bench.ours import OurParty

        party = OurParty()
    await party.prepare(role)
    lines = Lines()
    child = Child(party, lines)
    lines.write(event="ready")
    while (order := await lines.read()) is not None:
        try:
            await child.obey(order)
        except Exception as error:
            lines.write(event="failure", text=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
