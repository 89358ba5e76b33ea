"""The sessions of one server, by ufrag: at most one of a ufrag, from its first hello to its end.

    begin ─▶ SHAKING ─ authenticated ─▶ PROVEN ─ attached, or 30 s ─▶ CONFIRMED ─ end
                └ 5 s ─▶ overdue                    └ (if it may not) ─▶ overdue

Holds no timer of a connection and reads no event of one: whoever drives the connections tells what
became of them (`authenticated`, `end`), and ends those that are overdue. Called by `entrance`, by
`signalled`, and by the server around them.
"""

from __future__ import annotations

import heapq

from instant_connect.admission import Admission, AdmissionConfig
from instant_connect.held import HeldOffer, HeldOffers
from instant_connect.materialise import Materialiser
from instant_connect.ticket import Ticket
from instant_connect.tiers import Input, Standing, Tier
from instant_connect.ufrag import Opened
from warp.errors import InternalError
from warp.names import Counts, Name
from warp.peer import PeerConnection
from warp.sdp import SessionDescription
from warp.trace import Trace


class Path(Name):
    """Which way a session came."""

    INSTANT = "instant"
    """By its first datagram; signalling has not been heard of."""
    ATTACHED = "attached"
    """By its first datagram, and its offer came as well, before or after."""
    SIGNALLED = "signalled"
    """By an offer, whose answer its first datagram took up."""


class InstantSession:
    """One session: its connection, and how much is proven of its client."""

    __slots__ = (
        "begun_at",
        "checked_at",
        "client_ufrag",
        "context",
        "is_over",
        "offer",
        "peer",
        "prefix",
        "standing",
        "ticket",
        "ufrag",
    )

    def __init__(
        self,
        ufrag: str,
        client_ufrag: str,
        ticket: Ticket,
        peer: PeerConnection,
        standing: Standing,
        prefix: str,
        now: float,
    ) -> None:
        self.ufrag = ufrag
        self.client_ufrag = client_ufrag
        self.ticket = ticket
        self.peer = peer
        self.standing = standing
        self.prefix = prefix
        self.begun_at = now
        self.checked_at = now
        """When its first check came, which may have been answered before there was a session."""
        self.offer: SessionDescription | None = None
        """The client's offer, once signalling has brought it."""
        self.context: object = None
        """What the application attached to that offer."""
        self.is_over = False

    @property
    def tier(self) -> Tier:
        """How much is proven of the client."""
        return self.standing.tier

    @property
    def policy(self) -> int:
        """What the application agreed to when it issued the ticket, in its own numbers."""
        return self.ticket.grant.policy

    @property
    def path(self) -> Path:
        """Which way the session came, as far as is known by now."""
        if self.ticket.offer_is_held:
            return Path.SIGNALLED
        return Path.ATTACHED if self.standing.is_attached else Path.INSTANT

    def __repr__(self) -> str:
        return f"<InstantSession {self.path.value} {self.tier.name}>"


class Sessions:
    """The sessions of one server, the offers that wait for theirs, and the counts of both."""

    __slots__ = (
        "_by_ufrag",
        "_config",
        "_heap",
        "_trace",
        "admission",
        "held",
        "materialiser",
        "proven",
    )

    def __init__(
        self,
        materialiser: Materialiser,
        config: AdmissionConfig,
        admission: Admission,
        held: HeldOffers,
        *,
        trace: Trace | None = None,
    ) -> None:
        self.materialiser = materialiser
        self.admission = admission
        self.held = held
        self._config = config
        self._trace = trace
        self._by_ufrag: dict[str, InstantSession] = {}
        # by name, so that a session that has ended is not kept by its deadline
        self._heap: list[tuple[float, str]] = []
        self.proven: Counts[Path] = Counts()
        """How many sessions have reached T3, by the way they had come by then."""

    def __len__(self) -> int:
        return len(self._by_ufrag)

    def find(self, ufrag: str) -> InstantSession | None:
        """Return the session of a ufrag, or None."""
        return self._by_ufrag.get(ufrag)

    def all(self) -> list[InstantSession]:
        """Return the sessions that have not ended."""
        return list(self._by_ufrag.values())

    # -- from the first hello to the end ------------------------------------------------------

    def begin(
        self, opened: Opened, ufrag: str, client_ufrag: str, prefix: str, now: float
    ) -> InstantSession:
        """Make the session of a ufrag, whose client admission has counted under `prefix`."""
        if ufrag in self._by_ufrag:
            raise InternalError("a ufrag names one session")
        held = self.held.take(ufrag)
        peer = self.materialiser.materialise(
            opened, ufrag, client_ufrag, now, held=None if held is None else held.agreed
        )
        config = self._config
        standing = Standing(
            now,
            half_open_s=config.half_open_s,
            confirm_after_s=config.confirm_after_s,
            trace=self._trace,
        )
        session = InstantSession(ufrag, client_ufrag, opened.ticket, peer, standing, prefix, now)
        self._by_ufrag[ufrag] = session
        self.admission.half_open += 1
        self.admission.sessions += 1
        if held is not None:
            self.attach(session, held, now)
        self._watch(session)
        return session

    def attach(self, session: InstantSession, held: HeldOffer, now: float) -> None:
        """Let a session know its client's offer. The transport stays as it is."""
        session.offer, session.context = held.offer, held.context
        if held.offer is not None and held.agreed is None:
            session.peer.amend_remote(held.offer, now)
        session.standing.receive(Input.ATTACHED, now)

    def authenticated(self, session: InstantSession, now: float) -> None:
        """The client is who its ticket was made out to: it may cost something from now on."""
        if session.is_over or session.tier >= Tier.PROVEN:
            return
        session.standing.receive(Input.AUTHENTICATED, now)
        self._release(session)
        self.proven[session.path] += 1
        self._watch(session)

    def end(self, session: InstantSession) -> None:
        """Forget a session that has ended. Harmless when repeated; its ufrag stays used."""
        if session.is_over:
            return
        session.is_over = True
        if session.tier < Tier.PROVEN:
            self._release(session)
        self.admission.sessions -= 1
        del self._by_ufrag[session.ufrag]

    def _release(self, session: InstantSession) -> None:
        self.admission.half_open -= 1
        self.admission.remove(session.ticket.id, session.prefix)

    # -- time ---------------------------------------------------------------------------------

    def _watch(self, session: InstantSession) -> None:
        deadline = session.standing.deadline
        if deadline is not None:
            heapq.heappush(self._heap, (deadline, session.ufrag))

    def get_timer(self) -> float | None:
        """Return when a session may be overdue, or an offer is forgotten."""
        while self._heap and self._watched(*self._heap[0]) is None:
            heapq.heappop(self._heap)
        due = self.held.get_timer()
        if not self._heap:
            return due
        return self._heap[0][0] if due is None else min(due, self._heap[0][0])

    def _watched(self, deadline: float, ufrag: str) -> InstantSession | None:
        """Return the session whose present deadline this is, or None."""
        session = self._by_ufrag.get(ufrag)
        return session if session and session.standing.deadline == deadline else None

    def overdue(self, now: float) -> list[InstantSession]:
        """Let time pass, and return the sessions that have to be ended by the caller."""
        self.held.expire(now)
        out = []
        while self._heap and self._heap[0][0] <= now:
            session = self._watched(*heapq.heappop(self._heap))
            if session is None:
                continue
            if session.tier is Tier.PROVEN and self._config.keeps_unattached:
                session.standing.receive(Input.WAITED, now)
            else:
                session.standing.deadline = None
                out.append(session)
        return out
