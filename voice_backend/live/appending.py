"""What clients tell the voice, and the work that it gave them: ids, acknowledgements, limits."""

from __future__ import annotations

from collections import deque
from typing import Final

from voice_backend.delegation import Request, Tell, ask_of
from voice_backend.live.client_events import Append
from voice_backend.live.config import LiveConfig, tokens_of
from voice_backend.live.faults import LiveFault
from voice_backend.live.server_events import Appended
from voice_backend.live.shapes import ClientDelegation, Delegation
from voice_backend.model import Delegate, Inject
from voice_backend.transcript import Item

ACKNOWLEDGEMENT: Final = "One moment."
_KINDS: Final = {
    "session.instructions.append": (Inject.INSTRUCTIONS, "session.instructions.appended"),
    "session.thinking.append": (Inject.THINKING, "session.thinking.appended"),
    "session.commentary.append": (Inject.COMMENTARY, "session.commentary.appended"),
}


class Appending:
    """The delegations of one session as its clients see them."""

    __slots__ = ("_acknowledge_at", "_config", "_ids", "_is_clients", "_since_ms", "delay_s")

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._ids: deque[str] = deque(maxlen=config.delegations)
        self._since_ms = 0
        self._is_clients = True
        self.delay_s = 0.0
        """After how long of silence work is acknowledged."""
        self._acknowledge_at: tuple[float, str] | None = None

    def begin(self, delegation: Delegation | None) -> None:
        """Take over how delegated work is acknowledged, from the next on."""
        delay_ms = delegation.acknowledgement_delay_ms if delegation is not None else None
        self.delay_s = (delay_ms or 0) / 1000
        # of work of the server's own its helper's desk sees to it
        self._is_clients = delegation is None or isinstance(delegation, ClientDelegation)

    def receive(self, event: Append, at_ms: int, works_itself: bool) -> tuple[Appended, Tell]:
        """Return the acceptance of a text, and what the voice is told; raises LiveFault."""
        if not event.content.strip():
            raise LiveFault("invalid_value", "there is no text in it", param="content")
        limit = self._config.append_tokens
        if tokens_of(event.content) > limit:
            raise LiveFault("too_long", f"a text has at most {limit} tokens", param="content")
        ident = event.delegation_id
        if ident is not None:
            if works_itself:
                message = "this session's work is not its client's: give no id"
                raise LiveFault("invalid_value", message, param="delegation_id")
            if ident not in self._ids:
                raise LiveFault("not_found", "there is no such delegation", param="delegation_id")
        kind, answer = _KINDS[event.type]
        if kind is not Inject.INSTRUCTIONS:
            self.told()
        appended = Appended.model_validate(
            {
                "type": answer,
                "start_ms": at_ms,
                "end_ms": at_ms,
                "client_event_id": event.event_id,
            }
        )
        return appended, Tell(kind, event.content, ident)

    def delegate(self, event: Delegate, draft: list[Item], now: float) -> Request | None:
        """Return what is asked, None when it has been asked before."""
        if event.delegation_id in self._ids:
            return None
        self._ids.append(event.delegation_id)
        ask = ask_of(draft, self._since_ms)
        self._since_ms = event.offset_ms
        if self._is_clients and not event.acknowledged:
            self._acknowledge_at = (now + self.delay_s, event.delegation_id)
        return Request(
            delegation_id=event.delegation_id,
            ask=ask,
            target=event.target,
            acknowledged=event.acknowledged,
        )

    def told(self) -> None:
        """The voice was told something: nothing is to be acknowledged any more."""
        self._acknowledge_at = None

    def get_timer(self) -> float | None:
        """When an acknowledgement is due."""
        return None if self._acknowledge_at is None else self._acknowledge_at[0]

    def handle_timer(self, now: float) -> Tell | None:
        """Return the acknowledgement that is due."""
        if self._acknowledge_at is None or now < self._acknowledge_at[0]:
            return None
        (_, ident), self._acknowledge_at = self._acknowledge_at, None
        return Tell(Inject.COMMENTARY, ACKNOWLEDGEMENT, ident)
