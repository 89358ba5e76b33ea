"""Everything that is known about one session, in one place; what the findings are made from.

Session ─▶ Start ─▶ Channel ─▶ Vantage ─▶ Trips ─▶ Stages ─▶ Facts ─▶ findings, explanation
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from warp.dtls.faults import HandshakeFault
from warp_tools.capture import names
from warp_tools.capture.channel import Channel, look
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.session import Session
from warp_tools.capture.stages import Stage, stages
from warp_tools.capture.start import Start
from warp_tools.capture.trips import HALF, Trips, count
from warp_tools.capture.vantage import Vantage, estimate

if TYPE_CHECKING:
    from warp_tools.capture.opened import Opened

LITE_NS = 1_000_000_000
MEDIA_NS = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One finished session, measured. Sides are 0 and 1; `letters` says which of them is A."""

    session: Session
    start: Start
    vantage: Vantage
    channel: Channel
    trips: Trips
    stages: list[Stage]
    letters: tuple[str, str]
    opened: Opened | None = None

    def letter(self, side: int | None) -> str:
        """Return A or B."""
        return "?" if side is None else self.letters[side]

    def inside(self, event: Event, shown: str) -> list[str]:
        """Say what keys have opened of a datagram and `shown` does not name."""
        if self.opened is None:
            return []
        return [word for word in self.opened.inside(event.number) if word not in shown]

    def stage(self, name: str) -> Stage | None:
        """Return a stage by its name, or None when it was not reached."""
        return next((stage for stage in self.stages if stage.name == name), None)

    @property
    def controlling(self) -> int | None:
        """The controlling side, or None when no check says so (or both sides do)."""
        first, second = (asker.controlling for asker in self.session.checks.askers)
        if first is None and second is None:
            return None
        if first is None:
            return 0 if second is False else 1
        if second is None or first != second:
            return 0 if first else 1
        return None

    def lite(self, side: int) -> tuple[bool | None, str]:
        """Tell whether a side is ICE-lite, and why."""
        checks = self.session.checks
        if checks.askers[side].requests:
            return False, "it sends checks of its own"
        other = checks.askers[1 - side]
        if self.alone == 1 - side:
            return None, "nothing that it sent was captured"
        if not other.answered:
            asked = checks.first is not None
            return None, "it has answered no check" if asked else "no check was captured"
        first = other.first_answer
        lasted = self.session.span[1] - first.response.time_ns if first is not None else 0
        if self.start.missing or lasted < LITE_NS:
            return None, "too little was captured to tell that it never asks"
        return True, "it answers checks and never sends one (RFC 8445 section 2.5)"

    def dialect(self, side: int) -> str | None:
        """Return which reading of SPED a side follows."""
        asker = self.session.checks.askers[side]
        return asker.sped.dialect(asker.google)

    def is_client(self, side: int) -> bool:
        """Tell whether a side is DTLS client, perhaps like the other one."""
        return side == self.start.client or bool(self.session.handshake.rivals)

    @property
    def offered(self) -> list[int]:
        """The sides that speak SPED, the first one first."""
        voices = [asker.sped.first for asker in self.session.checks.askers]
        sides = [side for side in (0, 1) if voices[side] is not None]
        return sorted(sides, key=lambda side: _time(voices[side]))

    @property
    def sped_used(self) -> bool | None:
        """Whether DTLS went through checks and the other side took part; None: not captured."""
        checks = self.session.checks
        if checks.first is None:
            return None
        offered = self.offered
        carried = any(asker.sped.carried for asker in checks.askers)
        if carried and len(offered) == 2:
            return True
        if checks.cut or self.start.missing or self.start.headless or self.alone is not None:
            return None
        # an offer to which no answer was captured, though other checks were answered
        silent = len(offered) == 1 and checks.askers[1 - offered[0]].sped.silent is None
        return None if silent and checks.askers[offered[0]].answered else False

    @property
    def alone(self) -> int | None:
        """The side of which alone there are datagrams, though they show that the other one spoke.

        Who sends a flight, data or media has been answered before; so has a server.
        """
        session = self.session
        if all(session.sent) or not any(session.sent):
            return None
        side = 0 if session.sent[0] else 1
        shake = session.handshake
        went_on = shake.flight(side) or shake.sealed(side) or session.sources.packets[side]
        asked = session.checks.askers[1 - side].missed or self.start.server == side
        return side if went_on or asked else None

    @property
    def begins(self) -> float:
        """Round trips before the DTLS client can put its ClientHello into a check or an answer.

        Half of one where the other side's check came first and called the client's forth.
        """
        client = self.start.client
        if client is None:
            return 0.0
        asked, heard = self.trips.answer[client], self.trips.answer[1 - client]
        if asked is not None:
            return asked - 1.0
        return 0.0 if heard is None else heard - HALF

    @property
    def lost(self) -> list[Event]:
        """Datagrams that did not reach the second place of the capture."""
        return [event for event in self.session.events if event.marked(Mark.LOST)]

    def offers_13(self) -> bool | None:
        """Tell whether the ClientHello offers DTLS 1.3."""
        hello = self.session.handshake.client_hello
        if hello is None:
            return None
        try:
            return 0xFEFC in (hello.versions() or ())
        except HandshakeFault:
            return None

    def shares(self) -> dict[int, int]:
        """Return the sizes of the ClientHello's key shares by group."""
        hello = self.session.handshake.client_hello
        if hello is None:
            return {}
        try:
            return {group: len(share) for group, share in (hello.key_shares() or {}).items()}
        except HandshakeFault:
            return {}

    @property
    def pq_share(self) -> int | None:
        """The post-quantum group that the ClientHello has a share for."""
        return next((group for group in self.shares() if group in names.POST_QUANTUM), None)


def measure(session: Session, opened: Opened | None = None) -> Facts:
    """Measure a finished session; `opened` knows what its keys have opened."""
    start = Start(session)
    channel = look(start, opened)
    vantage = estimate(start, channel)
    trips = count(start, vantage, channel)
    letters = _letters(session, start)
    return Facts(
        session=session,
        start=start,
        vantage=vantage,
        channel=channel,
        trips=trips,
        stages=stages(start, vantage, channel, trips, letters),
        letters=letters,
        opened=opened,
    )


def _letters(session: Session, start: Start) -> tuple[str, str]:
    """A is the controlling side; without checks the DTLS client; else who was seen first."""
    first, second = (asker.controlling for asker in session.checks.askers)
    side = 0
    if first is True or second is False:
        side = 0
    elif second is True or first is False:
        side = 1
    elif start.client is not None:
        side = start.client
    return ("A", "B") if side == 0 else ("B", "A")


def _time(event: Event | None) -> int:
    return 0 if event is None else event.time_ns
