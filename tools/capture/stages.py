"""When each stage of a start ended: captured, at its own end, and in round trips.

Time zero is the first check (without checks: the first ClientHello), at the end that sent it. A
stage happens at its own end: what A sends is counted when A sends it, what A needs when it
arrives there; `vantage` says how far both are from the capture. Called by the explanation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warp_tools.capture.channel import Channel
from warp_tools.capture.events import Event
from warp_tools.capture.start import Start
from warp_tools.capture.trips import Trips
from warp_tools.capture.vantage import Vantage


class Stage(NamedTuple):
    """One stage that was reached."""

    name: str
    side: int
    """At whose end."""
    number: int
    """The datagram that ended it."""
    seen_ms: float
    """When that datagram passed the capture."""
    own_ms: float
    """When the stage was reached at its own end."""
    rtt: float | None
    """The same in round trips, where they can be told from the clock."""
    trips: float | None
    """Round trips by messages."""


def stages(
    start: Start, vantage: Vantage, channel: Channel, trips: Trips, letters: tuple[str, str]
) -> list[Stage]:
    """Return the stages of a start in order of time; empty when its beginning was not captured."""
    zero = start.zero
    if zero is None:
        return []
    clock = _Clock(vantage, zero)
    found = [
        *_ice(start, clock, trips, letters),
        *_dtls(start, clock, trips),
        *_after(start, clock, channel, trips, letters),
    ]
    return sorted(found, key=lambda stage: (stage.own_ms, stage.number))


class _Clock:
    """Turns moments into stages."""

    def __init__(self, vantage: Vantage, zero: Event) -> None:
        self._vantage = vantage
        self._seen_ns = zero.time_ns
        self._own_ns = vantage.sent_ns(zero)

    def way_ns(self, side: int) -> int:
        """Round trip between the capture and a side."""
        return self._vantage.ways_ns[side]

    def could_follow(self, effect: Event, cause: Event) -> bool:
        """Tell whether the sender of `effect` can have had `cause` in its hands."""
        return self._vantage.could_follow(effect, cause)

    def sent(self, name: str, event: Event, trips: float | None) -> Stage:
        """A stage that its side ends by sending."""
        return self._stage(
            name, event.side, event, event.time_ns, self._vantage.sent_ns(event), trips
        )

    def arrived(self, name: str, event: Event, trips: float | None) -> Stage:
        """A stage that the receiver ends by receiving."""
        own_ns = self._vantage.arrived_ns(event)
        return self._stage(name, 1 - event.side, event, event.last_ns, own_ns, trips)

    def _stage(
        self, name: str, side: int, event: Event, seen: int, own: int, trips: float | None
    ) -> Stage:
        own_ns = max(0, own - self._own_ns)
        vantage = self._vantage
        rtt = own_ns / vantage.rtt_ns if vantage.countable and vantage.rtt_ns else None
        seen_ms = (seen - self._seen_ns) / 1e6
        return Stage(name, side, event.number, seen_ms, own_ns / 1e6, rtt, trips)


def _ice(start: Start, clock: _Clock, trips: Trips, letters: tuple[str, str]) -> Iterator[Stage]:
    checks = start.session.checks
    if checks.first is not None:
        yield clock.sent("first_check", checks.first, None if start.headless else 0.0)
    for side in (0, 1):
        exchange = checks.askers[side].first_answer
        if exchange is not None:
            name = f"check_answered_{letters[side]}"
            yield clock.arrived(name, exchange.response, trips.answer[side])
    for side in (0, 1):
        nominated = checks.askers[side].nominated
        if nominated is not None and checks.askers[side].controlling is not False:
            yield clock.arrived("nominated", nominated.response, None)


def _dtls(start: Start, clock: _Clock, trips: Trips) -> Iterator[Stage]:
    first = start.first_hello
    if first is not None:
        yield clock.sent("client_hello", first.whole, trips.hello)
        if start.hello is not None and start.hello.message_seq != first.message_seq:
            depth = None if trips.hello is None else trips.hello + trips.retries
            yield clock.sent("client_hello_again", start.hello.whole, depth)
    if start.server_hello is not None:
        yield clock.sent("server_hello", start.server_hello.began, trips.flight)
    if start.is_12:
        mine, theirs = start.finished12
        if theirs is not None:
            yield clock.arrived("dtls_client", _heard(start, clock, theirs), trips.client)
            if mine is not None:
                yield clock.arrived("dtls_server", _accepted(start, clock), trips.server)
    elif start.client_flight:
        yield clock.sent("dtls_client", start.client_flight[0], trips.client)
        if start.server_ack is not None:
            yield clock.arrived("dtls_server", _accepted(start, clock), trips.server)


def _heard(start: Start, clock: _Clock, first: Event) -> Event:
    """Return the Finished of a DTLS 1.2 server that arrived: after it the client asks no more."""
    shake = start.session.handshake
    again = [event for event in shake.repeats if event.side != first.side]
    chosen = first
    for sealed in shake.flight(first.side):
        event = sealed.event
        asked = (one for one in again if one.time_ns <= event.time_ns)
        if any(clock.could_follow(one, chosen) for one in asked):
            chosen = event
    return chosen


def _accepted(start: Start, clock: _Clock) -> Event:
    """Return the datagram of the client's flight that the server's ACK answers."""
    ack = start.server_ack
    chosen = start.client_flight[0]
    for event in start.client_flight:
        early = ack is None or event.last_ns <= ack.time_ns - clock.way_ns(ack.side) * 3 // 4
        if early and not event.lost:
            chosen = event
    return chosen


def _after(
    start: Start, clock: _Clock, channel: Channel, trips: Trips, letters: tuple[str, str]
) -> Iterator[Stage]:
    for side in (0, 1):
        media = start.session.sources.first[side]
        if media is not None:
            yield clock.sent(f"media_{letters[side]}", media, None)
    for side in (0, 1):
        packet = channel.first(side)
        if packet is not None:
            yield clock.sent(f"sctp_first_{letters[side]}", packet, None)
    for side in () if channel.hidden else (0, 1):
        sent, got = channel.cookie_acks[side], channel.cookie_acks[1 - side]
        ways = [clock.sent("", sent, None)] if sent is not None else []
        ways += [clock.arrived("", got, None)] if got is not None else []
        if ways:
            opened = min(ways, key=lambda stage: stage.own_ms)
            yield opened._replace(name=f"sctp_{letters[side]}", trips=trips.sctp[side])
    for side in (0, 1) if channel.dcep == "dcep" else ():
        mine, theirs = channel.opens[side], channel.opens[1 - side]
        ways = [clock.sent("", mine, None)] if mine is not None else []
        ways += [clock.arrived("", theirs, None)] if theirs is not None and not theirs.lost else []
        if ways:
            opened = min(ways, key=lambda stage: stage.own_ms)
            yield opened._replace(name=f"channel_{letters[side]}", trips=trips.channel[side])
