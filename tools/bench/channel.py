"""`warp bench channel`: one data channel, messages of 16 KiB, as fast as they go."""

from __future__ import annotations

import statistics
from typing import Any

from warp_tools.bench.pairing import Pairing, has_aiortc
from warp_tools.bench.report import Report, ratio_target, ratios

MESSAGE_BYTES = 16_384
RATIO_TARGET = 3.0
_MEGABYTE = 1_000_000


async def run(*, quick: bool = False) -> Report:
    """Measure both stacks, or ours alone where aiortc is not installed."""
    rounds, seconds = (1, 1.0) if quick else (5, 2.0)
    ours = await measure("ours", rounds, seconds)
    aiortc = await measure("aiortc", rounds, seconds) if has_aiortc() else None
    ratio = ratios(ours, aiortc, more_is_better=("mb_s",))
    return Report(
        title=f"A channel, messages of {MESSAGE_BYTES} bytes",
        ours=ours,
        aiortc=aiortc,
        ratio=ratio,
        targets=[ratio_target("throughput, times aiortc's", ratio, "mb_s", RATIO_TARGET)],
    )


async def measure(stack: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Return medians of one stack over `rounds`, each on a fresh session."""
    pairing = await Pairing.start(stack)
    rates, sending, receiving = [], [], []
    try:
        for at in range(rounds):
            session = str(at)
            await pairing.open(session, "channel")
            pairing.server.send(order="receive", session=session)
            await pairing.server.expect("receiving")
            pairing.client.send(order="blast", session=session, size=MESSAGE_BYTES, seconds=seconds)
            blasted = await pairing.client.expect("blasted", timeout_s=seconds + 60)
            pairing.server.send(order="received", session=session)
            received = await pairing.server.expect("received")
            await pairing.close(session)
            megabytes = received["bytes"] / _MEGABYTE
            rates.append(megabytes / received["seconds"] if received["seconds"] else 0.0)
            sending.append(blasted["cpu"] * 1000 / megabytes if megabytes else 0.0)
            receiving.append(received["cpu"] * 1000 / megabytes if megabytes else 0.0)
    finally:
        await pairing.stop()
    return {
        "mb_s": round(statistics.median(rates), 2),
        "sender_cpu_ms_mb": round(statistics.median(sending), 2),
        "receiver_cpu_ms_mb": round(statistics.median(receiving), 2),
        "rounds": rounds,
    }
