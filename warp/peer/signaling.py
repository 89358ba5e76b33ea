"""Offers and answers over time (RFC 9429 section 3.2): which descriptions hold, what they agree on.

    STABLE ─ local offer ──▶ HAVE_LOCAL_OFFER ─ remote answer ─▶ STABLE
    STABLE ─ remote offer ─▶ HAVE_REMOTE_OFFER ─ local answer ─▶ STABLE        rollback: STABLE

Pure bookkeeping over `warp.sdp`: what follows from an agreement is done by `connection`.
"""

from __future__ import annotations

from warp.errors import Discard, InvalidConfig, InvalidState
from warp.names import Name
from warp.peer.agreed import AgreedDescriptions, agree
from warp.sctp import parse_init
from warp.sdp import (
    LocalDescriptionState,
    Negotiated,
    SdpError,
    SessionDescription,
    SnapNegotiation,
    check_reoffer,
    compare,
    create_answer,
    create_offer,
    negotiate,
    parse_description,
)


class SignalingState(Name):
    """Whose move it is."""

    STABLE = "stable"
    HAVE_LOCAL_OFFER = "have-local-offer"
    HAVE_REMOTE_OFFER = "have-remote-offer"


class Move(Name):
    """What an application does with descriptions."""

    LOCAL_OFFER = "set a local offer"
    REMOTE_OFFER = "set a remote offer"
    LOCAL_ANSWER = "set a local answer"
    REMOTE_ANSWER = "set a remote answer"
    ROLLBACK = "roll back"


_OTHER_ASSOCIATION = "the description asks for another DTLS association: make a new connection"
_UNASKED_RESTART = "the answer restarts ICE, the offer did not (RFC 8839 section 4.4.1.1.1)"
_S = SignalingState
TRANSITIONS: dict[tuple[SignalingState, Move], SignalingState] = {
    (_S.STABLE, Move.LOCAL_OFFER): _S.HAVE_LOCAL_OFFER,
    (_S.HAVE_LOCAL_OFFER, Move.LOCAL_OFFER): _S.HAVE_LOCAL_OFFER,
    (_S.HAVE_LOCAL_OFFER, Move.REMOTE_ANSWER): _S.STABLE,
    (_S.STABLE, Move.REMOTE_OFFER): _S.HAVE_REMOTE_OFFER,
    (_S.HAVE_REMOTE_OFFER, Move.REMOTE_OFFER): _S.HAVE_REMOTE_OFFER,
    (_S.HAVE_REMOTE_OFFER, Move.LOCAL_ANSWER): _S.STABLE,
    (_S.HAVE_LOCAL_OFFER, Move.ROLLBACK): _S.STABLE,
    (_S.HAVE_REMOTE_OFFER, Move.ROLLBACK): _S.STABLE,
}


class Signaling:
    """The descriptions of one connection. `snap` is replaced with a new SCTP generation."""

    __slots__ = ("_local", "_offer", "_remote", "_text", "_written", "negotiated", "snap", "state")

    def __init__(self, snap: SnapNegotiation) -> None:
        self.snap = snap
        self.state = SignalingState.STABLE
        self.negotiated: Negotiated | None = None
        self._local: SessionDescription | None = None
        self._remote: SessionDescription | None = None
        self._offer: SessionDescription | None = None
        self._written: SessionDescription | None = None
        self._text = ""

    @property
    def remote_offer(self) -> SessionDescription | None:
        """The offer that waits for our answer, or None."""
        return self._offer if self.state is SignalingState.HAVE_REMOTE_OFFER else None

    @property
    def local(self) -> SessionDescription | None:
        """Our description that the last agreement was made with, or None."""
        return self._local

    @property
    def remote(self) -> SessionDescription | None:
        """The peer's description that the last agreement was made with, or None."""
        return self._remote

    @property
    def initial(self) -> bool:
        """Whether nothing has been agreed on yet."""
        return self.negotiated is None

    def create_offer(self, local: LocalDescriptionState) -> str:
        """Return an offer of `local`; nothing changes until it is set."""
        if self.state is SignalingState.HAVE_REMOTE_OFFER:
            raise InvalidState("the peer's offer waits for an answer: answer it or roll back")
        self._written = create_offer(
            local, previous=self._local, sctp_init=self.snap.chunk_to_offer()
        )
        self._text = str(self._written)
        return self._text

    def create_answer(self, local: LocalDescriptionState) -> str:
        """Return the answer to the pending remote offer; nothing changes until it is set."""
        offer = self.remote_offer
        if offer is None:
            raise InvalidState("there is no remote offer to answer: set one first")
        init = self.snap.chunk_to_answer() if offer.data_section() is not None else None
        self._written = create_answer(offer, local, previous=self._local, sctp_init=init)
        self._text = str(self._written)
        return self._text

    def set_local(self, kind: str, text: str) -> Negotiated | None:
        """Apply our own description as written; an answer returns what is now agreed on.

        Raises `InvalidState` when the text is not the last one created, in the parts that count.
        """
        move = Move.LOCAL_OFFER if kind == "offer" else Move.LOCAL_ANSWER
        self._check(kind, move)
        written = self._written
        if written is None or self._text != text:
            given = parse_description(text)
            self._refuse_munging(written, given)
            written = given
        self._text = ""
        if move is Move.LOCAL_OFFER:
            self._offer = written
            self._become(move)
            return None
        return self._agree(written, self._offer, move, is_offerer=False)

    def set_remote(self, kind: str, text: str) -> Negotiated | None:
        """Apply the peer's description; an answer returns what is now agreed on.

        Raises `warp.sdp.SdpError` naming line and rule; nothing has changed then.
        """
        move = Move.REMOTE_OFFER if kind == "offer" else Move.REMOTE_ANSWER
        self._check(kind, move)
        description = parse_description(text)
        if move is Move.REMOTE_OFFER:
            if self._remote is not None:
                check_reoffer(self._remote, description, self._local)
            self._refuse_other_identity(description)
            if description.data_section() is not None:
                self.snap.receive_offer(_usable_init(description))
            self._offer = description
            self._become(move)
            return None
        return self._agree(self._offer, description, move, is_offerer=True)

    def accept_agreed(self, agreed: AgreedDescriptions) -> None:
        """Take descriptions that were exchanged elsewhere as those in force."""
        if agreed.negotiated.data is not None:
            self.snap.receive_offer(_usable_init(agreed.remote))
            self.snap.chunk_to_answer()
        self._local, self._remote, self.negotiated = agreed

    def amend_remote(self, offer: SessionDescription) -> bool:
        """Replace the stand-in that was agreed on by the peer's offer itself.

        False, and nothing has changed, when that is the offer of something else: of other
        sections, credentials or certificates. What was agreed on stays as it is.
        """
        stand_in, answer, before = self._remote, self._local, self.negotiated
        if stand_in is None or answer is None or before is None or before.transport.pwd:
            return False
        shapes = [[(m.kind, m.mid, m.rejected) for m in d.media] for d in (stand_in, offer)]
        if shapes[0] != shapes[1]:
            return False
        try:
            transport = agree(answer, offer).negotiated.transport
        except SdpError:
            return False
        known = before.transport
        if transport.ufrag != known.ufrag or transport.fingerprints != known.fingerprints:
            return False
        self._remote = offer
        self.negotiated = before._replace(transport=transport)
        return True

    def rollback(self) -> None:
        """Withdraw the pending offer, ours or the peer's."""
        if (self.state, Move.ROLLBACK) not in TRANSITIONS:
            raise InvalidState("there is no pending offer to roll back")
        self._offer = None
        self.snap.rollback()
        self._become(Move.ROLLBACK)

    def _agree(
        self,
        local: SessionDescription | None,
        remote: SessionDescription | None,
        move: Move,
        *,
        is_offerer: bool,
    ) -> Negotiated:
        if local is None or remote is None:
            raise InvalidState("there is no pending offer")
        agreed = negotiate(local, remote, is_offerer=is_offerer)
        if self.negotiated is not None:
            changes = compare(self.negotiated, agreed)
            if changes.dtls_replaced:
                raise InvalidState(_OTHER_ASSOCIATION)
            if is_offerer and changes.ice_restarted and _ufrags(local) == _ufrags(self._local):
                raise InvalidState(_UNASKED_RESTART)
        if is_offerer and agreed.data is not None:
            self.snap.receive_answer(_usable_init(remote))
        self._local, self._remote, self._offer = local, remote, None
        self._written = None
        self.negotiated = agreed
        self._become(move)
        return agreed

    def _refuse_other_identity(self, offer: SessionDescription) -> None:
        """Refuse an offer that wants another DTLS association (RFC 8842 section 5.5), in time."""
        if self.negotiated is None:
            return
        known = set(self.negotiated.transport.fingerprints)
        for section in offer.media:
            prints = section.transport.fingerprints
            if not section.rejected and prints and set(prints) != known:
                raise InvalidState(_OTHER_ASSOCIATION)

    def _refuse_munging(
        self, written: SessionDescription | None, given: SessionDescription
    ) -> None:
        section = given.data_section()
        self.snap.check_local(section.sctp.init if section and section.sctp else None)
        if written is None:
            raise InvalidState("create the description with create_offer or create_answer first")
        ours = [m.transport._replace(candidates=(), end_of_candidates=False) for m in written.media]
        theirs = [m.transport._replace(candidates=(), end_of_candidates=False) for m in given.media]
        for ours_one, given_one in zip(ours, theirs, strict=False):
            if given_one._replace(setup=ours_one.setup) != ours_one:
                raise InvalidState("the ICE and DTLS lines of a local description may not change")

    def _check(self, kind: str, move: Move) -> None:
        if kind not in ("offer", "answer"):
            raise InvalidConfig(f"a description is an 'offer' or an 'answer', not {kind!r}")
        if (self.state, move) not in TRANSITIONS:
            raise InvalidState(f"cannot {move.value} in state {self.state.value}")

    def _become(self, why: Move) -> None:
        self.state = TRANSITIONS[self.state, why]


def _ufrags(description: SessionDescription | None) -> set[str]:
    return (
        {m.transport.ufrag for m in description.media if m.transport.ufrag}
        if description
        else set()
    )


def _usable_init(description: SessionDescription) -> bytes | None:
    """Return the sctp-init that is a valid INIT chunk (RFC 9260 section 3.3.2), or None."""
    section = description.data_section()
    init = section.sctp.init if section is not None and section.sctp is not None else None
    if init is None:
        return None
    try:
        parse_init(init)
    except (Discard, ValueError):
        return None
    return init
