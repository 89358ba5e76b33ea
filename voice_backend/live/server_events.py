"""What a session says to its clients (GPT-Live's server events, and two of our own).

`event_id` is given when an event is sent. Members that are None are left out.
"""

from __future__ import annotations

from typing import Literal

from voice_backend.live.shapes import JsonObject, SessionResource, Shape


class ServerEvent(Shape):
    """Any of them."""

    type: str
    event_id: str = ""
    client_event_id: str | None = None
    """The command that it answers."""


class SessionStarted(ServerEvent):
    """The voice listens."""

    type: Literal["session.started"] = "session.started"
    session: SessionResource


class SessionUpdated(ServerEvent):
    """A change was taken over."""

    type: Literal["session.updated"] = "session.updated"
    session: SessionResource


class Usage(Shape):
    """Seconds of the session so far."""

    seconds: float


class ContextWindow(Shape):
    """How full the voice's context is."""

    usage_ratio: float


class SessionUsageUpdated(ServerEvent):
    """How long it has been, and how full."""

    type: Literal["session.usage.updated"] = "session.usage.updated"
    usage: Usage
    context_window: ContextWindow | None = None


CloseReason = Literal["close_requested", "expired", "content", "remote_hangup", "connection_lost"]


class SessionClosed(ServerEvent):
    """It is over; nothing comes after."""

    type: Literal["session.closed"] = "session.closed"
    reason: CloseReason
    session: SessionResource
    usage: Usage


class InputAudioMuted(ServerEvent):
    """The voice hears silence from now on, or no longer does."""

    type: Literal["session.input_audio.muted", "session.input_audio.unmuted"]


class Appended(ServerEvent):
    """A text has been taken into the session."""

    type: Literal[
        "session.instructions.appended", "session.thinking.appended", "session.commentary.appended"
    ]
    start_ms: int
    end_ms: int


class TranscriptDelta(ServerEvent):
    """A fragment of what was heard or said; fragments are no turns."""

    type: Literal["session.input_transcript.delta", "session.output_transcript.delta"]
    delta: str
    start_ms: int
    end_ms: int


class OutputAudioDelta(ServerEvent):
    """Sound of the voice, base64; times only for those who look on."""

    type: Literal["session.output_audio.delta"] = "session.output_audio.delta"
    delta: str
    start_ms: int | None = None
    end_ms: int | None = None


class DelegationRef(Shape):
    """Which piece of work, and whose it is; not what it is about."""

    id: str
    type: Literal["delegation"] = "delegation"
    target: Literal["client", "responses", "decisions"]
    response_id: str | None = None


class DelegationCreated(ServerEvent):
    """The voice gives work away."""

    type: Literal["session.delegation.created"] = "session.delegation.created"
    delegation: DelegationRef
    offset_ms: int


class ResponseEvent(ServerEvent):
    """An event of the Responses service that works for us."""

    type: Literal["response.event"] = "response.event"
    event: JsonObject
    delegation_id: str | None = None


class Info(ServerEvent):
    """Something that is good to know."""

    type: Literal["info"] = "info"
    code: str
    message: str


class Error(Shape):
    """What was wrong."""

    type: str
    code: str
    message: str
    param: str | None = None
    client_event_id: str | None = None


class ErrorEvent(ServerEvent):
    """A command was refused, or the session has a problem."""

    type: Literal["error"] = "error"
    error: Error


class OverlapNote(Shape):
    """What the other side said meanwhile."""

    speaker: Literal["user", "assistant"]
    text: str
    start_ms: int
    end_ms: int
    item_id: str | None = None


class TranscriptItem(Shape):
    """A message of our two views."""

    id: str
    rev: int
    speaker: Literal["user", "assistant"]
    text: str
    ahead: str = ""
    start_ms: int
    end_ms: int
    played_ms: int = 0
    overlaps: tuple[OverlapNote, ...] = ()


class TranscriptDraft(ServerEvent):
    """Ours: an item may still change; without `item` it is gone."""

    type: Literal["transcript.draft"] = "transcript.draft"
    item: TranscriptItem | None = None
    removed: str | None = None


class TranscriptFinal(ServerEvent):
    """Ours: an item that does not change any more."""

    type: Literal["transcript.final"] = "transcript.final"
    item: TranscriptItem
