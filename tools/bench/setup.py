"""`warp bench setup`: CPU time of a start at each end, and memory of an idle session.

From the offer to the open channel, sockets and event loop included, eight starts at a time; the
same for both stacks.
Ours is a whole WARP start of a voice call: audio and a negotiated channel, SPED, DTLS 1.3, SNAP, in
a process that is prepared as README says (`warp.io.prepare_process`).
aiortc's is its cheapest: a negotiated channel alone, DTLS 1.2, as it is released.
"""

from __future__ import annotations

import statistics
from typing import Any

from warp_tools.bench.neighbours import NOISY_CORES, Neighbours
from warp_tools.bench.pairing import Pairing, has_aiortc
from warp_tools.bench.report import Figures, Report, Target, ratios

CPU_TARGET_MS = 1.2
MEMORY_TARGET_KIB = 60.0
CROWD = 8
"""Starts that happen together, as on a server that is busy: wake-ups are shared by all."""
_WARM_UP = 3


async def run(*, quick: bool = False) -> Report:
    """Measure both stacks, or ours alone where aiortc is not installed."""
    ours = await measure("ours", "both", rounds=8 if quick else 30, idle=100 if quick else 300)
    aiortc = None
    if has_aiortc():
        aiortc = await measure("aiortc", "channel", rounds=3 if quick else 10, idle=20)
    return Report(
        title="A start",
        ours=ours,
        aiortc=aiortc,
        ratio=ratios(ours, aiortc, more_is_better=()),
        targets=[
            Target(name="CPU ms, client", value=ours["client_cpu_ms"], limit=CPU_TARGET_MS),
            Target(name="CPU ms, server", value=ours["server_cpu_ms"], limit=CPU_TARGET_MS),
            Target(
                name="KiB an idle session (server)",
                value=ours["idle_session_kib"],
                limit=MEMORY_TARGET_KIB,
            ),
        ],
        noisy=_noisy({"ours": ours, "aiortc": aiortc}),
    )


def _noisy(stacks: dict[str, Figures | None]) -> str:
    """Say which figures are of a machine that had other work as well: caches are shared."""
    found = [
        f"{figures['neighbours_cores']:.1f} cores busy while {stack} was measured"
        for stack, figures in stacks.items()
        if figures is not None and figures.get("noisy")
    ]
    if not found:
        return ""
    return f"other processes kept {', '.join(found)}: a start costs less on a quiet machine"


async def measure(stack: str, kind: str, *, rounds: int, idle: int) -> dict[str, Any]:
    """Return the figures of one stack: medians over rounds of starts that happen together."""
    pairing = await Pairing.start(stack)
    client, server = [], []
    neighbours = Neighbours()
    try:
        for at in range(_WARM_UP + rounds):
            if at == _WARM_UP and stack == "ours":
                pairing.tell_both(order="prepare")
            crowd = [f"{at}.{number}" for number in range(CROWD)]
            mine, theirs = await pairing.open_many(crowd, kind)
            await pairing.close_many(crowd)
            if at >= _WARM_UP:
                client.append(mine)
                server.append(theirs)
        cores = neighbours.cores()
    finally:
        await pairing.stop()
    memory = await idle_memory(stack, kind, idle)
    return {
        "client_cpu_ms": round(statistics.median(client), 3),
        "server_cpu_ms": round(statistics.median(server), 3),
        "client_cpu_min_ms": round(min(client), 3),
        "server_cpu_min_ms": round(min(server), 3),
        "idle_session_kib": round(memory, 1),
        "starts": rounds * CROWD,
        "neighbours_cores": None if cores is None else round(cores, 2),
        "noisy": cores is not None and cores > NOISY_CORES,
    }


async def idle_memory(stack: str, kind: str, count: int) -> float:
    """Return by how many KiB the server grows with each session that is up and idle."""
    # a fresh process: memory that earlier sessions gave back would hide the growth
    pairing = await Pairing.start(stack)
    try:
        for at in range(_WARM_UP * 4):
            await pairing.open(f"warm {at}", kind)
        before = await _resident(pairing)
        for at in range(count):
            await pairing.open(f"idle {at}", kind)
        return (await _resident(pairing) - before) / count
    finally:
        await pairing.stop()


async def _resident(pairing: Pairing) -> int:
    pairing.server.send(order="memory")
    return int((await pairing.server.expect("memory"))["kib"])
