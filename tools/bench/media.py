"""`warp bench media`: how many sessions one core carries, Opus passed through, and at what cost.

Each session sends and receives 50 packets a second; the server has one core, the caller another.
The caller is the same for both stacks, and cheaper than either (`load`); of one call in sixteen it
also counts what comes back.
A session count is carried when less than 1 % of the frames reach the server's application more than
20 ms later than that session's best case.

Ours is as README says to run it, after `warp.io.prepare_process`; aiortc as it is released, and
once more after the same (`sessions_prepared`): its own garbage is what holds it up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from warp_tools.bench.load import listeners
from warp_tools.bench.pairing import Pairing, has_aiortc
from warp_tools.bench.report import Report, Target, ratio_target, ratios

LATE_LIMIT = 0.01
SESSIONS_RATIO = 7.0
PACKET_TARGET_US = 18.0
OUR_STEPS = (100, 200, 300, 350, *range(380, 800, 20), 800)
"""As fine, measured by what is carried, as the other stack's."""
AIORTC_STEPS = (20, 30, 40, 50, 55, 60, 65, 70, 75, 80, 85, 90, 100, 120)
_TRIES = 2

Trial = Callable[[int], Awaitable[dict[str, Any]]]


async def run(*, quick: bool = False) -> Report:
    """Measure both stacks, or ours alone where aiortc is not installed."""
    seconds = 4.0 if quick else 8.0

    async def ours_at(sessions: int) -> dict[str, Any]:
        return await trial("ours", sessions, seconds, prepared=True)

    async def aiortc_at(sessions: int) -> dict[str, Any]:
        return await trial("aiortc", sessions, seconds)

    async def prepared_at(sessions: int) -> dict[str, Any]:
        return await trial("aiortc", sessions, seconds, prepared=True)

    ours = await capacity(ours_at, OUR_STEPS[1::3] if quick else OUR_STEPS)
    aiortc = None
    if has_aiortc():
        steps = AIORTC_STEPS[1::2] if quick else AIORTC_STEPS
        aiortc = await capacity(aiortc_at, steps)
        aiortc["sessions_prepared"] = (await capacity(prepared_at, steps))["sessions"]
    ratio = ratios(ours, aiortc, more_is_better=("sessions",))
    return Report(
        title="Media",
        ours=ours,
        aiortc=aiortc,
        ratio=ratio,
        targets=[
            ratio_target("sessions on one core, times aiortc's", ratio, "sessions", SESSIONS_RATIO),
            Target(name="us a packet", value=ours.get("packet_us"), limit=PACKET_TARGET_US),
        ],
    )


async def capacity(measure: Trial, steps: Sequence[int]) -> dict[str, Any]:
    """Return the figures at the largest step that is carried; bisects, and forgives one try."""
    low, high = 0, len(steps)
    best: dict[str, Any] = {"sessions": 0}
    while low < high:
        middle = (low + high) // 2
        for _ in range(_TRIES):
            found = await measure(steps[middle])
            if found["late"] < LATE_LIMIT:
                break
        if found["late"] < LATE_LIMIT:
            best, low = {"sessions": steps[middle], **found}, middle + 1
        else:
            high = middle
    return best


async def trial(
    stack: str, sessions: int, seconds: float, *, prepared: bool = False
) -> dict[str, Any]:
    """Run so many sessions and return what the server saw; `prepared`, as ours asks to be."""
    pairing = await Pairing.start(stack, caller="load")
    try:
        for at in range(sessions):
            await pairing.open(str(at), "audio")
        pairing.client.send(order="prepare")
        if prepared:
            pairing.server.send(order="prepare")
        pairing.tell_both(order="media", seconds=seconds)
        found = await pairing.server.expect("media", timeout_s=seconds + 60)
        heard = await pairing.client.expect("media", timeout_s=60)
    finally:
        await pairing.stop()
    expected = sessions * 50 * found["seconds"]
    returned = heard["packets"] / (listeners(sessions) * 50 * seconds)
    # frames that never came are later than any that did
    missing = max(0.0, 1 - found["frames"] / expected - 0.005, 1 - returned - 0.015)
    packets = max(1, found["packets"])
    return {
        "late": round(found["late"] + missing, 5),
        "p50_ms": round(found["p50_ms"], 2),
        "p99_ms": round(found["p99_ms"], 2),
        "core_share": round(found["cpu"] / found["seconds"], 3),
        "returned": round(returned, 3),
        "packet_us": round(found["cpu_whole"] / packets * 1e6, 2),
        "noisy": found["noisy"],
    }
