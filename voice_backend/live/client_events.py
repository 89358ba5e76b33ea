"""What clients say to a session, and how it is read: bounded, and refused by name.

text ─▶ size ─▶ JSON ─▶ type ─▶ shape ─▶ event
                                  └────▶ LiveFault with code, param and client_event_id
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from voice_backend.live.faults import LiveFault
from voice_backend.live.shapes import (
    NAME_CHARS,
    JsonObject,
    Long,
    Name,
    SessionConfig,
    SessionUpdateConfig,
    Shape,
    ValidationError,
)


class ClientEvent(Shape):
    """Any of them."""

    type: str
    event_id: Name | None = None


class SessionStart(ClientEvent):
    """Begin, over a WebSocket."""

    type: Literal["session.start"]
    session: SessionConfig


class SessionUpdate(ClientEvent):
    """Change what may change."""

    type: Literal["session.update"]
    session: SessionUpdateConfig


class SessionClose(ClientEvent):
    """End."""

    type: Literal["session.close"]


class InputAudioAppend(ClientEvent):
    """Sound for the voice, base64, in the format that was agreed."""

    type: Literal["session.input_audio.append"]
    audio: str


class InputAudioMute(ClientEvent):
    """Let the voice hear silence."""

    type: Literal["session.input_audio.mute"]


class InputAudioUnmute(ClientEvent):
    """Let it hear again."""

    type: Literal["session.input_audio.unmute"]


class Append(ClientEvent):
    """Tell the voice something: how to behave, what to know, what to say."""

    type: Literal[
        "session.instructions.append", "session.thinking.append", "session.commentary.append"
    ]
    content: Long
    delegation_id: Name | None = None


class ResponseItemCreate(ClientEvent):
    """Add an item to what the Responses service is asked with: a tool's result, say."""

    type: Literal["response.item.create"]
    item: JsonObject


class ResponseCreate(ClientEvent):
    """Let the Responses service go on."""

    type: Literal["response.create"]


KINDS: Final[dict[str, type[ClientEvent]]] = {
    "session.start": SessionStart,
    "session.update": SessionUpdate,
    "session.close": SessionClose,
    "session.input_audio.append": InputAudioAppend,
    "session.input_audio.mute": InputAudioMute,
    "session.input_audio.unmute": InputAudioUnmute,
    "session.instructions.append": Append,
    "session.thinking.append": Append,
    "session.commentary.append": Append,
    "response.item.create": ResponseItemCreate,
    "response.create": ResponseCreate,
}
KNOWN_UNSUPPORTED: Final = frozenset(
    {
        "decision.create",
        "decision.item.create",
        "decision.item.delete",
        "session.output_audio.fixture.play",
        "transport.dtmf.send",
    }
)
"""Events of the contract that this server does not serve."""
_SHOWN: Final = 100
_DEPTH: Final = 32


def parse_client_event(text: str | bytes, limit: int) -> ClientEvent:
    """Return the event that a client sent; raises LiveFault saying what is wrong with it."""
    if len(text) > limit:
        raise LiveFault("event_too_large", f"an event has at most {limit} bytes: send smaller ones")
    try:
        data = json.loads(text, parse_constant=no_constant)
        if not isinstance(data, dict):
            raise ValueError("no object")
        # not the sound: base64 is checked where it is decoded, and is long
        audible = data.get("type") == "session.input_audio.append"
        check_sane({**data, "audio": None} if audible else data)
    except (ValueError, RecursionError):
        raise LiveFault(
            "invalid_json", f"an event is one JSON object, at most {_DEPTH} levels deep"
        ) from None
    return event_of(data)


def no_constant(name: str) -> None:
    """Refuse what JSON does not know: NaN and Infinity (RFC 8259 section 6)."""
    raise ValueError(f"{name} is no JSON")


def check_sane(data: Any) -> None:
    """Raise ValueError for JSON that could not be sent back: too deep, or half a surrogate pair."""
    json.dumps(data, ensure_ascii=False).encode()
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError("nested too deep")


def event_of(data: dict[str, Any]) -> ClientEvent:
    """Return a JSON object as an event; raises LiveFault."""
    given = data.get("event_id")
    ident = given if isinstance(given, str) and len(given) <= NAME_CHARS else None
    kind = data.get("type")
    if not isinstance(kind, str):
        raise LiveFault("missing_type", "an event has a type", param="type", client_event_id=ident)
    shape = KINDS.get(kind)
    if shape is None:
        known = kind in KNOWN_UNSUPPORTED
        raise LiveFault(
            "unsupported_event" if known else "unknown_event",
            f"{kind[:_SHOWN]!r} is {'not served here' if known else 'no event of a client'}",
            param="type",
            client_event_id=ident,
        )
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        raise fault_of(error, ident) from None
    except RecursionError:
        raise LiveFault("invalid_value", "it is nested too deep", client_event_id=ident) from None


def fault_of(error: ValidationError, client_event_id: str | None, root: str = "") -> LiveFault:
    """Return the first thing that is wrong with an event, without repeating its values."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part)[:_SHOWN] for part in (*([root] if root else []), *first["loc"]))
    codes = {"missing": "missing_parameter", "extra_forbidden": "unknown_parameter"}
    code = codes.get(first["type"], "invalid_value")
    return LiveFault(
        code,
        f"{path[:400]}: {first['msg'][:400]}",
        param=path[:400],
        client_event_id=client_event_id,
    )
