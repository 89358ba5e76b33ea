"""What the echo says on a call's events channel: that the session exists, and that it knows little.

channel opens ──▶ {"type": "session.created", "session": {...}}
any event ◀─────  {"type": ...}
          ──────▶ {"type": "error", "error": {"code", "message", "event_id"}}
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from instant_connect.io import CallInfo, events_channel
from warp.errors import UsageError

if TYPE_CHECKING:
    from warp.io import Session

MODEL = "echo"
_MAX_EVENT = 262_144
_MAX_SHOWN = 80
_MAX_ID = 512
"""Of an event's own id: what is said back must fit into a message of any client's."""


async def answer_events(session: Session, info: CallInfo) -> None:
    """Serve the events channel of one call until the call ends."""
    numbers = itertools.count(1)

    def event(kind: str, **fields: Any) -> str:
        return json.dumps({"type": kind, "event_id": f"event_{next(numbers)}", **fields})

    try:
        channel = await events_channel(session, info)
        await channel.opened()
        described = {"id": info.id, "object": "realtime.session", "model": MODEL}
        channel.send(event("session.created", session=described))
        async for message in channel:
            channel.send(event("error", error=complaint(message)))
            await channel.drain()
    except UsageError:
        # the call or its channel has ended, which is how this ends
        return


def complaint(message: str | bytes) -> dict[str, Any]:
    """Return what is wrong with an event: the echo understands none."""
    error: dict[str, Any] = {"type": "invalid_request_error", "event_id": None}
    if isinstance(message, bytes) or len(message) > _MAX_EVENT:
        return {**error, "code": "invalid_event", "message": "an event is a text of JSON"}
    try:
        event = json.loads(message)
    except (ValueError, RecursionError):
        return {**error, "code": "invalid_json", "message": "the event is not JSON"}
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return {
            **error,
            "code": "invalid_event",
            "message": "an event is a JSON object with a type",
            "param": "type",
        }
    named = event.get("event_id")
    return {
        **error,
        "code": "unknown_event",
        "message": f"the echo does not know events of type {event['type'][:_MAX_SHOWN]!r}",
        "param": "type",
        "event_id": named if isinstance(named, str) and len(named) <= _MAX_ID else None,
    }
