"""Our events by the shapes of the contract's public client (the `openai` package, here only)."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from openai.types.live import client_event, server_event
from pydantic import TypeAdapter

from tests.unit.voice_backend.live.client import Client
from voice_backend.live import DoorKind
from voice_backend.live.client_events import KINDS, KNOWN_UNSUPPORTED
from voice_backend.model import Cancelled, Delegate, InText, OutText

SERVER: TypeAdapter[Any] = TypeAdapter(server_event.ServerEvent)


def types_of(union: Any) -> set[str]:
    (members, *_) = typing.get_args(union)
    return {
        literal
        for member in typing.get_args(members)
        for literal in typing.get_args(member.model_fields["type"].annotation)
    }


def test_every_client_event_is_known() -> None:
    assert types_of(client_event.ClientEvent) == set(KINDS) | (
        KNOWN_UNSUPPORTED - {"transport.dtmf.send"}
    )


@pytest.mark.parametrize("media", [False, True])
def test_every_event_of_a_session_has_the_clients_shape(media: bool) -> None:
    delegation = {"type": "responses", "responses": {"model": "gpt-5"}} if media else None
    client = Client(usage_interval_s=1.0)
    if media:
        client.over_media(
            delegation=delegation, client={"data_channel": {"allowed_client_events": []}}
        )
        client.door = client.session.attach(DoorKind.SIDEBAND)
    else:
        client.over_socket()
        output = {"format": {"type": "audio/pcmu"}, "output": {"voice": {"id": "v"}}}
        client.send(type="session.start", session={"model": "m", "audio": output})
        client.session.receive_opened(client.now)
    client.voice(
        InText(delta="hello", start_ms=0, end_ms=200),
        OutText(delta="It is noon", start_ms=200, end_ms=900),
        Delegate(delegation_id="d1", offset_ms=300),
    )
    client.session.receive_response("d1", {"type": "response.created"})
    client.session.receive_played(1000, 0.5)
    client.voice(Cancelled(at_ms=1000, played_ms=800))
    for kind in ("instructions", "thinking", "commentary"):
        client.send(type=f"session.{kind}.append", content="x", delegation_id=None, event_id="e")
    client.send(type="session.input_audio.mute", event_id="e")
    client.send(type="session.input_audio.unmute", event_id="e")
    client.send(type="session.update", session={}, event_id="e")
    client.send(type="session.dance", event_id="e")
    client.send(type="session.close", event_id="e")
    seen = client.seen()
    for event in seen:
        parsed = SERVER.validate_python(event, strict=True)
        assert parsed.type == event["type"]
        assert parsed.model_extra in (None, {}), event
    kinds = {event["type"] for event in seen}
    missing = types_of(server_event.ServerEvent) - kinds
    ours = {kind for kind in missing if not kind.startswith(("transport.", "decision"))}
    assert ours == {
        "session.input_audio.append",
        "session.output_audio.delta",
        "session.output_audio.fixture.played",
        "session.output_audio.fixture.playing",
    }
