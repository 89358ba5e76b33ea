"""Finds the sessions in a stream of datagrams (RFC 7983, RFC 8445 section 7.3).

    finder = Finder()
    for datagram in reader:
        finder.receive(datagram)          # returns (session, event) or None: not WebRTC
    finder.finish()
    finder.sessions

A check names both ufrags, so every flow on which they meet belongs to one session. A flow
without checks (they were not captured, or there is no ICE) belongs to the session whose
ClientHello it repeats or whose media it goes on with, or is one of its own. New ufrags on a known
flow begin a new session that remembers the one before it (an ICE restart, or a port used again).
All tables are bounded.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from warp.stun import MessageClass
from warp_tools.capture.contents import Contents, is_check, read_contents
from warp_tools.capture.events import Event
from warp_tools.capture.ip import Address
from warp_tools.capture.reader import Datagram
from warp_tools.capture.records import client_random, is_dtls
from warp_tools.capture.relayed import Relays
from warp_tools.capture.session import MAX_EVENTS, Session

MAX_SESSIONS: Final = 5_000
MAX_FLOWS: Final = 20_000
MAX_CANDIDATES: Final = 2_048
MAX_ORPHANS: Final = 64
MAX_ANSWERS: Final = 2_048
MAX_RESTARTS: Final = 8
MAX_MOVING: Final = 512
MAX_MOVING_GAP: Final = 1_000
"""RTP packets that may be missing while a source moves to another address."""
PROOF_PACKETS: Final = 4
"""RTP packets of one source in a row that make a flow of media without anything else."""

FlowKey = tuple[Address, Address, str]


class Found(NamedTuple):
    """Where a datagram belongs."""

    session: Session
    event: Event | None
    """None when the capture shows the datagram a second time."""


class _Flow(NamedTuple):
    session: Session
    side_of_first: int
    """The side that owns the smaller address."""
    smaller: Address


class Finder:
    """All sessions of a capture."""

    def __init__(self, *, limit: int = MAX_EVENTS, fold: bool = True) -> None:
        self.sessions: Final[list[Session]] = []
        self.counts: Counter[str] = Counter()
        """Datagrams that belong to no session, by what they are."""
        self._begun = 0
        self.overflow = 0
        """Sessions beyond the most that are followed."""
        self._options: Final = (limit, fold)
        self._flows: OrderedDict[FlowKey, _Flow] = OrderedDict()
        self._ufrags: dict[frozenset[str], Session] = {}
        self._randoms: OrderedDict[bytes, Session] = OrderedDict()
        self._waiting: OrderedDict[FlowKey, list[Datagram]] = OrderedDict()
        self._answers: OrderedDict[FlowKey, Address] = OrderedDict()
        """Who has answered a check on a flow of which nothing else was captured before."""
        self._relays = Relays()

    def receive(self, datagram: Datagram) -> Found | None:
        """Take one datagram in; return where it belongs, or None when it is not WebRTC."""
        contents = read_contents(datagram.payload, datagram.length)
        if contents.kind == "other" or (contents.stun is not None and not is_check(contents.stun)):
            inner = self._relays.unwrap(datagram)
            if inner is not None:
                datagram = inner
                contents = read_contents(datagram.payload, datagram.length)
        flow = self._locate(datagram, contents)
        if flow is None:
            self.counts[contents.kind] += 1
            return None
        side = flow.side_of_first
        if datagram.source != flow.smaller:
            side = 1 - side
        return Found(flow.session, flow.session.receive(datagram, contents, side))

    def flows(self) -> set[tuple[Address, Address]]:
        """Return the pairs of addresses of the sessions, and of those that relay for them."""
        return {(first, second) for first, second, _ in self._flows} | self._relays.carriers

    def finish(self) -> None:
        """The capture is over."""
        for session in self.sessions:
            session.finish()

    # -- where a datagram belongs -----------------------------------------------------------------

    def _locate(self, datagram: Datagram, contents: Contents) -> _Flow | None:
        key = _key(datagram)
        flow = self._flows.get(key)
        stun = contents.stun
        if stun is not None:
            if not is_check(stun):
                return None
            if stun.is_request and stun.username is not None:
                return self._by_ufrags(datagram, stun.username, flow)
            if stun.message_class is MessageClass.REQUEST:
                return None  # a question to a STUN server
            if flow is None:
                self._note_answer(key, datagram)
                return None  # its answer, or one to a check that was not captured
            return self._by_transaction(datagram, stun.transaction, flow)
        if contents.dtls is not None:
            return self._by_hello(datagram, contents, flow)
        if contents.media is not None:
            return flow or self._by_media(datagram, contents)
        return None

    def _by_ufrags(
        self, datagram: Datagram, names: tuple[str, str], flow: _Flow | None
    ) -> _Flow | None:
        """A check: `names` are the receiver's and the sender's ufrag."""
        receiver, sender = names
        pair = frozenset(names)
        session = self._ufrags.get(pair)
        if session is None and flow is not None and flow.session.ufrags == [None, None]:
            session = flow.session  # its checks were not captured until now
        if session is None:
            session = self._new_session()
            if session is None:
                return None
            session.previous = flow.session if flow is not None else None
        if session.ufrags == [None, None]:
            side = self._side(flow, datagram) if flow and flow.session is session else 0
            session.ufrags[side], session.ufrags[1 - side] = sender, receiver
            self._ufrags[pair] = session
        if flow is not None and flow.session is session:
            return flow
        side = 0 if session.ufrags[0] == sender else 1
        if flow is not None and session in _before(flow.session):
            return _owned(datagram, session, side)  # the pair of before a restart is kept alive
        if flow is not None and self._is_orphan(flow.session):
            session.absorb(flow.session, swapped=self._side(flow, datagram) != side)
            self.sessions.remove(flow.session)
            session.previous = None
        elif flow is not None and flow.session.ufrags == [None, None]:
            flow.session.counts["moved"] += 1
        return self._add_flow(datagram, session, side)

    def _by_transaction(self, datagram: Datagram, transaction: bytes, flow: _Flow) -> _Flow:
        """An answer belongs to the session that has asked, perhaps before an ICE restart."""
        if not flow.session.checks.asked(transaction):
            for earlier in _before(flow.session):
                if earlier.checks.asked(transaction):
                    side = earlier.side_of(datagram.source)
                    return flow if side is None else _owned(datagram, earlier, side)
        return flow

    def _note_answer(self, key: FlowKey, datagram: Datagram) -> None:
        self._answers[key] = datagram.source
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)

    @staticmethod
    def _is_orphan(session: Session) -> bool:
        """Tell whether a session is only what came on a flow before its checks did."""
        alone = session.ufrags == [None, None] and session.handshake.random is None
        return alone and len(session.events) == session.datagrams <= MAX_ORPHANS

    def _by_hello(self, datagram: Datagram, contents: Contents, flow: _Flow | None) -> _Flow | None:
        if contents.dtls is None:
            return None
        random = client_random(contents.dtls.records)
        if flow is not None:
            known = flow.session.handshake.random
            if random is None or known is None or random == known:
                self._remember(random, flow.session)
                return flow
            if flow.session.handshake.is_contested(self._side(flow, datagram)):
                return flow  # both sides are clients of one connection
            # another handshake on the same flow: another connection
            session = self._randoms.get(random) or self._new_session()
            if session is None:
                return flow
            session.previous = flow.session
            self._remember(random, session)
            return self._add_flow(datagram, session, 0)
        if not is_dtls(datagram.payload, datagram.length):
            return None
        session = self._randoms.get(random) if random is not None else None
        side = 0
        if session is not None:
            side = session.handshake.client or 0
        session = session or self._new_session()
        if session is None:
            return None
        self._remember(random, session)
        return self._add_flow(datagram, session, side)

    def _by_media(self, datagram: Datagram, contents: Contents) -> _Flow | None:
        """Media on a flow of which nothing else was captured: only when it goes on."""
        media = contents.media
        if media is None or media.rtcp:
            return None
        key = (datagram.source, datagram.destination, datagram.transport)
        waiting = self._waiting.setdefault(key, [])
        self._waiting.move_to_end(key)
        if len(self._waiting) > MAX_CANDIDATES:
            self._waiting.popitem(last=False)
        if waiting and not _follows(waiting[-1], datagram):
            waiting.clear()
        waiting.append(datagram)
        if len(waiting) < PROOF_PACKETS:
            return None
        del self._waiting[key]
        session, side = self._before_moving(waiting[0], media.ssrc)
        session = session or self._new_session()
        if session is None:
            return None
        back = self._waiting.pop((datagram.destination, datagram.source, datagram.transport), [])
        for earlier in sorted([*waiting[:-1], *back], key=lambda found: found.time_ns):
            who = side if earlier.source == datagram.source else 1 - side
            session.receive(earlier, read_contents(earlier.payload, earlier.length), who)
            self.counts["rtp"] -= 1
        return self._add_flow(datagram, session, side)

    def _before_moving(self, datagram: Datagram, ssrc: int) -> tuple[Session | None, int]:
        """Return the session that this packet goes on with from another address, and its side.

        A NAT gives new addresses in mid-call: a source falls silent, and goes on where nobody has
        been heard, to or from the same peer.
        """
        sequence = int.from_bytes(datagram.payload[2:4], "big")
        for session in reversed(self.sessions[-MAX_MOVING:]):
            for side in (0, 1):
                source = session.sources.sources.get((side, False, ssrc))
                if source is None or source.top is None or datagram.time_ns < source.last_ns:
                    continue
                known = datagram.source in session.addresses[side]
                known = known or datagram.destination in session.addresses[1 - side]
                if known and 0 < (sequence - source.top & 0xFFFF) <= MAX_MOVING_GAP:
                    return session, side
        return None, 0

    # -- tables -----------------------------------------------------------------------------------

    def _new_session(self) -> Session | None:
        if len(self.sessions) >= MAX_SESSIONS:
            self.overflow += 1
            return None
        limit, fold = self._options
        self._begun += 1
        session = Session(self._begun, limit=limit, fold=fold)
        self.sessions.append(session)
        return session

    def _remember(self, random: bytes | None, session: Session) -> None:
        if random is None:
            return
        self._randoms[random] = session
        if len(self._randoms) > MAX_SESSIONS:
            self._randoms.popitem(last=False)

    def _add_flow(self, datagram: Datagram, session: Session, side: int) -> _Flow:
        """Note that `side` of the session owns the datagram's source."""
        key = _key(datagram)
        flow = self._flows[key] = _owned(datagram, session, side)
        self._flows.move_to_end(key)
        answered_by = self._answers.pop(key, None)
        if answered_by is not None:
            session.checks.miss(1 - side if answered_by == datagram.source else side)
        if len(self._flows) > MAX_FLOWS:
            self._flows.popitem(last=False)
        return flow

    @staticmethod
    def _side(flow: _Flow, datagram: Datagram) -> int:
        side = flow.side_of_first
        return side if datagram.source == flow.smaller else 1 - side


def _owned(datagram: Datagram, session: Session, side: int) -> _Flow:
    """Return the flow of a datagram that `side` has sent."""
    smaller = min(datagram.source, datagram.destination)
    return _Flow(session, side if smaller == datagram.source else 1 - side, smaller)


def _before(session: Session) -> Iterator[Session]:
    """Yield the sessions that used a flow before this one, the latest first."""
    for _ in range(MAX_RESTARTS):
        if session.previous is None:
            return
        session = session.previous
        yield session


def _key(datagram: Datagram) -> FlowKey:
    source, destination = datagram.source, datagram.destination
    if destination < source:
        source, destination = destination, source
    return source, destination, datagram.transport


def _follows(earlier: Datagram, later: Datagram) -> bool:
    """Tell whether two RTP packets are of one source, one soon after the other."""
    first, second = earlier.payload, later.payload
    step = int.from_bytes(second[2:4], "big") - int.from_bytes(first[2:4], "big") & 0xFFFF
    return first[8:12] == second[8:12] and 0 < step <= 16
