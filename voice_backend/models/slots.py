"""Slots of a model: places by index, and serial numbers that never come back. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

from voice_backend.model import NoCapacity, Slot

State = TypeVar("State")


class Slots(Generic[State]):
    """The states of the slots that are taken."""

    __slots__ = ("_free", "_serial", "_states")

    def __init__(self, count: int) -> None:
        self._free = list(range(count - 1, -1, -1))
        self._serial = 0
        self._states: dict[Slot, State] = {}

    @property
    def free(self) -> int:
        """How many are free."""
        return len(self._free)

    @property
    def taken(self) -> int:
        """How many are taken."""
        return len(self._states)

    def take(self, state: State) -> Slot:
        """Take a place for a state. Raises NoCapacity when there is none."""
        if not self._free:
            raise NoCapacity(f"all {len(self._states)} places are taken")
        self._serial += 1
        slot = Slot(self._free.pop(), self._serial)
        self._states[slot] = state
        return slot

    def find(self, slot: Slot) -> State | None:
        """Return the state of a slot, None if it is free or somebody else's by now."""
        return self._states.get(slot)

    def replace(self, slot: Slot, state: State) -> None:
        """Put another state in place of a slot's. Raises KeyError for one that is free."""
        if slot not in self._states:
            raise KeyError(slot)
        self._states[slot] = state

    def give_back(self, slot: Slot) -> None:
        """Free a place. Harmless when it is free."""
        if self._states.pop(slot, None) is not None:
            self._free.append(slot.index)
