"""What a session wants done by whoever runs it: the voice, the line, the helper."""

from __future__ import annotations

from dataclasses import dataclass, field

from voice_backend.delegation import Request, Tell
from voice_backend.live.shapes import AudioFormat, JsonObject, ResponsesBackend
from voice_backend.model import SessionConfig


@dataclass(frozen=True, slots=True)
class OpenVoice:
    """Open a voice; answer with `receive_opened` or `receive_refused`."""

    model: str
    config: SessionConfig
    format: AudioFormat | None
    """Of a WebSocket's sound; None: media has its own."""
    backend: ResponsesBackend | None
    """Of the Responses service that works for it; None: the client does."""
    acknowledge_after_s: float = 0.0
    """After how long of silence work that is given away is acknowledged aloud."""


@dataclass(frozen=True, slots=True)
class Hear:
    """Sound for the voice, in the session's format."""

    sound: bytes = field(repr=False)
    early: bool = False
    """It came before the voice was open, and has waited."""


@dataclass(frozen=True, slots=True)
class Mute:
    """Let the voice hear silence, or no longer."""

    muted: bool


@dataclass(frozen=True, slots=True)
class Work:
    """Give work to the Responses service."""

    request: Request


@dataclass(frozen=True, slots=True)
class AddItem:
    """Add an item to what the Responses service is asked with."""

    item: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class GoOn:
    """Let the Responses service go on with its items."""


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """The Responses service is asked otherwise from now on."""

    backend: ResponsesBackend


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The user has finished a turn: what is worked on may be stale."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The session is over: close the voice, the helper and every door, when all is sent."""


Command = (
    OpenVoice | Hear | Mute | Tell | Work | AddItem | GoOn | Reconfigure | TurnEnded | Leave
)  # fmt: skip
