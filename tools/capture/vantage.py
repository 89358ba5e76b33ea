"""Where the capture was taken, and how long a round trip is.

A check and its answer, seen on the way, take the round trip from here to the one who answers. So
the checks of A measure the way to B, those of B the way to A, and both together the whole:

    A ◀── way to A ──▶ capture ◀── way to B ──▶ B          round trip = way to A + way to B

Where the capture shows datagrams at two places (both ends of a relay, both sides of a NAT), what
lies between is measured too. A side that is never asked anything (its peer is lite) is judged by
how soon its DTLS and SCTP react, which includes computing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from warp_tools.capture.channel import Channel
from warp_tools.capture.checks import Exchange
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.start import Start

USABLE_NS: Final = 5_000_000
USABLE_BOUND_NS: Final = 20_000_000
_NEAR: Final = 0.25
_SMALL_NS: Final = 2_000_000


class Vantage(NamedTuple):
    """Estimates, in nanoseconds."""

    rtt_ns: int | None
    at_most: bool
    """Whether computing time is in it: the real round trip may be shorter."""
    source: str | None
    """checks, checks and DTLS, DTLS."""
    near: str | None
    """side 0, side 1, between, both ends; None when it cannot be told."""
    ways_ns: tuple[int, int]
    """Round trip between the capture and each side."""
    reason: str | None
    """Why round trips cannot be counted in time."""

    @property
    def countable(self) -> bool:
        """Whether times may be divided by the round trip."""
        if self.rtt_ns is None or self.source == "DTLS":
            return False
        return self.rtt_ns >= (USABLE_BOUND_NS if self.at_most else USABLE_NS)

    def could_follow(self, effect: Event, cause: Event) -> bool:
        """Tell whether the sender of `effect` can have had `cause` in its hands."""
        way = self.ways_ns[effect.side]
        slack = way * 3 // 4 if way >= _SMALL_NS else 0
        if effect.time_ns == cause.last_ns and cause.again_ns is None:
            return effect.number > cause.number and not slack  # a clock of coarse ticks
        return effect.time_ns >= cause.last_ns + slack

    def sent_ns(self, event: Event) -> int:
        """Return when its sender sent it."""
        return event.time_ns - self.ways_ns[event.side] // 2

    def arrived_ns(self, event: Event) -> int:
        """Return when its receiver got it."""
        return event.last_ns + self.ways_ns[1 - event.side] // 2


def estimate(start: Start, channel: Channel) -> Vantage:
    """Estimate the round trip of a session and the place of the capture."""
    session = start.session
    asked = [_shortest(samples) for samples in session.checks.samples]
    between = _between(session.events)
    one_way = _is_one_way(session.events)
    ways: list[int | None] = [None, None]
    for side in (0, 1):
        sample = asked[side]
        if sample is not None:
            ways[1 - side] = max(0, sample - between)
    if ways[0] is not None and ways[1] is not None:
        return _judge(ways[0], ways[1], between, "checks", guessed=0, one_way=one_way)
    reactions = [_reaction(start, channel, side) for side in (0, 1)]
    measured = ways[0] is not None or ways[1] is not None
    known = [way if way is not None else reactions[side] for side, way in enumerate(ways)]
    if known[0] is None or known[1] is None:
        if between and measured:
            return _judge(
                known[0] or 0, known[1] or 0, between, "checks", guessed=0, one_way=one_way
            )
        return Vantage(None, False, None, None, (0, 0), _why_not(start, measured))
    if not measured:
        total = known[0] + known[1] + between
        reason = "there are no answered checks; DTLS alone gives an upper bound, computing included"
        return Vantage(total, True, "DTLS", None, (0, 0), reason)
    guessed = known[0 if ways[0] is None else 1]
    return _judge(
        known[0], known[1], between, "checks and DTLS", guessed=guessed or 0, one_way=one_way
    )


def _judge(
    way0: int, way1: int, between: int, source: str, *, guessed: int, one_way: bool
) -> Vantage:
    """`guessed` is the part of the round trip that has computing time in it."""
    total = way0 + way1 + between
    at_most = guessed * 5 > total
    if total < USABLE_NS:
        small = (
            f"a round trip of {total / 1e6:.1f} ms drowns in computing time; "
            "round trips are counted by messages"
        )
        return Vantage(total, at_most, source, None, (0, 0), small)
    near: str | None = "between"
    if between > total / 2:
        near = "both ends"
        if not one_way and way0 + way1 < max(2 * USABLE_NS, between // 10):
            # what is left is computing: both ends are where the capture is
            total, way0, way1 = between, 0, 0
    elif way0 < total * _NEAR:
        near = "side 0"
    elif way1 < total * _NEAR:
        near = "side 1"
    reason: str | None = None
    if at_most and total < USABLE_BOUND_NS:
        reason = f"the round trip is known only to be at most {total / 1e6:.1f} ms"
        near = None
    return Vantage(total, at_most, source, near, (way0, way1), reason)


def _why_not(start: Start, measured: bool) -> str:
    if measured:
        return "only one side's checks were answered, and no DTLS shows how far the other side is"
    if start.session.checks.first is not None:
        return "no answer to a check was captured"
    return "there are no checks, and no whole DTLS handshake without repeats, to measure by"


def _shortest(samples: list[Exchange]) -> int | None:
    times = [exchange.response.last_ns - exchange.request.time_ns for exchange in samples]
    return min((time for time in times if time >= 0), default=None)


def _is_one_way(events: list[Event]) -> bool:
    """Tell whether only one side's datagrams were seen at both places."""
    return len({event.side for event in events if event.again_ns is not None}) == 1


def _between(events: list[Event]) -> int:
    """Return the round trip between the two places where the capture looks, 0 for one place."""
    total = 0
    for side in (0, 1):
        transits = [
            event.again_ns - event.time_ns
            for event in events
            if event.side == side and event.again_ns is not None
        ]
        total += min(transits, default=0)
    return total


def _reaction(start: Start, channel: Channel, side: int) -> int | None:
    """Return the shortest time in which a side has answered what it cannot have foreseen."""
    pairs: list[tuple[Event, Event]] = []
    if start.client == side:
        if start.server_flight and start.client_flight:
            pairs.append((start.server_flight[-1], start.client_flight[0]))
        answer = start.session.checks.askers[side].first_answer
        hellos = [e for e, _ in start.session.handshake.hellos if not e.embedded]
        if answer is not None and hellos:
            pairs.append((answer.response, hellos[0]))
    elif start.server == side:
        if start.hello is not None and start.server_hello is not None:
            pairs.append((start.hello.whole, start.server_hello.whole))
        if start.client_flight and start.server_ack is not None:
            pairs.append((start.client_flight[-1], start.server_ack))
    pairs += _answers(start, channel, side)
    gaps = [
        effect.time_ns - cause.last_ns
        for cause, effect in pairs
        if effect.side == side and cause.side != side and not _repeated(start, cause, effect)
    ]
    return min((gap for gap in gaps if gap >= 0), default=None)


def _answers(start: Start, channel: Channel, side: int) -> Iterator[tuple[Event, Event]]:
    """Yield what a side's SCTP has sent because of what had come, cause and effect."""
    first, finished = channel.first(side), start.finished12[1]
    if start.client == side and first is not None and finished is not None:
        yield finished, first  # DTLS 1.2's client may send data only now
    for asked in (0, 1):
        ack, answered = channel.cookie_acks[asked], channel.cookie(asked)
        if answered is None:
            continue
        init_ack, echo = answered
        if side != asked:
            yield init_ack.event, echo.event
        elif ack is not None:
            yield echo.event, ack


def _repeated(start: Start, cause: Event, effect: Event) -> bool:
    """Tell whether something was lost in between, so that a timer is in the gap."""
    if cause.marked(Mark.LOST):
        return True
    repeats = [effect, *start.session.handshake.repeats]
    return any(
        event.marked(Mark.AGAIN) and cause.time_ns <= event.time_ns <= effect.time_ns
        for event in repeats
    )
