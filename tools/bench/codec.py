"""`warp bench media --codec`: how many talking sessions one core carries, Opus decoded and encoded.

Each session sends real speech, 50 packets a second; the server decodes it, hands it to a voice that
says what it hears, and encodes that. The caller, ours for both stacks, notes when what comes back
arrives: a frame is late 20 ms behind that session's best case, and one that never comes is late.
Both encode with the same settings: 32 kbit/s, one channel, complexity 5, FEC. What aiortc comes to
with those that it is released with (96 kbit/s, two channels, full complexity) is told beside it.
"""

from __future__ import annotations

from typing import Any

from warp_tools.bench.media import LATE_LIMIT, capacity
from warp_tools.bench.pairing import Pairing, has_aiortc
from warp_tools.bench.report import Report, ratio_target, ratios
from warp_tools.bench.slices import Slices

SESSIONS_RATIO = 2.5
OUR_STEPS = (24, 30, 36, 42, 48, 54, 60, 66, 72, 80)
AIORTC_STEPS = (8, 10, 12, 14, 16, 20, 24, 28)


async def run(*, quick: bool = False) -> Report:
    """Measure both stacks, or ours alone where aiortc is not installed."""
    seconds = 4.0 if quick else 8.0

    async def ours_at(sessions: int) -> dict[str, Any]:
        return await trial("ours-codec", sessions, seconds)

    async def aiortc_at(sessions: int) -> dict[str, Any]:
        return await trial("aiortc-codec", sessions, seconds)

    async def released_at(sessions: int) -> dict[str, Any]:
        return await trial("aiortc-released-codec", sessions, seconds)

    ours = await capacity(ours_at, OUR_STEPS[1::2] if quick else OUR_STEPS)
    aiortc = None
    if has_aiortc():
        steps = AIORTC_STEPS[1::2] if quick else AIORTC_STEPS
        aiortc = await capacity(aiortc_at, steps)
        released = await capacity(released_at, steps)
        aiortc["sessions_as_released"] = released["sessions"]
    ratio = ratios(ours, aiortc, more_is_better=("sessions",))
    return Report(
        title=f"Media, decoded and encoded (late: under {LATE_LIMIT:.0%})",
        ours=ours,
        aiortc=aiortc,
        ratio=ratio,
        targets=[
            ratio_target(
                "talking sessions on one core, times aiortc's", ratio, "sessions", SESSIONS_RATIO
            )
        ],
    )


async def trial(stack: str, sessions: int, seconds: float) -> dict[str, Any]:
    """Run so many sessions and return what the caller saw."""
    pairing = await Pairing.start(stack, caller="ours-codec")
    try:
        for at in range(sessions):
            await pairing.open(str(at), "audio")
        pairing.tell_both(order="prepare")
        pairing.tell_both(order="media", seconds=seconds, raw=True)
        heard = await pairing.client.expect("media", timeout_s=seconds + 60)
        served = await pairing.server.expect("media", timeout_s=60)
    finally:
        await pairing.stop()
    caller, server = Slices(heard["slices"]), Slices(served["slices"])
    late = [(at, behind) for at, behind in heard["lateness"]]
    found = caller.judge(late, server)
    expected = sessions * 50 * found["seconds"]
    # frames that never came are later than any that did
    missing = max(0.0, 1 - found["frames"] / expected - 0.005)
    cpu = sum(one.own for one in server.found)
    whole = sum(one.ended - one.began for one in server.found)
    return {
        "late": round(found["late"] + missing, 5),
        "p50_ms": round(found["p50_ms"], 2),
        "p99_ms": round(found["p99_ms"], 2),
        "core_share": round(cpu / whole, 3),
        "session_us": round(cpu / whole / 50 / sessions * 1e6, 1),
        "noisy": found["noisy"],
        **_of_loop(served["figures"]),
    }


def _of_loop(figures: dict[str, Any]) -> dict[str, Any]:
    if not figures:
        return {}
    late = sum(figures["frames"]["late"].values())
    return {
        "tick_p50_ms": figures["tick_p50_ms"],
        "tick_p99_ms": figures["tick_p99_ms"],
        "loop_late": round(late / max(1, figures["frames"]["frames"]), 5),
    }
