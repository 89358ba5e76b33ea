"""A server without a network: it answers offers by the rules of SDP and keeps what it is told."""

from __future__ import annotations

import itertools
from typing import Any

from tests.unit.sdp.build import OWN_INIT, local, transport
from warp.errors import InvalidState
from warp.ice import parse_candidate
from warp.sdp import LocalDescriptionState, create_answer, parse_description

ADDRESS = ("198.51.100.4", 3478)


class DoubleSession:
    """One session: its answers are real ones, each ICE session has credentials of its own."""

    def __init__(self, number: int, offer: str) -> None:
        self._number = number
        self._generation = itertools.count(1)
        self._peer = ""
        self.candidates: list[str | None] = []
        self.has_ended = False
        self.told: dict[str, Any] = {}
        self.remote_description = ""
        self.answer = ""
        self.accept_offer(offer)

    def accept_offer(self, sdp: str) -> str:
        if self.has_ended:
            raise InvalidState("the connection has ended: make a new one")
        description = parse_description(sdp)
        ufrags = {m.transport.ufrag for m in description.media if not m.rejected}
        if self._peer not in ufrags:
            self._state = self._describe(next(self._generation))
            [self._peer] = ufrags - {""} or {""}
        self.answer = str(create_answer(description, self._state, sctp_init=OWN_INIT))
        self.remote_description = str(description)
        return self.answer

    def _describe(self, generation: int) -> LocalDescriptionState:
        ufrag = f"u{self._number}x{generation}"
        lines = transport(ufrag=ufrag, pwd=f"password-of-{ufrag}-and-more", ice_lite=True)
        return local(transport=lines)

    def add_remote_candidate(self, line: str | None) -> None:
        if self.has_ended:
            raise InvalidState("the connection has ended")
        if line is not None:
            parse_candidate(line)
        self.candidates.append(line)

    def stats(self) -> dict[str, Any]:
        return self.told

    async def close(self) -> None:
        self.has_ended = True


class DoubleServer:
    """Answers offers; `fault` is raised in place of the next answer."""

    def __init__(self) -> None:
        self.sessions: list[DoubleSession] = []
        self.fault: Exception | None = None

    def accept_offer(self, sdp: str) -> DoubleSession:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
        self.sessions.append(DoubleSession(len(self.sessions) + 1, sdp))
        return self.sessions[-1]
