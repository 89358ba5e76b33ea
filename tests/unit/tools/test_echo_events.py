from __future__ import annotations

import json

import pytest

from warp_tools.echo_events import complaint


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b'{"type": "session.update"}', "invalid_event"),
        ("x" * 300_000, "invalid_event"),
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("[" * 100_000, "invalid_json"),
        ("[]", "invalid_event"),
        ("{}", "invalid_event"),
        ('{"type": 1}', "invalid_event"),
        ('{"type": "session.update"}', "unknown_event"),
    ],
)
def test_every_message_is_answered(message: str | bytes, code: str) -> None:
    error = complaint(message)
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert error["event_id"] is None
    assert len(json.dumps(error)) < 500


def test_an_event_is_known_by_its_name() -> None:
    event = {"type": "response.create" + "x" * 1_000, "event_id": "mine"}
    error = complaint(json.dumps(event))
    assert error["event_id"] == "mine"
    assert "'response.create" in error["message"]
    assert complaint('{"type": "a", "event_id": 7}')["event_id"] is None
    # said back as it came, it would be too large to be sent, and nothing would be said any more
    for event_id, kept in (("€" * 512, True), ("€" * 513, False), ("€" * 100_000, False)):
        complained = complaint(json.dumps({"type": "a", "event_id": event_id}))
        assert (complained["event_id"] == event_id) is kept
        assert len(json.dumps(complained)) < 4_096
