"""What a start was spent on, part by part, and what WARP would have saved of it.

    first check ─▶ ClientHello ─▶ DTLS done ─▶ channel open      spent on: checks, DTLS, SCTP

Called by the explanation and by the view for people.
"""

from __future__ import annotations

from typing import NamedTuple

from warp_tools.capture.early import Turn, turn
from warp_tools.capture.facts import Facts
from warp_tools.capture.split import Wait, split_of
from warp_tools.capture.stages import Stage

WARP_CLIENT, WARP_SERVER, WARP_CHANNEL_SERVER = 1.0, 0.5, 1.5
"""Round trips of a start with WARP: client's media and channel, server's media, its channel.

They count from the moment at which a check of the client's can leave.
"""


class Spent(NamedTuple):
    """A part of the start, from the first check to the open channel, and what it was spent on."""

    on: str
    text: str
    from_ms: float
    to_ms: float
    trips: float | None

    @property
    def ms(self) -> float:
        """Milliseconds that it took."""
        return max(0.0, self.to_ms - self.from_ms)  # where ways are known by bounds only


class Saved(NamedTuple):
    """One thing that a start was for, as it was and as it would be with WARP, in round trips."""

    what: str
    now: float
    warp: float
    at_least: bool = False
    """Whether `now` is the earliest that fits the capture."""

    @property
    def trips(self) -> float:
        """Round trips that WARP would have saved."""
        return max(0.0, self.now - self.warp)


def spent(facts: Facts) -> list[Spent]:
    """Return what the DTLS client's start was spent on, in order."""
    found: list[Spent] = []
    hello, again = facts.stage("client_hello"), facts.stage("client_hello_again")
    done = facts.stage("dtls_client")
    trips = facts.trips
    if hello is None:
        return found
    if facts.session.checks.first is not None:
        text = _before_hello(facts)
        found.append(Spent("ice", text, 0.0, hello.own_ms, trips.hello))
    start = hello
    if again is not None:
        wants = {want for _, want in facts.session.handshake.retries}
        on = "cookie" if wants == {"cookie"} else "hello-retry"
        text = "the ClientHello once more"
        if on == "cookie":
            text += ", with a cookie"
        elif wants:
            text += ", with another key share"
        found.append(Spent(on, text, hello.own_ms, again.own_ms, float(trips.retries)))
        start = again
    if done is not None:
        before = None if trips.hello is None else trips.hello + trips.retries
        depth = None if trips.client is None or before is None else trips.client - before
        text = "the DTLS handshake, until the client was done"
        found.append(Spent("dtls", text, start.own_ms, done.own_ms, depth))
        found += _sctp_spent(facts, done)
    return found


def _before_hello(facts: Facts) -> str:
    hello = facts.start.first_hello
    if hello is not None and hello.began.embedded and not hello.whole.embedded:
        split = split_of(facts.start, facts.vantage, hello)
        if split is not None and split.wait is Wait.ANSWER:
            return "a check with the first part of the ClientHello, and its answer"
        return f"the ClientHello in {hello.parts} parts, the first one in a check"
    if hello is None or not hello.whole.embedded:
        return "checks, until the ClientHello left"
    if hello.parts > 1:
        return f"checks that carried the ClientHello in {hello.parts} parts"
    if facts.trips.hello == 0.0:
        return "nothing: the first check carried the ClientHello"
    return "the check of the other side, whose answer carried the ClientHello"


def _sctp_spent(facts: Facts, done: Stage) -> list[Spent]:
    client = facts.start.client
    if client is None or facts.channel.snap is not False:
        return []
    opened = facts.stage(f"sctp_{facts.letter(client)}")
    if opened is None:
        return []
    depth = facts.trips.sctp[client]
    trips = None if depth is None or facts.trips.client is None else depth - facts.trips.client
    return [Spent("sctp", "the handshake of SCTP", done.own_ms, opened.own_ms, trips)]


def saved(facts: Facts) -> list[Saved]:
    """Return what WARP would have saved, by messages; empty when that cannot be told."""
    trips, client = facts.trips, facts.start.client
    if trips.client is None or trips.server is None or client is None:
        return []
    if facts.session.checks.first is None:
        return []
    begins = facts.begins
    found = [
        Saved("client can send media", trips.client, begins + WARP_CLIENT),
        *_server_media(facts, trips.server),
    ]
    return found + _channel_saved(facts, client)


def _channel_saved(facts: Facts, client: int) -> list[Saved]:
    """Compare when a channel is open, or SCTP is up where the capture shows no more."""
    what, depths = "channel open", facts.trips.channel
    if sctp_only(facts):
        what, depths = "SCTP up", facts.trips.sctp
    mine, theirs = depths[client], depths[1 - client]
    if mine is None or theirs is None:
        return []
    return [
        Saved(f"{what} at the client", mine, facts.begins + WARP_CLIENT),
        Saved(f"{what} at the server", theirs, facts.begins + WARP_CHANNEL_SERVER),
    ]


def sctp_only(facts: Facts) -> bool:
    """Tell whether SCTP is counted, but when a channel opened is not known."""
    trips = facts.trips
    return None in trips.channel and None not in trips.sctp


def _server_media(facts: Facts, done: float) -> list[Saved]:
    """Compare when the server can send: for one that sends behind its flight, that is then.

    Where the capture does not tell, its flight is the earliest; nothing is said of a session in
    which that goes out as early as with WARP.
    """
    warp, flight, shown = facts.begins + WARP_SERVER, facts.trips.flight or done, turn(facts)
    what = "server can send media"
    if shown is Turn.UNTOLD:
        return [Saved(what, flight, warp, at_least=True)] if flight > warp else []
    return [Saved(what, flight if shown is Turn.EARLY else done, warp)]
