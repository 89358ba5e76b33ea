"""Who is told what: the doors of a session, and the events that wait for them.

A door is a connection of a client's: the one that the session lives by (a WebSocket, or a data
channel beside its media), or a trusted sideband that looks on. Bounded: the oldest event goes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from voice_backend.live.permissions import Permissions
from voice_backend.live.server_events import ResponseEvent, ServerEvent


class DoorKind(Enum):
    """What a client holds on to."""

    SOCKET = "socket"
    CHANNEL = "channel"
    SIDEBAND = "sideband"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event on its way to one door."""

    door: int
    event: ServerEvent

    def json(self) -> str:
        """Return the event as it is sent."""
        return self.event.model_dump_json(exclude_none=True)


class _Door:
    __slots__ = ("kind", "permissions")

    def __init__(self, kind: DoorKind, permissions: Permissions) -> None:
        self.kind = kind
        self.permissions = permissions


class Outbox:
    """The doors of one session and what waits for them."""

    __slots__ = ("_doors", "_events", "_ids", "_last_door", "dropped")

    def __init__(self, room: int) -> None:
        self._doors: dict[int, _Door] = {}
        self._events: deque[Outgoing] = deque(maxlen=room)
        self._ids = 0
        self._last_door = 0
        self.dropped = 0

    def attach(self, kind: DoorKind, permissions: Permissions | None = None) -> int:
        """Add a door; returns its number."""
        self._last_door += 1
        self._doors[self._last_door] = _Door(kind, permissions or Permissions())
        return self._last_door

    def detach(self, door: int) -> None:
        """Take a door away, with what waits for it."""
        if self._doors.pop(door, None) is not None:
            kept = [outgoing for outgoing in self._events if outgoing.door != door]
            self._events = deque(kept, maxlen=self._events.maxlen)

    def kind_of(self, door: int) -> DoorKind | None:
        """Return what a door is, None when it is gone."""
        found = self._doors.get(door)
        return None if found is None else found.kind

    def may_send(self, door: int, kind: str) -> bool:
        """Whether a client event of this type is taken at a door."""
        found = self._doors.get(door)
        return found is not None and found.permissions.may_send(kind)

    def tell(self, event: ServerEvent, door: int | None = None) -> None:
        """Have an event sent to a door, or to all that may see it."""
        self._ids += 1
        event = event.model_copy(update={"event_id": f"event_{self._ids}"})
        nested = event.event.get("type") if isinstance(event, ResponseEvent) else None
        for number, found in self._doors.items():
            if door is not None and number != door:
                continue
            if found.permissions.may_see(event.type, nested if isinstance(nested, str) else None):
                self.dropped += len(self._events) == self._events.maxlen
                self._events.append(Outgoing(number, event))

    def drain(self) -> list[Outgoing]:
        """Return what is to be sent, oldest first."""
        events = list(self._events)
        self._events.clear()
        return events
