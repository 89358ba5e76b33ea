"""A client of a live session: what it sends, what it is told, what is to be done for it."""

from __future__ import annotations

import json
from typing import Any

from voice_backend.live import DoorKind, LiveConfig, LiveSession
from voice_backend.live.commands import Command
from voice_backend.live.shapes import SessionConfig
from voice_backend.model import ModelEvent


class Client:
    """At one door of a session, with time in its hands."""

    def __init__(self, **config: object) -> None:
        self.now = 100.0
        self.session = LiveSession(
            "live_1",
            LiveConfig(**{"responses": True, **config}),
            wall_s=1_700_000_000.0,
            now=self.now,
        )
        self.door = 0
        self.done: list[Command] = []

    def over_socket(self) -> Client:
        self.door = self.session.attach(DoorKind.SOCKET)
        return self

    def over_media(self, **members: object) -> Client:
        asked = SessionConfig.model_validate({"model": "m", **members})
        self.session.receive_offer(asked)
        self.door = self.session.attach(DoorKind.CHANNEL)
        self.session.receive_opened(self.now)
        return self

    def started(self, **members: object) -> Client:
        """Have a session over a WebSocket that is active."""
        self.over_socket()
        self.send(type="session.start", session={"model": "m", **members})
        self.session.receive_opened(self.now)
        self.seen()
        self.commands()
        return self

    def send(self, **members: object) -> None:
        self.session.receive_text(self.door, json.dumps(members), self.now)

    def voice(self, *events: ModelEvent) -> None:
        for event in events:
            self.session.receive_voice(event, self.now)

    def play(self, until_ms: int) -> None:
        for at in range(self.session.talk.played_ms + 20, until_ms + 20, 20):
            self.session.receive_played(at)

    def seen(self, door: int | None = None) -> list[dict[str, Any]]:
        wanted = self.door if door is None else door
        return [json.loads(o.json()) for o in self.session.outgoing() if o.door == wanted]

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.seen()]

    def errors(self) -> list[tuple[str, str | None, str | None]]:
        return [
            (e["error"]["code"], e["error"].get("param"), e["error"].get("client_event_id"))
            for e in self.seen()
            if e["type"] == "error"
        ]

    def commands(self) -> list[Command]:
        return self.session.commands()
