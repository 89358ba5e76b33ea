"""Answers to offers, by the same mechanism as first datagrams: a sealed ufrag, and no session.

    offer ─▶ ticket sealed for it ─▶ answer ~~▶ client ─ first datagram ─▶ session      NEW
    offer + ufrag of an attempt + proof ─▶ the attempt's own answer                     ATTACHED
                                       └─ its ticket is another server's ─▶ ELSEWHERE
    another offer before that datagram ─ revise ─▶ the same credentials, or others      NEW

Signalling never makes a session: what an offer says is held (`held`) until its client's first
datagram comes. An offer that comes beside an attempt joins it, whichever of the two is first; if
the attempt can come to nothing, the offer is answered as any other. Called by signalling.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from instant_connect.admission import Verdict
from instant_connect.attempt import PAYLOAD_TYPES, Attempt, make_attempt
from instant_connect.entrance import Entrance
from instant_connect.held import HeldOffer
from instant_connect.profile import (
    PAYLOAD_TYPE,
    compose_answer,
    offered_opus,
    offered_sctp,
    server_init,
)
from instant_connect.replay import Use, attempt_key
from instant_connect.sessions import Sessions
from instant_connect.ticket import OFFER_HELD, Grant, Route, seal_ticket
from instant_connect.ufrag import (
    Opened,
    attach_proof,
    compose_ufrag,
    open_ufrag,
    server_sctp,
)
from warp.crypto import constant_time_equal
from warp.entropy import Entropy, random_u32, random_u64
from warp.errors import Discard, InvalidConfig, InvalidState
from warp.ice import IceCredentials
from warp.names import Counts, Name
from warp.peer import AgreedDescriptions, agree
from warp.rtp import draw_cname
from warp.sdp import (
    LocalAudio,
    LocalData,
    LocalDescriptionState,
    LocalTransport,
    SdpError,
    SdpRule,
    SessionDescription,
    Setup,
    Source,
    check_reoffer,
    create_answer,
)
from warp.sped import SPED_OPTIONS


class Status(Name):
    """What an offer has come to. `Instant-Status` in HTTP."""

    NEW = "new"
    ATTACHED = "attached"
    ELSEWHERE = "elsewhere"


class Stale(Name):
    """Why an attempt that came with an offer could not be joined."""

    UNREADABLE = "its ufrag does not open, or not any more"
    UNPROVEN = "whoever sent the offer does not know the ticket's password"
    OVER = "its session has ended, or its ticket is used up"
    NOT_ADMITTED = "the application takes no session on its ticket"


class Answer(NamedTuple):
    """What goes back to the client. For `ELSEWHERE` the offer goes on to `server` as it is.

    `settled`: that server is not to ask whose the attempt is, since its owner has said so.
    """

    status: Status
    sdp: str = ""
    ufrag: str = ""
    server: int | None = None
    settled: bool = False


class Answers:
    """Answers offers for one server."""

    __slots__ = ("_entrance", "_entropy", "_region", "hold_s", "own", "stale")

    def __init__(
        self, entrance: Entrance, entropy: Entropy, *, own: int, region: int, hold_s: float
    ) -> None:
        self._entrance = entrance
        self._entropy = entropy
        self.own = own
        """The number of this server in its cell."""
        self._region = region
        self.hold_s = hold_s
        """For how long an answer can be taken up, in seconds."""
        self.stale: Counts[Stale] = Counts()
        """How many attempts an offer could not join, by reason."""

    @property
    def _sessions(self) -> Sessions:
        return self._entrance.sessions

    # -- an offer alone -----------------------------------------------------------------------

    def answer(
        self, offer: SessionDescription, now: float, *, policy: int = 0, context: object = None
    ) -> Answer:
        """Answer an offer; its session begins with the client's first datagram.

        Raises `SdpError` or `InvalidConfig` when the offer is not usable and `InvalidState` when
        this server takes no more; nothing is left behind then.
        """
        entrance = self._entrance
        if self.own not in entrance.roster.taking:
            raise InvalidState("this server takes no new sessions: ask another")
        self._require_room()
        _require_checkable(offer)
        epoch = entrance.keyring.current
        wall_s = now + entrance.wall_offset_s
        grant = Grant(int(wall_s + self.hold_s) + 1, policy, flags=OFFER_HELD)
        route = Route(entrance.keyring.cell, self.own, self._region)
        ticket = seal_ticket(epoch, route, grant, self._entropy)
        attempt = self._attempt(offer)
        ufrag, password = compose_ufrag(ticket, attempt), epoch.password(ticket)
        answer = self._describe(
            offer,
            ufrag,
            password,
            epoch.certificate.fingerprint(),
            snap=attempt.sctp is not None,
        )
        held = HeldOffer(agree(answer, offer), offer, context)
        self._sessions.held.hold(ufrag, held, now)
        return Answer(Status.NEW, str(answer), ufrag)

    def revise(self, ufrag: str, offer: SessionDescription, now: float) -> Answer:
        """Answer another offer of a client that was answered with `ufrag` and has not come yet.

        An offer with other ICE credentials gets others, and no session comes of `ufrag` then.
        Raises what `answer` raises, and `InvalidState` when nothing is held for it any more.
        """
        held = self._sessions.held.find(ufrag)
        before = None if held is None else held.offer
        try:
            opened = open_ufrag(ufrag, self._entrance.keyring, now + self._entrance.wall_offset_s)
        except Discard:
            before = None
        if held is None or before is None:
            raise InvalidState("the answer was not taken up in time: begin another call")
        check_reoffer(before, offer, None if held.agreed is None else held.agreed.local)
        _require_checkable(offer)
        if _identity(offer) != _identity(before):
            policy = opened.ticket.grant.policy
            answer = self.answer(offer, now, policy=policy, context=held.context)
            self._entrance.forget(ufrag, now)
            return answer
        status, agreed = Status.ATTACHED, None
        if held.agreed is None:
            described = self._compose(offer, opened, ufrag, opened.password)
        else:
            described = self._describe(
                offer,
                ufrag,
                opened.password,
                opened.ticket.epoch.certificate.fingerprint(),
                snap=offered_sctp(offer) is not None,
                previous=held.agreed,
            )
            status, agreed = Status.NEW, agree(described, offer)
        self._sessions.held.hold(ufrag, HeldOffer(agreed, offer, held.context), now)
        return Answer(status, str(described), ufrag)

    def _require_room(self) -> None:
        why = self._entrance.admission.why_full()
        if why is not None:
            raise InvalidState(why)

    def _attempt(self, offer: SessionDescription) -> Attempt:
        """Return the client's part of the ufrag: the same facts, written by us."""
        lead = next((m for m in offer.media if not m.rejected), None)
        if lead is None:
            raise SdpError(SdpRule.NOTHING_LEFT)
        prints = dict(offer.transport_of(lead).fingerprints)
        digest = _digest(prints)
        opus = offered_opus(offer)
        return make_attempt(
            digest,
            opus if opus is not None and opus in PAYLOAD_TYPES else PAYLOAD_TYPE,
            self._entropy,
            sctp=offered_sctp(offer),
        )

    def _describe(
        self,
        offer: SessionDescription,
        ufrag: str,
        password: str,
        fingerprint: str,
        *,
        snap: bool,
        previous: AgreedDescriptions | None = None,
    ) -> SessionDescription:
        """Return the answer with all that the stack can do."""
        terms = self._sessions.materialiser.terms
        first = terms.candidates[0]
        source = None if previous is None else previous.source
        if source is None:
            ssrc = random_u32(self._entropy, nonzero=True)
            source = Source(ssrc, draw_cname(self._entropy))
        state = LocalDescriptionState(
            transport=LocalTransport(
                ufrag=ufrag,
                pwd=password,
                fingerprints=(("sha-256", fingerprint),),
                candidates=tuple([str(candidate) for candidate in terms.candidates]),
                answer_options=SPED_OPTIONS if terms.sped else (),
                ice_lite=True,
                address=(first.host, first.port),
            ),
            media=(
                LocalAudio(ssrc=source.ssrc, cname=source.cname),
                LocalData(max_message_size=terms.max_message_size),
            ),
            session_id=random_u64(self._entropy) >> 2
            if previous is None
            else previous.local.origin.session_id,
            answer_setup=Setup.PASSIVE,
        )
        init = None
        if snap and terms.snap:
            init = server_init(terms, server_sctp(password, ufrag)).to_bytes()
        before = None if previous is None else previous.local
        return create_answer(offer, state, previous=before, sctp_init=init)

    # -- an offer beside an attempt -----------------------------------------------------------

    def attach(
        self,
        offer: SessionDescription,
        ufrag: str,
        proof: str,
        now: float,
        *,
        policy: int = 0,
        context: object = None,
        hops: int = 0,
        settled: bool = False,
    ) -> Answer:
        """Answer an offer that came beside an attempt under `ufrag`.

        `proof` is `attach_proof` of the ticket's password. `hops` is how often the offer was handed
        on, `settled` whether the attempt's owner says that it is ours. Raises what `answer` raises.
        """
        try:
            opened = open_ufrag(ufrag, self._entrance.keyring, now + self._entrance.wall_offset_s)
        except Discard:
            return self._instead(Stale.UNREADABLE, offer, now, policy, context)
        password = opened.password
        if opened.ticket.offer_is_held or not constant_time_equal(
            attach_proof(password, ufrag).encode(), proof.encode()
        ):
            return self._instead(Stale.UNPROVEN, offer, now, policy, context)
        session = self._sessions.find(ufrag)
        if session is None and not settled:
            elsewhere = self._entrance.place(ufrag, hops)
            if elsewhere is not None:
                to, granted = elsewhere
                return Answer(Status.ELSEWHERE, ufrag=ufrag, server=to, settled=granted)
        _require_checkable(offer)
        answer = self._compose(offer, opened, ufrag, password)
        held = HeldOffer(None, offer, context)
        if session is not None:
            self._sessions.attach(session, held, now)
        else:
            why = self._why_not(opened, ufrag)
            if why is not None:
                return self._instead(why, offer, now, policy, context)
            self._require_room()
            self._sessions.held.hold(ufrag, held, now)
        return Answer(Status.ATTACHED, str(answer), ufrag)

    def _why_not(self, opened: Opened, ufrag: str) -> Stale | None:
        """Return why no session will come of an attempt that has none yet, or None."""
        ticket, replay = opened.ticket, self._entrance.replay
        key = attempt_key(ufrag)
        use = replay.look(ticket.id, key, ticket.grant.max_uses)
        if use not in (Use.FIRST, Use.AGAIN):
            return Stale.OVER
        if use is Use.AGAIN or ufrag in self._sessions.held:
            return None  # it was asked about when the first of the two came
        if self._entrance.admission.ask(key, ticket, None) is not Verdict.ADMIT:
            # what comes late of it is absorbed: its client has another session
            replay.burn(ticket.id, ticket.grant.expiry)
            return Stale.NOT_ADMITTED
        return None

    def _compose(
        self, offer: SessionDescription, opened: Opened, ufrag: str, password: str
    ) -> SessionDescription:
        return compose_answer(
            offer,
            self._sessions.materialiser.terms,
            ufrag=ufrag,
            password=password,
            fingerprint=opened.ticket.epoch.certificate.fingerprint(),
            attempt=opened.attempt,
            sctp=server_sctp(password, ufrag) if opened.attempt.sctp is not None else None,
        )

    def _instead(
        self, why: Stale, offer: SessionDescription, now: float, policy: int, context: object
    ) -> Answer:
        self.stale[why] += 1
        return self.answer(offer, now, policy=policy, context=context)


def _require_checkable(offer: SessionDescription) -> None:
    """Raise `InvalidConfig` for what the first datagram's connection would refuse too late."""
    lead = next((m for m in offer.media if not m.rejected), None)
    transport = None if lead is None else offer.transport_of(lead)
    if transport is not None and transport.ufrag and transport.pwd:
        IceCredentials(transport.ufrag, transport.pwd)
    if offer.ice_lite:
        raise InvalidConfig("two lite agents cannot check each other: make the client's side full")


def _identity(offer: SessionDescription) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """Return what a client is known by: its ICE credentials and its certificates."""
    lead = next((m for m in offer.media if not m.rejected), None)
    if lead is None:
        raise SdpError(SdpRule.NOTHING_LEFT)
    transport = offer.transport_of(lead)
    return transport.ufrag, transport.pwd, frozenset(transport.fingerprints)


def _digest(prints: dict[str, str]) -> bytes:
    """Return the SHA-256 fingerprint, or something in its place: what is held says who it is."""
    text = prints.get("sha-256", "")
    try:
        raw = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        raw = b""
    return raw if len(raw) == 32 else hashlib.sha256(repr(sorted(prints)).encode()).digest()
