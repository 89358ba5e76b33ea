"""One session's voice, as an asyncio object: what it says of itself, and what it may be told.

Made by `Voices.attend` and `Voices.join`; ends with its session, by `close`, or by a fault of its
own, which it tells before (`Failed`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from voice_backend.model import Inject, SessionConfig, Slot
from voice_backend.seat import Failed, Seat, VoiceEvent
from warp.errors import InvalidState
from warp.io.inbox import Inbox

if TYPE_CHECKING:
    from voice_backend.desk import Line
    from voice_backend.io.voices import Voices
    from warp.io import Session

MAX_UNREAD: Final = 1_000
"""Events that wait for a reader; beyond, they are dropped and counted."""
MAX_TEXT: Final = 20_000
Receive = Callable[[VoiceEvent], object]


class Voice:
    """`async for event in voice`, unless the session gave a function that receives events."""

    __slots__ = (
        "_events",
        "_receive",
        "_seat",
        "_slot",
        "_voices",
        "call",
        "closed",
        "config",
        "dropped",
        "failure",
        "line",
        "number",
        "released",
    )

    def __init__(
        self, voices: Voices, number: int, config: SessionConfig, receive: Receive | None
    ) -> None:
        self._voices = voices
        self._receive = receive
        self._events: Inbox[VoiceEvent] = Inbox()
        self._seat: Seat | None = None
        self._slot: Slot | None = None
        self.number = number
        """Counts the voices of this process: a name for logs and metrics."""
        self.config = config
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the slot is free again."""
        self.failure: str | None = None
        """What it failed of; None while it has not."""
        self.dropped = 0
        """Events that nobody read in time."""
        self.line: Line | None = None
        self.call: Session | None = None
        """The call that ends when the voice fails; None: there is none, or it goes on."""
        self.released = False
        """Whether it is to end: a slot that comes later is given back at once."""

    def __aiter__(self) -> Voice:
        return self

    async def __anext__(self) -> VoiceEvent:
        return await self._events.__anext__()

    @property
    def position_ms(self) -> int:
        """Media time of the voice up to which its output has been played."""
        return 0 if self._seat is None else self._seat.playout.position_ms

    @property
    def heard_ms(self) -> int:
        """Media time of what the voice was handed."""
        return 0 if self._seat is None else self._seat.heard_ms

    @property
    def usage_ratio(self) -> float | None:
        """How full its context is, 0 to 1; None where it does not say."""
        return None if self._seat is None else self._seat.usage_ratio

    def inject(self, kind: Inject, text: str, delegation_id: str | None = None) -> None:
        """Tell the voice something, from its next frame on.

        Raises InvalidState when it has ended or the text is longer than 20,000 characters.
        """
        if len(text) > MAX_TEXT:
            raise InvalidState(f"{len(text)} characters at once; a voice takes {MAX_TEXT}")
        slot = self._require()
        self._voices.post(lambda desk: desk.inject(slot, kind, text, delegation_id))

    def cancel(self) -> None:
        """Stop what the voice is saying: at most what has left is still heard."""
        slot = self._require()
        self._voices.post(lambda desk: desk.cancel(slot))

    def _require(self) -> Slot:
        if self._slot is None or self.closed.done():
            raise InvalidState("the voice has ended" if self._slot else "the voice is not open yet")
        return self._slot

    def stats(self) -> dict[str, Any]:
        """Return counts of frames, and of late ones by cause."""
        if self._seat is None:
            return {}
        seat = self._seat
        return {
            **seat.counts.to_json(),
            "played_ms": seat.playout.played * 20,
            "dropped_events": seat.dropped_events + self.dropped,
        }

    async def close(self) -> None:
        """End the voice; its slot is free when this returns. Harmless when repeated."""
        self._voices.release(self)
        await asyncio.shield(self.closed)

    # -- the house's side ----------------------------------------------------------------------

    def seated(self, slot: Slot, seat: Seat) -> None:
        """Have a place in the loop (the media thread's)."""
        self._slot, self._seat = slot, seat

    @property
    def slot(self) -> Slot | None:
        """The slot, once there is one."""
        return self._slot

    @property
    def seat(self) -> Seat | None:
        """The place in the loop, once there is one."""
        return self._seat

    def receive(self, events: list[VoiceEvent]) -> None:
        """Hand on what the voice says of itself."""
        try:
            for event in events:
                if isinstance(event, Failed):
                    self.failure = event.reason
                self._hand_on(event)
        finally:
            if self.failure is not None:
                self._voices.release(self)

    def _hand_on(self, event: VoiceEvent) -> None:
        if self._receive is not None:
            self._receive(event)
        elif self._events.unread < MAX_UNREAD:
            self._events.put(event)
        else:
            self.dropped += 1

    def end(self) -> None:
        """Be over: the slot is free."""
        self._events.close()
        if not self.closed.done():
            self.closed.set_result(None)
