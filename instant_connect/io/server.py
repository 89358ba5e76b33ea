"""The sockets around `host`: first datagrams become sessions, and sessions become calls.

    port ─ unknown ─▶ Host.receive_unknown ─▶ answered | another server's | a session (T1)
    session ─ greet ─▶ the application may say what is not personal
            ─ connected (T3) ─▶ `async for arrival in server` ─▶ the application

    server.bundle(policy=7)                      # JSON, for a client that will call
    server.answer(offer)                         # SDP and status, for one that calls by signalling

One process, or one of several that share a port: then neighbours carry datagrams to the others, and
`take_over` takes what they hand on. Made by `io.listening`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from instant_connect.answers import Answer
from instant_connect.config import EVENTS
from instant_connect.decisions import Answered, Arrived, Forwarded, Sought
from instant_connect.envelope import FIRST_BYTE, Way
from instant_connect.host import Host
from instant_connect.io.arrival import Arrival, Greet, HeldContext
from instant_connect.io.enclosed import Enclosed
from instant_connect.io.neighbours import Neighbours
from instant_connect.keyring import Keyring
from instant_connect.metrics import Metrics, metrics_of
from instant_connect.router import DIRECT, Journey, Roster
from instant_connect.sessions import InstantSession, Path
from warp.contract import Address, Flow
from warp.errors import Discard, InvalidConfig, InvalidState
from warp.io import Server, Session
from warp.io.credentials import wall_offset
from warp.io.inbox import Inbox
from warp.io.port import Driven, Port
from warp.io.session import SessionOwner
from warp.peer import FlowAuthenticated
from warp.sdp import parse_description

_DRIFT_S: Final = 0.1
_MAX_UNCLAIMED: Final = 1_024


class InstantServer(SessionOwner):
    """Made by `listen_instant`. Iterate over it for the calls that have reached T3."""

    __slots__ = (
        "_accept",
        "_arrivals",
        "_calls",
        "_enclosed",
        "_greet",
        "_handle",
        "_inner",
        "_journey",
        "_neighbours",
        "host",
    )

    def __init__(
        self,
        inner: Server,
        host: Host,
        *,
        greet: Greet | None = None,
    ) -> None:
        self.host = host
        """The sans-IO half: keyring, roster and counts."""
        self._inner = inner
        self._greet = greet
        self._calls: dict[InstantSession, Arrival] = {}
        self._arrivals: Inbox[Arrival] = Inbox()
        self._accept: Callable[[Arrival], object] = self._queue
        self._handle: asyncio.TimerHandle | None = None
        self._journey = DIRECT
        self._neighbours: Neighbours | None = None
        self._enclosed = Enclosed(lambda: host.entrance.keyring, lambda: self.is_taking)
        inner.receive_unknown(self._receive_unknown)

    # -- the application's side ---------------------------------------------------------------

    @property
    def server(self) -> Server:
        """The server on whose port all this happens; offers that it answers itself get sessions
        at once, for clients that cannot hold a long ufrag."""
        return self._inner

    @property
    def port(self) -> int:
        """The UDP port."""
        return self._inner.port

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that bundles and answers name, best first."""
        return self._inner.addresses

    @property
    def sessions(self) -> list[Session]:
        """The sessions that have not ended, proven or not."""
        return self._inner.sessions

    @property
    def hold_s(self) -> float:
        """For how long an answer can be taken up, in seconds."""
        return self.host.answers.hold_s

    @property
    def is_draining(self) -> bool:
        """Whether no new sessions are taken here."""
        return self.host.answers.own not in self.host.entrance.roster.taking

    @property
    def is_taking(self) -> bool:
        """Whether new sessions are taken here, or by others of the roster."""
        return bool(self.host.entrance.roster.taking)

    def __aiter__(self) -> Inbox[Arrival]:
        """Iterate over the calls whose clients are proven, until the server is closed.

        Calls that nobody asks for are ended once a thousand are waiting.
        """
        return self._arrivals

    def receive_arrivals(self, accept: Callable[[Arrival], object]) -> None:
        """Call `accept` with each call whose client is proven, in place of the iteration."""
        self._accept = accept

    def set_greet(self, greet: Greet | None) -> None:
        """Replace what is called at T1."""
        self._greet = greet

    def limit_sessions(self, most: int, room: Callable[[], str | None] | None = None) -> None:
        """Take no more than so many sessions at a time, nor more than the configuration says.

        `room` says why whoever answers the calls cannot take one more, or None when it can. Beyond
        that first datagrams are dropped, and offers refused: `InvalidState`, with that reason.
        """
        admission = self.host.sessions.admission
        admission.max_sessions = min(admission.max_sessions, most)
        admission.room = room

    def find(self, ufrag: str) -> Arrival | None:
        """Return the session of a ufrag, proven or not, or None."""
        instant = self.host.sessions.find(ufrag)
        return None if instant is None else self._calls.get(instant)

    def add_media_tick(self, tick: Callable[[float], None]) -> Callable[[], None]:
        """Call `tick(now)` every 20 ms on the audio clock; returns how to stop it."""
        return self._inner.add_media_tick(tick)

    def bundle(self, *, policy: int = 0, tickets: int | None = None, fallback: str = "") -> str:
        """Return a bundle for one client, as JSON that nobody may store.

        `policy` is the application's number for what the session is to be; `fallback` is where
        offers go, unless the configuration says that. Raises `InvalidState` when no new sessions
        are taken, here or by others that the tickets may name.
        """
        if not self.is_taking:
            raise InvalidState("this server takes no new sessions: ask another")
        bundle = self.host.bundle(self._now(), policy=policy, tickets=tickets)
        return replace(bundle, fallback=bundle.fallback or fallback).to_json()

    def answer(
        self,
        offer: str,
        *,
        ufrag: str = "",
        proof: str = "",
        policy: int = 0,
        context: object = None,
        dcid: int | None = None,
        hops: int = 0,
        settled: bool = False,
    ) -> Answer:
        """Answer an offer without making a session of it; its first datagram does.

        `ufrag` and `proof` are what its client said of an attempt under way (`Instant-Ufrag`,
        `Instant-Proof`). `dcid` is the stream id of the client's events channel if negotiated.
        For `Status.ELSEWHERE` the offer goes to that server, with one hop more, and `settled` as
        the answer says. Raises `warp.sdp.SdpError` when the offer is not usable and `InvalidState`
        when the server takes no more.
        """
        now, answers = self._now(), self.host.answers
        description = parse_description(offer)
        held = HeldContext(dcid, context)
        if ufrag:
            answer = answers.attach(
                description,
                ufrag,
                proof,
                now,
                policy=policy,
                context=held,
                hops=hops,
                settled=settled,
            )
        else:
            answer = answers.answer(description, now, policy=policy, context=held)
        self._arm()
        return answer

    def revise(self, ufrag: str, offer: str) -> Answer:
        """Answer another offer of a client that has been answered and has not come yet.

        Raises what `answer` raises, and `InvalidState` when its first answer has expired.
        """
        answer = self.host.answers.revise(ufrag, parse_description(offer), self._now())
        self._arm()
        return answer

    def forget(self, ufrag: str) -> None:
        """Let no session come of an answer any more: its client has hung up."""
        self.host.entrance.forget(ufrag, self._now())

    def drain(self) -> None:
        """Take no new sessions; those there are go on, wherever their datagrams come from."""
        roster, own = self.host.entrance.roster, self.host.answers.own
        self.set_roster(roster._replace(draining=roster.draining | {own}))

    def rotate(self, keyring: Keyring) -> None:
        """Take another keyring; sessions live on whatever their tickets were sealed with."""
        if keyring.cell != self.host.entrance.keyring.cell:
            raise InvalidConfig("a keyring of another cell")
        self.host.entrance.keyring = keyring

    def set_roster(self, roster: Roster) -> None:
        """Tell which servers of the cell are alive, and which of them are draining."""
        self.host.entrance.set_roster(roster)

    def metrics(self) -> Metrics:
        """Return counts by tier, path and reason, under names that do not change."""
        return metrics_of(self.host)

    def stats(self) -> dict[str, Any]:
        """Return counts: what is under way, how sessions came, and why datagrams did not."""
        return self.host.stats()

    async def close(self) -> None:
        """Take no more calls, end those there are, then close the port. Harmless when repeated."""
        self._arrivals.close()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        await self._inner.close()

    async def __aenter__(self) -> InstantServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- datagrams that name no session -------------------------------------------------------

    def set_neighbours(self, neighbours: Neighbours | None) -> None:
        """Tell who carries datagrams to the other servers that share the port."""
        self._neighbours = neighbours

    def way_to(self, client: Address) -> Way | None:
        """Return how a client is reached that came by a relay, or None."""
        return self._enclosed.way_to(client)

    def take_over(self, data: bytes, flow: Flow, journey: Journey, way: Way | None = None) -> None:
        """Take in a datagram that another server of the cell has handed on.

        `way` is how its client is reached, if it came by a relay.
        """
        if way is not None and (port := self._inner.port_of(flow)) is not None:
            self._enclosed.learn(port, flow.remote, way)
        before, self._journey = self._journey, journey
        try:
            self._inner.inject(data, flow)
        finally:
            self._journey = before

    def _receive_unknown(self, port: Port, data: bytes, flow: Flow) -> Driven | None:
        """Act on what the host decides; return the session that takes in `data` itself."""
        if data and data[0] == FIRST_BYTE:
            self._receive_envelope(port, data, flow)
            return None
        now, journey, neighbours = self._now(), self._journey, self._neighbours
        decision = self.host.receive_unknown(data, flow, now, journey=journey)
        if isinstance(decision, Answered):
            port.send(decision.datagram, flow.remote)
        elif isinstance(decision, Forwarded):
            if neighbours is not None:
                onward = journey.onward(self.host.answers.own, granted=decision.granted)
                neighbours.hand_on(decision.server, data, flow, onward)
        elif isinstance(decision, Sought):
            if neighbours is not None and not journey.hops:
                neighbours.seek(data, flow)
        elif isinstance(decision, Arrived):
            arrival = self._calls.get(decision.session) or self._welcome(decision.session, now)
            if arrival is None:
                return None
            session = arrival.session
            if decision.is_new:
                port.add_route(session, flow)
            first, *rest = decision.datagrams
            if not rest:
                return session
            for datagram in (first, *rest):
                session.peer.receive_datagram(datagram, flow, now)
            session.driver.flush_soon(session)
        if not isinstance(decision, Forwarded):
            self._arm()
        return None

    def _receive_envelope(self, port: Port, data: bytes, flow: Flow) -> None:
        try:
            self._enclosed.receive(port, data, flow)
        except Discard as discard:
            self.host.entrance.discard(discard, self._now())

    def _welcome(self, instant: InstantSession, now: float) -> Arrival | None:
        """Put a new session on the port; None when the server is full after all."""
        try:
            session = self._inner.adopt(instant.peer, self)
        except InvalidState:
            self.host.sessions.end(instant)
            return None
        held = instant.context
        dcid = held.dcid if isinstance(held, HeldContext) else self.host.dcid
        if instant.path is not Path.SIGNALLED:
            dcid = self.host.dcid
        events = None
        if dcid is not None:
            events = session.channel(EVENTS, negotiated=True, stream_id=dcid)
        arrival = self._calls[instant] = Arrival(session, instant, events)
        if self._neighbours is not None:
            self._neighbours.begun(instant)
        self._arm()
        if self._greet is not None:
            self._greet(arrival)
        return arrival

    # -- what becomes of sessions -------------------------------------------------------------

    def _find(self, session: Session) -> InstantSession | None:
        for ufrag in session.peer.local_ufrags:
            instant = self.host.sessions.find(ufrag)
            if instant is not None and instant.peer is session.peer:
                return instant
        return None

    def register(self, session: Session) -> None:
        """Know the session by every ufrag that may name it."""
        self._inner.register(session)

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the session, with what came from there too soon."""
        self._inner.route(session, event)
        now = self._now()
        for record in self.host.entrance.take_early(event.flow, now):
            session.peer.receive_datagram(record, event.flow, now)
            session.driver.flush_soon(session)

    def connected(self, session: Session) -> None:
        """T3: from here on the call is worth something."""
        instant = self._find(session)
        if instant is not None and instant in self._calls:
            self.host.sessions.authenticated(instant, self._now())
            self._accept(self._calls[instant])
            self._arm()

    def _queue(self, arrival: Arrival) -> None:
        if self._arrivals.unread < _MAX_UNCLAIMED:
            self._arrivals.put(arrival)
        else:
            self._end(arrival)

    def _end(self, arrival: Arrival) -> None:
        session = arrival.session
        session.peer.close(self._now())
        session.driver.flush_soon(session)

    def release(self, session: Session) -> None:
        """Forget a session that has ended."""
        instant = self._find(session)
        self._inner.release(session)
        if instant is not None:
            self._calls.pop(instant, None)
            self.host.sessions.end(instant)
            if self._neighbours is not None:
                self._neighbours.ended(instant)

    def resolves_names(self) -> bool:
        """A lite agent checks nobody and has no use for addresses."""
        return False

    # -- time ---------------------------------------------------------------------------------

    def _now(self) -> float:
        """Return the loop's time, having looked at the wall's: tickets expire by it."""
        loop = asyncio.get_running_loop()
        entrance, offset = self.host.entrance, wall_offset(loop)
        if abs(offset - entrance.wall_offset_s) > _DRIFT_S:
            entrance.wall_offset_s = offset
            self.host.set_config(self._inner.present_config())
        return loop.time()

    def _arm(self) -> None:
        due = self.host.get_timer()
        if self._handle is not None:
            if due is not None and due >= self._handle.when():
                return
            self._handle.cancel()
            self._handle = None
        if due is not None:
            self._handle = asyncio.get_running_loop().call_at(due, self._wake)

    def _wake(self) -> None:
        self._handle = None
        now = self._now()
        for instant in self.host.overdue(now):
            arrival = self._calls.get(instant)
            if arrival is not None:
                self._end(arrival)
            else:
                self.host.sessions.end(instant)
        self._arm()
