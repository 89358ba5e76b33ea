"""The processes of one port, as their parent sees them: who serves, who may start again, and when.

    STARTING ─ ready ─▶ JOINING ─ all others have noted it ─▶ SERVING ─ drain ─▶ DRAINING
        ▲                                                        │                  │ empty
        └──────────── within the budget ──── GONE ◀──── ends ────┴──────────────────┘
                                              └ too often ─▶ the parent gives up

A process that joins is told of the sessions that it will be asked about before it is asked. One
that has drained to the last session is replaced by a fresh one. Called by `io.supervisor`; pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from instant_connect.router import Roster
from warp.errors import InvalidConfig
from warp.names import Name

MAX_WORKERS: Final = 64


class WorkerState(Name):
    """Where a process is in its life."""

    STARTING = "not ready yet"
    JOINING = "ready, and not yet known to all others"
    SERVING = "takes new sessions"
    DRAINING = "goes on with those it has"
    GONE = "has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewConfig:
    """How many processes, and how often one of them may die."""

    workers: int = 2
    first: int = 0  # number of the first one within its cell
    max_restarts: int = 5  # of all together
    within_s: float = 60.0
    backoff_s: float = 0.2  # before the second restart within that time; then twice as long
    max_backoff_s: float = 5.0
    start_timeout_s: float = 30.0
    note_timeout_s: float = 0.5  # for the others to note who joins
    stop_timeout_s: float = 0.7  # to end by itself

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InvalidConfig(f"workers are 1 to {MAX_WORKERS}, not {self.workers}")
        if not 0 <= self.first <= 0xFFFF - self.workers:
            raise InvalidConfig("server numbers are 0 to 65534: choose a smaller first one")
        if self.max_restarts < 0:
            raise InvalidConfig(f"max_restarts is 0 or more, not {self.max_restarts}")

    @property
    def numbers(self) -> range:
        """The numbers of the processes: tickets name them."""
        return range(self.first, self.first + self.workers)


class Crew:
    """The state of every process, and what follows from each change."""

    __slots__ = ("_config", "_ends", "_noted", "_states", "serial")

    def __init__(self, config: CrewConfig) -> None:
        self._config = config
        self._states = dict.fromkeys(config.numbers, WorkerState.STARTING)
        self._noted: dict[int, int] = {}
        self._ends: deque[float] = deque()
        self.serial = 0
        """Number of the present roster; it grows with every change."""

    def state(self, number: int) -> WorkerState:
        """Return where a process is."""
        return self._states[number]

    def numbers(self, *states: WorkerState) -> list[int]:
        """Return who is in one of these states."""
        return [number for number, state in self._states.items() if state in states]

    @property
    def roster(self) -> Roster:
        """Who can be asked, and who of them takes nothing new."""
        draining = self.numbers(WorkerState.DRAINING)
        return Roster.of(*self.numbers(WorkerState.SERVING), *draining, draining=draining)

    @property
    def joining(self) -> list[int]:
        """Who will be part of the roster as soon as all who are have noted it."""
        return self.numbers(WorkerState.JOINING)

    # -- what happens -------------------------------------------------------------------------

    def start(self, number: int) -> None:
        """A process is begun, or begun again."""
        self._become(number, WorkerState.STARTING)

    def ready(self, number: int) -> None:
        """It has its port."""
        if self._states[number] is WorkerState.STARTING:
            self._become(number, WorkerState.JOINING)

    def note(self, number: int, serial: int) -> None:
        """A process has told those who join what they have to know of."""
        self._noted[number] = serial

    @property
    def all_have_noted(self) -> bool:
        """Whether those who join may be asked from now on."""
        members = self.numbers(WorkerState.SERVING, WorkerState.DRAINING)
        return all(self._noted.get(number, 0) >= self.serial for number in members)

    def admit(self) -> bool:
        """Let those who join be asked; False when there are none."""
        joining = self.joining
        for number in joining:
            self._become(number, WorkerState.SERVING)
        return bool(joining)

    def drain(self, numbers: Iterable[int] | None = None) -> list[int]:
        """Let processes (None: all) take nothing new; return those that this changes."""
        chosen = list(self._states) if numbers is None else list(numbers)
        changed = [
            number
            for number in chosen
            if self._states.get(number) in (WorkerState.SERVING, WorkerState.JOINING)
        ]
        for number in changed:
            self._become(number, WorkerState.DRAINING)
        return changed

    def end(self, number: int, now: float, *, in_order: bool = False) -> float | None:
        """A process has ended; return after how many seconds it is to start again.

        None when too many have died: there is a fault that another start does not mend. What ends
        `in_order`, because it was told to, does not count.
        """
        self._become(number, WorkerState.GONE)
        self._noted.pop(number, None)
        if in_order:
            return 0.0
        config = self._config
        while self._ends and self._ends[0] <= now - config.within_s:
            self._ends.popleft()
        self._ends.append(now)
        if len(self._ends) > config.max_restarts:
            return None
        again = len(self._ends) - 2
        return 0.0 if again < 0 else min(config.max_backoff_s, config.backoff_s * 2.0**again)

    @property
    def deaths(self) -> int:
        """How many have died lately."""
        return len(self._ends)

    def _become(self, number: int, state: WorkerState) -> None:
        self._states[number] = state
        self.serial += 1

    def to_json(self) -> dict[str, Any]:
        """Return what every process is told."""
        roster = self.roster
        return {
            "serial": self.serial,
            "alive": sorted(roster.alive),
            "draining": sorted(roster.draining),
            "joining": self.joining,
        }
