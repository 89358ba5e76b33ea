"""Plays scenarios with peers, one cell after the other, whatever happens to a peer.

Matrix.cell(kind, scenario) ─▶ declared as impossible? ─▶ process ─▶ play ─▶ Cell
                                                          failed: ended, and once more alone
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from interop.matrix import channel_plays, evidence, plays
from interop.matrix.call import Cannot, Cost, Failed, Stage
from interop.matrix.cell import Attempt, Cell, Result
from interop.matrix.plays import Outcome, Play
from interop.matrix.scenario import Scenario
from interop.matrix.scenarios import BY_NAME
from interop.peers import OURS
from interop.peers.peer import PeerAbsent, PeerError, PeerKind, RunningPeer, Wants

ATTEMPTS = 2
TRIES = 12
"""Starts whose round trips are compared: a busy machine can only add to them."""
SLACK_RTT = 0.3
_KEY_LOG = "SSLKEYLOGFILE"
_CLOSE_S = 20.0
_LONGEST_WHY = 600


def play_of(scenario: Scenario) -> Play:
    """Return the function that a scenario names."""
    found: Play = getattr(plays, scenario.play, None) or getattr(channel_plays, scenario.play)
    return found


class Pool:
    """One running process of each kind; another one when something else is wanted of it."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[object, RunningPeer, contextlib.AsyncExitStack]] = {}

    async def get(self, kind: PeerKind, wants: Wants) -> RunningPeer:
        """Return a process with this switched on; raises PeerError."""
        key = kind.key(wants)
        found = self._running.get(kind.name)
        if found is not None and found[0] == key:
            return found[1]
        await self.drop(kind)
        stack = contextlib.AsyncExitStack()
        running = await stack.enter_async_context(kind.run(wants))
        self._running[kind.name] = key, running, stack
        return running

    async def drop(self, kind: PeerKind) -> None:
        """End the process of a kind, if there is one."""
        found = self._running.pop(kind.name, None)
        if found is not None:
            async with asyncio.timeout(_CLOSE_S):
                await found[2].aclose()

    async def close(self, kinds: list[PeerKind]) -> None:
        """End all."""
        for kind in kinds:
            await self.drop(kind)


class Matrix:
    """Runs cells; `async with` ends every process that it has started."""

    def __init__(self, out: Path | None = None, *, keep: bool = False) -> None:
        """`keep`: what passed leaves its packets and keys in `out`, as what failed does."""
        self._out = out
        self._keep = keep
        self._pool = Pool()
        self._kinds: dict[str, PeerKind] = {}
        self._best: dict[tuple[str, str], Cost] = {}
        """The least that a scenario has cost, by kind and name."""

    async def __aenter__(self) -> Matrix:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close(list(self._kinds.values()))

    async def cell(self, kind: PeerKind, scenario: Scenario, run: int = 1) -> Cell:
        """Play one scenario with one peer; never raises for what a peer does."""
        self._kinds[kind.name] = kind
        version, attempts = "", []
        try:
            version = kind.version()
            await asyncio.to_thread(kind.prepare)
        except PeerAbsent as error:
            attempts.append(Attempt(result=Result.ABSENT, why=str(error)))
        lack = next((kind.lacks[need] for need in scenario.needs if need in kind.lacks), None)
        if not attempts and lack is not None:
            attempts.append(Attempt(result=Result.CANNOT, why=str(lack)))
        while not attempts or (attempts[-1].result is Result.FAIL and len(attempts) < ATTEMPTS):
            attempts.append(await self._attempt(kind, scenario, len(attempts) + 1))
        return Cell(
            peer=kind.name,
            version=version,
            scenario=scenario.name,
            group=scenario.group,
            run=run,
            attempts=tuple(attempts),
            rtt_ms=1000 * scenario.rtt_s,
        )

    async def _attempt(self, kind: PeerKind, scenario: Scenario, number: int) -> Attempt:
        with self._evidence(kind, scenario, number) as folder:
            stage: Stage | None = None
            try:
                running = await self._pool.get(kind, scenario.wants)
                stage = Stage(kind, running, scenario)
                os.environ[_KEY_LOG] = str(folder / "keys.log")
                async with asyncio.timeout(scenario.limit_s):
                    outcome = await self._play(stage)
                attempt = Attempt(result=Result.PASS, why=outcome.note, cost=outcome.cost)
            except PeerAbsent as error:
                return Attempt(result=Result.ABSENT, why=str(error))
            except Cannot as error:
                return Attempt(result=Result.CANNOT, why=str(error))
            # a cell fails for whatever goes wrong, in the peer or in us, and the run goes on
            except Exception as error:
                attempt = Attempt(
                    result=Result.FAIL, why=_reason(error, scenario), evidence=str(folder)
                )
            finally:
                os.environ.pop(_KEY_LOG, None)
            failed = attempt.result is Result.FAIL
            if stage is not None and (failed or self._keep):
                evidence.keep(stage, folder, attempt.why or "it passed")
            if failed:
                await self._discard(kind)
            return attempt

    async def _discard(self, kind: PeerKind) -> None:
        with contextlib.suppress(PeerError, TimeoutError, OSError):
            await self._pool.drop(kind)

    # -- round trips ----------------------------------------------------------------------------

    async def _play(self, stage: Stage) -> Outcome:
        """Play, and compare what the start has cost where that is demanded."""
        scenario, kind = stage.scenario, stage.kind
        play, key = play_of(scenario), (kind.name, scenario.name)
        self._best.pop(key, None)
        for _ in range(scenario.tries):
            outcome = await play(stage)
            self._note(kind, scenario, outcome)
        limit = await self._limit(kind, scenario)
        tries = scenario.tries
        while limit is not None and (best := self._best[key].works) > limit + SLACK_RTT:
            if tries == TRIES:
                raise Failed(f"{best:.2f} round trips at best, not {limit:.2f}")
            outcome = await play(stage)
            self._note(kind, scenario, outcome)
            tries += 1
        best_cost = self._best.get(key)
        note = outcome.note if limit is None else f"may cost {limit:.2f}"
        return replace(outcome, cost=best_cost or outcome.cost, note=note)

    def _note(self, kind: PeerKind, scenario: Scenario, outcome: Outcome) -> None:
        key, cost = (kind.name, scenario.name), outcome.cost
        if cost is not None and (key not in self._best or cost.works < self._best[key].works):
            self._best[key] = cost

    async def _limit(self, kind: PeerKind, scenario: Scenario) -> float | None:
        """Return the round trips that a start may cost."""
        if scenario.not_above is not None:
            return await self._baseline(kind, BY_NAME[scenario.not_above])
        if scenario.as_reference and kind.name != OURS.name:
            return await self._baseline(OURS, scenario)
        return None

    async def _baseline(self, kind: PeerKind, scenario: Scenario) -> float | None:
        """Return the least of some starts of another cell; None where the peer can't do it."""
        key = kind.name, scenario.name
        if any(need in kind.lacks for need in scenario.needs):
            return None
        self._kinds[kind.name] = kind
        if key not in self._best:
            for _ in range(2):
                running = await self._pool.get(kind, scenario.wants)
                stage = Stage(kind, running, scenario)
                self._note(kind, scenario, await play_of(scenario)(stage))
        return self._best[key].works

    @contextlib.contextmanager
    def _evidence(self, kind: PeerKind, scenario: Scenario, number: int) -> Iterator[Path]:
        """Lend a folder; it goes again unless something was written to it that says why."""
        if self._out is None:
            self._out = Path(tempfile.mkdtemp(prefix="warp-interop-"))
        slug = re.sub(r"\W+", "-", scenario.name).strip("-")
        folder = self._out / kind.name / f"{slug}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            if not (folder / "why.txt").exists():
                shutil.rmtree(folder)
                for parent in (folder.parent, self._out):
                    with contextlib.suppress(OSError):
                        parent.rmdir()


def _reason(error: Exception, scenario: Scenario) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"not done within {scenario.limit_s:g} s"
    text = str(error) if isinstance(error, (PeerError, Failed)) else repr(error)
    return text[:_LONGEST_WHY]
