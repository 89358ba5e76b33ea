"""What clients of a live session send: an event or a fault by name, and the session goes on."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.voice_backend.live.client import Client
from voice_backend.io.responses import parse_event
from voice_backend.live import LiveFault, Phase, parse_client_event
from voice_backend.live.client_events import KINDS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
MEMBERS = st.sampled_from(["event_id", "session", "audio", "content", "delegation_id", "item"])
EVENTS = st.builds(
    lambda kind, members: {"type": kind, **members},
    st.sampled_from(sorted(KINDS)),
    st.dictionaries(MEMBERS, JSON, max_size=4),
)


def fuzz_client_event(data: bytes) -> None:
    try:
        event = parse_client_event(data, 1 << 20)
    except LiveFault as fault:
        assert fault.code and len(fault.message) < 1000
        return
    event.model_dump_json()


def fuzz_session(data: bytes) -> None:
    client = Client().started()
    client.session.receive_text(client.door, data, client.now)
    for outgoing in client.session.outgoing():
        json.loads(outgoing.json())


def fuzz_response_event(data: bytes) -> None:
    event = parse_event(data)
    assert event is None or isinstance(event, dict)
    json.loads(json.dumps(event, ensure_ascii=False, allow_nan=False).encode())


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
@example(b'{"type": "session.close", "event_id": "\\ud800"}')
@example(b'data: {"\\ud800": "\\ude00"}')
def test_octets(data: bytes) -> None:
    fuzz_client_event(data)
    fuzz_session(data)
    fuzz_response_event(data)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(EVENTS)
def test_events_of_every_shape(event: dict[str, object]) -> None:
    data = json.dumps(event).encode()
    fuzz_client_event(data)
    fuzz_session(data)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(EVENTS, max_size=20))
def test_a_session_survives_any_run_of_events(events: list[dict[str, object]]) -> None:
    client = Client().over_socket()
    for event in events:
        client.send(**event)
        client.session.receive_opened(client.now)
        client.session.handle_timer(client.now)
        for outgoing in client.session.outgoing():
            json.loads(outgoing.json())
    client.session.close("expired")
    assert client.session.phase is Phase.CLOSED
