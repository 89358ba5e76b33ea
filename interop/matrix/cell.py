"""One cell of the matrix: what a peer made of a scenario."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

from interop.matrix.call import Cost


class Result(enum.StrEnum):
    """How it went."""

    PASS = "pass"
    FAIL = "fail"
    CANNOT = "peer can't"
    ABSENT = "peer absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a cell."""

    result: Result
    why: str = ""
    cost: Cost | None = None
    evidence: str = ""
    """The folder that holds its packets and keys, when it failed."""

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Attempt:
        """Return an attempt of a file."""
        cost = None if found["cost"] is None else Cost(**found["cost"])
        return cls(result=Result(found["result"]), why=found["why"], cost=cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell; `attempts` holds both outcomes of one that failed and was repeated alone."""

    peer: str
    version: str
    scenario: str
    group: str
    run: int
    attempts: tuple[Attempt, ...]
    rtt_ms: float

    @property
    def result(self) -> Result:
        """The last attempt's."""
        return self.attempts[-1].result

    @property
    def why(self) -> str:
        """Reasons and remarks; those of an attempt before the last one say so."""
        *before, last = self.attempts
        told = [last.why] if last.why else []
        return "; ".join([*told, *(f"the first try failed: {one.why}" for one in before)])

    @property
    def rtt(self) -> float | None:
        """Round trips from the first check until the channel is open at both ends."""
        cost = self.attempts[-1].cost
        return cost.works if cost is not None else None

    @property
    def ms(self) -> float | None:
        """The same in milliseconds."""
        return None if self.rtt is None else round(self.rtt * self.rtt_ms, 1)

    def as_json(self) -> dict[str, Any]:
        """Return the cell for machines."""
        return {
            "peer": self.peer,
            "version": self.version,
            "scenario": self.scenario,
            "group": self.group,
            "run": self.run,
            "result": self.result.value,
            "rtt": self.rtt,
            "ms": self.ms,
            "why": self.why,
            "attempts": [
                {**asdict(one), "result": one.result.value} for one in self.attempts
            ],
        }  # fmt: skip
