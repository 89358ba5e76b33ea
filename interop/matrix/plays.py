"""What is done in a call: each play raises `Failed` with what is wrong, or `Cannot`.

A play is given a stage, holds one call or many on it, and returns what the start has cost.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from interop.matrix.call import (
    Call,
    Cost,
    Failed,
    Stage,
    peer_reoffers,
    require,
    same,
    we_reoffer,
)
from interop.matrix.scenario import Scenario, Used
from interop.peers.peer import PATIENCE_S, TALK, PeerError
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.io import ConnectionState
from warp.stun import Attribute

_LARGE = bytes(range(256)) * 64
_POLL_S = 0.02
_MOVE_S = 20.0
_NOTICE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a play has found."""

    cost: Cost | None = None
    note: str = ""


Play = Callable[[Stage], Awaitable[Outcome]]


async def start(stage: Stage) -> Outcome:
    """A start, a small and a large message each way, and what was negotiated."""
    async with stage.call() as call:
        cost = await call.up()
        await call.talk("short", _LARGE)
        check_used(call, stage.scenario)
        return Outcome(cost=cost)


def check_used(call: Call, scenario: Scenario) -> None:
    """Compare what the start has used with what it has to."""
    stats = call.session.stats()
    version, hybrid = stats["dtls_version"], stats["dtls_group"] is NamedGroup.X25519MLKEM768
    # a flight may leave bare behind the response that acknowledges what rode
    known = any(data["new"] == "confirmed" for _, data in call.trace.named("sped:state_changed"))
    rode = known and bool(call.wire.riders(ours=True) or call.wire.riders(ours=False))
    states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
    snap = states == ["established"]
    true = {
        Used.DTLS13: version is DtlsVersion.DTLS13,
        Used.DTLS12: version is DtlsVersion.DTLS12,
        Used.HYBRID: hybrid,
        Used.CLASSICAL: not hybrid,
        Used.SPED: rode,
        Used.NO_SPED: not rode,
        Used.SNAP: snap,
        Used.NO_SNAP: not snap,
    }
    for used in scenario.used:
        require(true[used], f"the start used not what it had to: {used}")
    same("the role of our answer is", _role(call), _wanted_role(call, scenario))
    require(stats["unknown_datagrams"] == 0, f"{stats['unknown_datagrams']} unknown datagrams")


def _role(call: Call) -> str:
    return next(
        line.partition(":")[2] for line in call.answer.splitlines() if line.startswith("a=setup:")
    )


def _wanted_role(call: Call, scenario: Scenario) -> str:
    if scenario.peer_offers:
        return "passive" if scenario.passive else "active"
    return scenario.setup or _role(call)


# -- changes ------------------------------------------------------------------------------------


async def restart_theirs(stage: Stage) -> Outcome:
    """The peer restarts ICE twice; both times it checks with new credentials, and talks."""
    return await _change(stage, lambda call: peer_reoffers(call, restart=True), restarts=True)


async def restart_ours(stage: Stage) -> Outcome:
    """We do."""
    return await _change(stage, lambda call: we_reoffer(call, restart=True), restarts=True)


async def reoffer_theirs(stage: Stage) -> Outcome:
    """The peer offers again, and nothing changes."""
    return await _change(stage, peer_reoffers, restarts=False)


async def reoffer_ours(stage: Stage) -> Outcome:
    """We do."""
    return await _change(stage, we_reoffer, restarts=False)


async def _change(
    stage: Stage, change: Callable[[Call], Awaitable[None]], *, restarts: bool
) -> Outcome:
    async with stage.call() as call:
        cost = await call.up()
        await call.talk("before")
        for number in (1, 2):
            await change(call)
            if restarts:
                await _checked_with(call, 1 + number)
            await call.talk(f"after change {number}")
        require(call.session.state is ConnectionState.CONNECTED, f"we are {call.session.state}")
        return Outcome(cost=cost)


def ufrags(call: Call, *, ours: bool) -> set[bytes]:
    """Return the ufrags of its own that one side has checked with."""
    checks = [r.message for r in list(call.wire.rungs) if r.ours is ours and r.is_check]
    return {(m.get(Attribute.USERNAME) or b":").split(b":")[1] for m in checks if m is not None}


async def _checked_with(call: Call, number: int) -> None:
    """Wait until a side has used so many ufrags of its own, and a path is selected as often."""

    def checked() -> bool:
        return max(len(ufrags(call, ours=ours)) for ours in (True, False)) >= number

    def selected() -> bool:
        return len(call.trace.named("ice:pair_selected")) >= number

    for look, what in ((checked, "check with new credentials"), (selected, "path selected")):
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not look():
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise Failed(f"no {what} after restart {number - 1}") from None


async def peer_moves(stage: Stage) -> Outcome:
    """A NAT gives the peer another address in mid-call."""
    return await _move(stage, ours=False)


async def we_move(stage: Stage) -> Outcome:
    """And us."""
    return await _move(stage, ours=True)


async def _move(stage: Stage, *, ours: bool) -> Outcome:
    async with stage.call() as call:
        cost = await call.up()
        await call.talk("before")
        before = call.session.stats()["flow"]
        call.wire.rebind(ours=ours)
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.wait_for(call.talk("after"), _MOVE_S)
        except TimeoutError:
            raise Failed(f"nothing arrives for {_MOVE_S:g} s after the move") from None
        took = asyncio.get_running_loop().time() - began
        if not ours:
            after = call.session.stats()["flow"]
            require(after != before, "messages went on, but to the old address")
        return Outcome(cost=cost, note=f"silent for {1000 * took:.0f} ms")


# -- network ------------------------------------------------------------------------------------


async def idle(stage: Stage) -> Outcome:
    """Nothing is said for longer than consent lasts without checks (RFC 7675 section 5.1)."""
    async with stage.call() as call:
        cost = await call.up()
        await call.talk("before")
        quiet = asyncio.get_running_loop().time()
        await asyncio.sleep(stage.scenario.count)
        sides = {
            r.ours for r in list(call.wire.rungs) if r.is_check and r.time > quiet
        }  # fmt: skip
        require(False in sides, "the peer has sent no consent check")
        if not (stage.scenario.peer_offers and stage.scenario.lite):
            require(True in sides, "we have sent no consent check")
        await call.talk("after")
        return Outcome(cost=cost)


async def many_starts(stage: Stage) -> Outcome:
    """Starts in a row; offers go both ways in turn. All have to come up and talk."""
    times: list[float] = []
    failures: list[str] = []
    for number in range(stage.scenario.count):
        try:
            async with stage.call(seed=number, peer_offers=number % 2 == 0) as call:
                cost = await call.up()
                await call.talk(f"start {number}")
                times.append(cost.works * stage.scenario.rtt_s)
        except (PeerError, Failed, TimeoutError, Exception) as error:
            failures.append(f"start {number}: {type(error).__name__} {error}"[:200])
    total = stage.scenario.count
    require(not failures, f"{len(failures)} of {total} did not connect: {failures[:3]}")
    worst, median = max(times), statistics.median(times)
    return Outcome(note=f"{total} of {total}; median {median:.2f} s, worst {worst:.2f} s")


# -- ending -------------------------------------------------------------------------------------


async def we_close(stage: Stage) -> Outcome:
    """The peer learns that we have gone, long before consent is lost."""
    async with stage.call() as call:
        cost = await call.up()
        await call.talk("short")
        await call.session.close()
        signs = ("connection:closed", "connection:failed", "connection:disconnected")
        await call.peer.happened(f"closed:{TALK}", *signs, within_s=_NOTICE_S)
        return Outcome(cost=cost)


async def peer_closes(stage: Stage) -> Outcome:
    """We learn that the peer has gone, and that it was no fault."""
    async with stage.call() as call:
        cost = await call.up()
        await call.talk("short")
        await call.peer.close()
        try:
            error = await asyncio.wait_for(call.session.closed, _NOTICE_S)
        except TimeoutError:
            raise Failed(f"we notice nothing within {_NOTICE_S:g} s") from None
        same("our session ended with", error, None)
        return Outcome(cost=cost)
