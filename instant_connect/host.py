"""One server of a cell, without sockets: entrance, sessions and answers, put together.

    unknown datagram ─▶ receive_unknown ─▶ Decision          time ─▶ get_timer, overdue
    offer ────────────▶ answers          ─▶ Answer           GET  ─▶ bundle

Whoever owns the sockets drives the connections of its sessions, tells what became of them
(`sessions.authenticated`, `sessions.end`), and carries what `Decision` says to where it belongs.
Called by `instant_connect.io`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from instant_connect.admission import Admission, AdmissionConfig, Admit, FloodGate
from instant_connect.answers import Answers
from instant_connect.bundle import MAX_TICKETS, Bundle, SealedTicket
from instant_connect.decisions import Decision
from instant_connect.entrance import Entrance
from instant_connect.guests import Lodging
from instant_connect.held import HeldOffers
from instant_connect.keyring import Keyring
from instant_connect.materialise import Materialiser
from instant_connect.profile import Terms
from instant_connect.replay import ReplayTable, attempt_key
from instant_connect.router import DIRECT, Journey, Roster
from instant_connect.sessions import InstantSession, Sessions
from instant_connect.ticket import Grant, Route, seal_ticket
from instant_connect.ufrag import routed_credentials
from instant_connect.waiting import WaitingRoom
from warp.contract import Flow
from warp.entropy import Entropy
from warp.errors import InvalidConfig
from warp.ice import IceCredentials
from warp.peer import PeerConfig
from warp.timers import earliest
from warp.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """Which server of its cell one is, and what its bundles say."""

    server: int = 0  # number within the cell; tickets name it
    region: int = 0
    dcid: int = 4  # stream id of the negotiated channel
    ticket_lifetime_s: int = 600
    tickets: int = 3  # in a bundle
    max_uses: int = 1  # of one ticket
    fallback: str = ""  # where offers go
    max_tickets: int = 65_536  # remembered as used until they expire, about 200 bytes each

    def __post_init__(self) -> None:
        if not 0 <= self.server < 0x10000:
            raise InvalidConfig(f"server is a number of 16 bits, not {self.server}")
        if not 0 < self.ticket_lifetime_s <= 86_400:
            raise InvalidConfig("ticket_lifetime_s is at most a day")
        if not 1 <= self.tickets <= MAX_TICKETS:
            raise InvalidConfig(f"a bundle has 1..{MAX_TICKETS} tickets, not {self.tickets}")


class Host:
    """The sans-IO half of an Instant Connect server."""

    __slots__ = ("_config", "_entropy", "_turn", "answers", "entrance", "sessions")

    def __init__(
        self,
        keyring: Keyring,
        config: HostConfig,
        *,
        peer: PeerConfig,
        terms: Terms,
        entropy: Entropy,
        limits: AdmissionConfig | None = None,
        admit: Admit | None = None,
        wall_offset_s: float = 0.0,
        trace: Trace | None = None,
        keylog: Callable[[str], object] | None = None,
    ) -> None:
        limits = limits or AdmissionConfig()
        self._config = config
        self._entropy = entropy
        self._turn = 0
        self.sessions = Sessions(
            Materialiser(
                peer,
                terms,
                entropy,
                trace=trace,
                keylog=keylog,
                draw_credentials=self.draw_credentials,
            ),
            limits,
            Admission(limits, admit),
            HeldOffers(limits.max_held_offers, limits.hold_s),
            trace=trace,
        )
        self.entrance = Entrance(
            keyring,
            self.sessions,
            ReplayTable(config.max_tickets),
            gate=FloodGate(limits),
            room=WaitingRoom(limits.waiting_s, limits.hello_s),
            own=config.server,
            wall_offset_s=wall_offset_s,
            trace=trace,
        )
        self.answers = Answers(
            self.entrance,
            entropy,
            own=config.server,
            region=config.region,
            hold_s=limits.hold_s,
        )

    @property
    def dcid(self) -> int:
        """Stream id of the channel that instant sessions have agreed on."""
        return self._config.dcid

    def draw_credentials(self) -> IceCredentials:
        """Return ICE credentials that every server of the cell knows to lead to this one.

        For sessions that begin otherwise than by a ticket, and for ICE restarts.
        """
        config, keyring = self._config, self.entrance.keyring
        route = Route(keyring.cell, config.server, config.region)
        return routed_credentials(keyring.current, route, self._entropy)

    def set_config(self, peer: PeerConfig) -> None:
        """Make sessions from now on with another configuration (the wall clock was set)."""
        self.sessions.materialiser.set_config(peer)

    def bundle(self, now: float, *, policy: int = 0, tickets: int | None = None) -> Bundle:
        """Return a bundle for one client; `policy` is the application's number for its session."""
        config, entrance = self._config, self.entrance
        keyring = entrance.keyring
        epoch = keyring.current
        wall = int(now + entrance.wall_offset_s)
        grant = Grant(wall + config.ticket_lifetime_s, policy, config.max_uses)
        sealed = []
        hints = self._hints()
        for index in range(config.tickets if tickets is None else tickets):
            route = Route(keyring.cell, hints[index % len(hints)], config.region)
            raw = seal_ticket(epoch, route, grant, self._entropy)
            sealed.append(SealedTicket(raw, epoch.password(raw)))
        return Bundle(
            tickets=tuple(sealed),
            fingerprint=epoch.certificate.fingerprint(),
            terms=self.sessions.materialiser.terms,
            issued_at=wall,
            expires_at=grant.expiry,
            refresh_after_s=config.ticket_lifetime_s // 2,
            dcid=config.dcid,
            fallback=config.fallback,
        )

    def _hints(self) -> list[int]:
        """Return the servers that the tickets of a bundle name, each of them first in its turn.

        Whoever answers the requests of a crowd need not get all of its sessions, and of a client's
        tickets not all name a server that may be gone tomorrow.
        """
        own, taking = self._config.server, sorted(self.entrance.roster.taking)
        if not taking:
            return [own]
        first = (bisect_left(taking, own) + self._turn) % len(taking)
        self._turn += 1
        return taking[first:] + taking[:first]

    def receive_unknown(
        self, data: bytes, flow: Flow, now: float, *, journey: Journey = DIRECT
    ) -> Decision:
        """Decide on a datagram whose flow and ufrag name no session; see `Entrance`."""
        return self.entrance.receive_unknown(data, flow, now, journey=journey)

    def lodgings(self, roster: Roster | None = None) -> dict[int, list[Lodging]]:
        """Return our sessions of tickets that others are asked about, by whom to tell of them.

        By the present roster, or by one that is to come.
        """
        told: dict[int, list[Lodging]] = {}
        for session in self.sessions.all():
            owner = self.entrance.owner_of(session.ticket, roster)
            if owner is not None and owner != self._config.server:
                told.setdefault(owner, []).append(lodging_of(session))
        return told

    def get_timer(self) -> float | None:
        """Return when `overdue` wants to be called."""
        return earliest(self.entrance.get_timer(), self.sessions.get_timer())

    def overdue(self, now: float) -> list[InstantSession]:
        """Let time pass, and return the sessions that have to be ended by the caller."""
        self.entrance.expire(now)
        return self.sessions.overdue(now)

    def stats(self) -> dict[str, Any]:
        """Return counts: what is under way, how sessions came, and why datagrams did not."""
        sessions, entrance = self.sessions, self.entrance
        return {
            "sessions": len(sessions),
            "half_open": sessions.admission.half_open,
            "waiting": entrance.waiting,
            "held_offers": len(sessions.held),
            "tickets_used": len(entrance.replay),
            "proven": {path.value: count for path, count in sessions.proven.items()},
            "stale": {why.value: count for why, count in self.answers.stale.items()},
            "dropped": {why.value: count for why, count in entrance.discards.items()},
        }


def lodging_of(session: InstantSession) -> Lodging:
    """Return what the owner of a session's ticket is told."""
    ticket = session.ticket
    return Lodging(ticket.id, attempt_key(session.ufrag), ticket.grant.expiry)
