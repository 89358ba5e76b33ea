"""Calls that are answered and whose sessions need not have begun: what HTTP may ask of both.

    POST ─ answer_offer ─▶ Prospect ─ first datagram ─▶ its session: PUT, PATCH, DELETE, stats
                              └ hung up, or nobody came in time ─▶ over
    first datagram, and no POST yet ─ Finished ─▶ meet ─▶ Prospect, which a POST may find

A prospect is known by the ufrag of its answer, which names one session at most. Nothing of it is
a session: until the first datagram comes it can only be replaced or forgotten. Called by `asgi`, on
behalf of `instant_connect.signalling`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from instant_connect.answers import Answer, Status
from instant_connect.exchange import Ask
from instant_connect.io.arrival import Arrival
from instant_connect.io.server import InstantServer
from instant_connect.sessions import Path
from instant_connect.signalling import Elsewhere, PromisedSession
from warp.errors import InvalidState
from warp.ice import parse_candidate

_SLACK_S: Final = 0.05


class Prospect:
    """One call: before its session, during it, and as long as somebody asks for it."""

    __slots__ = ("_answer", "_arrival", "_offer", "_prospects", "is_over", "status", "ufrag")

    def __init__(self, prospects: Prospects, ufrag: str) -> None:
        self._prospects = prospects
        self._arrival: Arrival | None = None
        self._answer = ""
        self._offer = ""
        self.ufrag = ufrag
        self.status = Status.NEW
        self.is_over = False

    @property
    def arrival(self) -> Arrival | None:
        """The session, once its first datagram has come."""
        if self._arrival is None and not self.is_over:
            self._prospects.look_for(self)
        return self._arrival

    @property
    def path(self) -> Path:
        """Which way it came, or will."""
        if self.arrival is not None:
            return self.arrival.path
        return Path.SIGNALLED if self.status is Status.NEW else Path.ATTACHED

    @property
    def has_begun(self) -> bool:
        """Whether the first datagram has come."""
        return self.arrival is not None

    @property
    def answer(self) -> str:
        """Our last answer; empty before an offer has come."""
        return self._answer

    @property
    def remote_description(self) -> str:
        """The peer's description in force."""
        return self._offer if self.arrival is None else self.arrival.session.remote_description

    def begin(self, arrival: Arrival) -> bool:
        """Have a session from now on; False when that was known."""
        is_new = self._arrival is None
        self._arrival = arrival
        return is_new

    def answered(self, offer: str, answer: Answer) -> None:
        """Note what an offer was answered with."""
        self._offer, self._answer, self.status = offer, answer.sdp, answer.status

    def accept_offer(self, sdp: str) -> str:
        """Answer another offer of the same peer; raises `SdpError` or `InvalidState`."""
        if self.arrival is not None:
            self._answer = self.arrival.session.accept_offer(sdp)
        else:
            self._require_life()
            self._prospects.revise(self, sdp)
        return self._answer

    def add_remote_candidate(self, line: str | None) -> None:
        """Take in a trickled candidate: a lite agent checks none, and waits for none."""
        if self.arrival is not None:
            self.arrival.session.add_remote_candidate(line)
        else:
            self._require_life()
            if line:
                parse_candidate(line)

    def _require_life(self) -> None:
        if self.is_over:
            raise InvalidState("the call has ended")

    def stats(self) -> dict[str, Any]:
        """Return counters and the times of the start's milestones; few before the session."""
        if self.arrival is None:
            return {"state": "new", "path": self.path}
        stats = self.arrival.session.stats()
        # a plain check is answered before there is a session that could note when it came
        milestones = {**stats["milestones"], "first_check": self.arrival.checked_at}
        return {**stats, "path": self.path, "milestones": milestones}

    async def close(self) -> None:
        """End the session, or let none begin."""
        if self.arrival is not None:
            await self.arrival.session.close()
        else:
            self._prospects.forget(self)

    def __repr__(self) -> str:
        return f"<Prospect {self.path.value}>"


class Prospects:
    """The prospects of one server. `ended` hears of those that are over."""

    __slots__ = ("_by_ufrag", "_due", "_ended", "_handle", "_hold_s", "_loop", "_server")

    def __init__(self, server: InstantServer, *, ended: Callable[[Prospect], None]) -> None:
        self._server = server
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._hold_s = server.hold_s
        self._by_ufrag: dict[str, Prospect] = {}
        self._due: dict[Prospect, float] = {}
        """Those whose session is not known to have begun, soonest first."""
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._by_ufrag)

    # -- offers -------------------------------------------------------------------------------

    def answer_offer(self, sdp: str, ask: Ask, dcid: int | None) -> Prospect:
        """Answer an offer; of an attempt that can be joined, return the prospect of that.

        Raises `SdpError`, `InvalidState` when the server is full or draining, and `Elsewhere`.
        """
        attempt = ask.attempt
        answer = self._server.answer(
            sdp,
            ufrag="" if attempt is None else attempt.ufrag,
            proof="" if attempt is None else attempt.proof,
            policy=ask.policy,
            dcid=dcid,
            hops=ask.hops,
            settled=ask.settled,
        )
        if answer.status is Status.ELSEWHERE and answer.server is not None:
            raise Elsewhere(answer.server, settled=answer.settled)
        # whoever merely names an attempt gets an answer of another name
        prospect = self._by_ufrag.get(answer.ufrag) or self._add(answer.ufrag)
        prospect.answered(sdp, answer)
        self._watch(prospect)
        return prospect

    def revise(self, prospect: Prospect, sdp: str) -> None:
        """Answer another offer of a call whose session has not begun."""
        answer = self._server.revise(prospect.ufrag, sdp)
        if answer.ufrag != prospect.ufrag:
            self._by_ufrag.pop(prospect.ufrag, None)
            self._by_ufrag[answer.ufrag] = prospect
            prospect.ufrag = answer.ufrag
        prospect.answered(sdp, answer)
        self._watch(prospect)

    def _add(self, ufrag: str) -> Prospect:
        prospect = self._by_ufrag[ufrag] = Prospect(self, ufrag)
        return prospect

    # -- sessions -----------------------------------------------------------------------------

    def meet(self, arrival: Arrival) -> Prospect:
        """Return the prospect of a session whose client is proven."""
        prospect = self._by_ufrag.get(arrival.ufrag) or self._add(arrival.ufrag)
        self._begin(prospect, arrival)
        return prospect

    def look_for(self, prospect: Prospect) -> None:
        """Let a prospect know its session, if that has begun."""
        arrival = self._server.find(prospect.ufrag)
        if arrival is not None:
            self._begin(prospect, arrival)

    def _begin(self, prospect: Prospect, arrival: Arrival) -> None:
        if prospect.begin(arrival):
            self._due.pop(prospect, None)
            arrival.session.closed.add_done_callback(lambda _: self._end(prospect))

    def forget(self, prospect: Prospect) -> None:
        """Let no session come of a prospect any more."""
        if not prospect.is_over:
            self._server.forget(prospect.ufrag)
            self._end(prospect)

    def withdraw(self, session: PromisedSession) -> None:
        """Let no session come of an answer that is not given after all."""
        if isinstance(session, Prospect):
            self.forget(session)

    def _end(self, prospect: Prospect) -> None:
        if prospect.is_over:
            return
        prospect.is_over = True
        self._due.pop(prospect, None)
        del self._by_ufrag[prospect.ufrag]
        self._ended(prospect)

    # -- time ---------------------------------------------------------------------------------

    def _watch(self, prospect: Prospect) -> None:
        """Give the first datagram as long as the server gives it."""
        if prospect.arrival is None:
            self._due.pop(prospect, None)
            self._due[prospect] = self._loop.time() + self._hold_s + _SLACK_S
            self._arm()

    def _arm(self) -> None:
        if self._handle is None and self._due:
            self._handle = self._loop.call_at(next(iter(self._due.values())), self._wake)

    def _wake(self) -> None:
        self._handle = None
        now = self._loop.time()
        for prospect in [each for each, due in self._due.items() if due <= now]:
            if prospect.arrival is None:
                self._end(prospect)
        self._arm()

    def close(self) -> None:
        """Let no session come of what is promised, and stop watching."""
        for prospect in list(self._due):
            self.forget(prospect)
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
