"""How many round trips a start must take by its messages, whatever the clock says.

Each message that can only be sent after another one has arrived costs half a round trip more than
that one. Counted from the first check, which is 0; called by the stages. Timers and losses are
not in it: they are waits, and are measured in milliseconds.

    request 0 ─▶ answer 0.5 ─▶ ClientHello 1 ─▶ flight 1.5 ─▶ client's flight 2 ─▶ server done 2.5
    request with ClientHello 0 ─▶ answer with flight 0.5 ─▶ client's flight 1 ─▶ server done 1.5
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warp_tools.capture.channel import Channel
from warp_tools.capture.events import Event
from warp_tools.capture.split import Wait, split_of
from warp_tools.capture.start import Start
from warp_tools.capture.vantage import Vantage

HALF: Final = 0.5
_NOT_ITS_ANSWER: Final = frozenset((Wait.LATER, Wait.UNTOLD))


class Trips(NamedTuple):
    """Round trips before each stage; None: it was not reached, or cannot be told."""

    answer: tuple[float | None, float | None]
    """When a side has the first answer to a check of its own."""
    hello: float | None
    """When the first ClientHello is complete on the wire."""
    retries: int
    flight: float | None
    """When the server can send its flight."""
    client: float | None
    server: float | None
    sctp: tuple[float | None, float | None]
    channel: tuple[float | None, float | None] = (None, None)
    """When a side's first channel is open; None where the capture does not show how."""


def count(start: Start, vantage: Vantage, channel: Channel) -> Trips:
    """Count the round trips of a session."""
    depths = _Depths(start, vantage)
    retries = start.retries
    if start.headless:
        return Trips((None, None), None, retries, None, None, None, (None, None))
    answers = depths.answer(0), depths.answer(1)
    nothing = Trips(answers, None, retries, None, None, None, (None, None))
    if start.zero is None or start.client is None:
        return nothing
    hello = depths.hello()
    if hello is None or start.hello is None:
        return nothing
    if start.server_hello is None:
        return nothing._replace(hello=hello)
    flight = hello + retries + HALF
    flight = max(flight, depths.server_ready())
    client = flight + (1.5 if start.is_12 else HALF)
    server = flight + 1.0
    finished = start.finished12[1] if start.is_12 else None
    reached_client = bool(start.client_flight) if start.is_12 is False else finished is not None
    reached_server = reached_client and (start.is_12 or start.server_ack is not None)
    found = nothing._replace(
        hello=hello,
        flight=flight,
        client=client if reached_client else None,
        server=server if reached_server else None,
    )
    sctp = _sctp(start, vantage, channel, found)
    return found._replace(sctp=sctp, channel=channel_depths(channel, sctp))


class _Depths:
    """Depths of what precedes the handshake."""

    def __init__(self, start: Start, vantage: Vantage) -> None:
        self._start = start
        self._vantage = vantage
        self._asked = start.session.checks.askers
        self._request = self._first_request(0), self._first_request(1)

    def _first_request(self, side: int) -> float:
        """0 for a check that nothing called forth, half a round trip for a triggered one."""
        first, other = self._asked[side].first, self._asked[1 - side].first
        if first is None or other is None:
            return 0.0
        # whoever has answered a check has heard of it
        heard = self._asked[1 - side].first_answer
        if heard is not None:
            response = heard.response
            if (response.time_ns, response.number) < (first.time_ns, first.number):
                return HALF
        return HALF if self._vantage.could_follow(first, other) else 0.0

    def answer(self, side: int) -> float | None:
        """Depth at which a side has its first answer."""
        answered = self._asked[side].first_answer is not None
        return self._request[side] + 1.0 if answered else None

    def _has_answer(self, side: int, event: Event) -> bool:
        exchange = self._asked[side].first_answer
        return exchange is not None and self._vantage.could_follow(event, exchange.response)

    def _sent(self, event: Event) -> float | None:
        """Depth of a DTLS datagram that opens the handshake."""
        side = event.side
        stun = event.contents.stun
        if stun is not None and not stun.is_request:
            return self._request[1 - side] + HALF
        ready = self.answer(side)
        if ready is not None and self._has_answer(side, event):
            return ready
        if event.embedded:
            return self._request[side]
        # sent directly without an answer of its own: called forth by the other side's check
        asked = self._asked[1 - side].first
        if asked is not None and self._vantage.could_follow(event, asked):
            return self._request[1 - side] + HALF
        # without checks there is nothing to wait for; with them, their beginning is not here
        return self._request[side] if self._start.session.checks.first is None else None

    def hello(self) -> float | None:
        """Depth at which the first ClientHello is complete."""
        first = self._start.first_hello
        if first is None:
            return None
        split = split_of(self._start, self._vantage, first)
        best: dict[int, float | None] = {}
        for event, piece in self._start.hello_pieces(first):
            depth = self._sent(event)
            stun = event.contents.stun
            asks = stun is not None and stun.is_request
            if split is not None and split.wait in _NOT_ITS_ANSWER and asks:
                depth = self._request[event.side]  # a check may leave without an answer
            known = best.setdefault(piece.offset, depth)
            if depth is not None and known is not None:
                best[piece.offset] = min(depth, known)
        depths = [depth for depth in best.values() if depth is not None]
        return max(depths) if depths and len(depths) == len(best) else None

    def server_ready(self) -> float:
        """Depth at which a server may send that waits for the answer to its own check."""
        start = self._start
        if start.server is None or start.server_hello is None:
            return 0.0
        event = start.server_hello.began
        ready = self.answer(start.server)
        if event.embedded or ready is None or not self._has_answer(start.server, event):
            return 0.0
        return ready


def _sctp(
    start: Start, vantage: Vantage, channel: Channel, trips: Trips
) -> tuple[float | None, float | None]:
    """Depths at which each side has its association."""
    if start.client is None or channel.snap is None or channel.hidden:
        return None, None
    done = [0.0, 0.0]
    for side in (0, 1):
        depth = trips.client if side == start.client else trips.server
        if depth is None:
            return None, None
        done[side] = depth
    if channel.snap:
        return done[0], done[1]
    server = 1 - start.client
    if _early(start, vantage, channel.first(server)) and trips.flight is not None:
        done[server] = trips.flight
    # a COOKIE ACK answers the handshake of the other side
    asks = [channel.cookie_acks[1] is not None, channel.cookie_acks[0] is not None]
    if not any(asks):
        return None, None
    _reactions(vantage, channel, done)
    opened: list[float | None] = [None, None]
    for side in (0, 1):
        ways = [done[side] + 2.0] if asks[side] else []
        if asks[1 - side]:
            begun = max(done[1 - side] + HALF, _own(start, trips, side))
            ways.append(begun + 1.0)
        opened[side] = min(ways, default=None)
    return opened[0], opened[1]


def channel_depths(
    channel: Channel, sctp: tuple[float | None, float | None]
) -> tuple[float | None, float | None]:
    """Return when each side has a channel, in round trips: one agreed on in advance needs SCTP.

    Who announces one may send on it as soon as there is an association; the other side knows of
    it when the OPEN arrives (RFC 8832 section 6).
    """
    if channel.dcep != "dcep":
        return (None, None) if channel.dcep is None else sctp
    opened: list[float | None] = [None, None]
    for side in (0, 1):
        mine, theirs = sctp[side], sctp[1 - side]
        if mine is None or theirs is None:
            continue
        ways = [mine] if channel.opens[side] is not None else []
        if channel.opens[1 - side] is not None:
            ways.append(mine if channel.bundled[1 - side] else max(mine, theirs + HALF))
        opened[side] = min(ways, default=None)
    return opened[0], opened[1]


def _reactions(vantage: Vantage, channel: Channel, done: list[float]) -> None:
    """A side that began only when it had heard of the other one began half a round trip later.

    Where a round trip takes no time, what came later was not necessarily called forth.
    """
    if not vantage.countable:
        return
    first = channel.first(0), channel.first(1)
    for side in (0, 1):
        mine, theirs = first[side], first[1 - side]
        if mine is not None and theirs is not None and vantage.could_follow(mine, theirs):
            done[side] = max(done[side], done[1 - side] + HALF)


def _early(start: Start, vantage: Vantage, first: Event | None) -> bool:
    """Tell whether a server of DTLS 1.3 sent its first packet right behind its flight."""
    if first is None or start.is_12 or not start.client_flight:
        return False
    return not vantage.could_follow(first, start.client_flight[0])


def _own(start: Start, trips: Trips, side: int) -> float:
    """Depth at which a side can read what the other one sends in the last epoch."""
    depth = trips.client if side == start.client else trips.server
    return depth or 0.0
