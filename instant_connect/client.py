"""The calling side: tickets kept for later, an answer written by oneself, and a race of two ways.

    bundle ─▶ Wallet ─ a ticket ─┐
    our offer, our certificate ──┴ compose_call ─▶ answer (applied at once), ufrag, proof
                                                └▶ the same offer or another goes to signalling

    RACING ─ connected, attached ─▶ INSTANT          RACING ─ answered anew ─▶ SIGNALLED

One check then carries the ticket, who we are, and our ClientHello. Nothing waits for signalling;
its answer decides only where the first way cannot. Called by `instant_connect.io`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from instant_connect.attempt import make_attempt
from instant_connect.bundle import Bundle, SealedTicket, parse_bundle
from instant_connect.profile import compose_answer, offered_opus, offered_sctp
from instant_connect.ufrag import attach_proof, compose_ufrag, server_sctp
from warp.crypto import Certificate
from warp.entropy import Entropy
from warp.errors import InvalidConfig
from warp.names import Name
from warp.sdp import parse_description

MARGIN_S: Final = 2.0
"""A ticket that expires sooner is not worth an attempt."""
_FORMAT: Final = 1


class InstantCall(NamedTuple):
    """One attempt: what to apply, and what to say beside the offer."""

    answer: str
    ufrag: str
    proof: str

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers that let the offer join the attempt."""
        return {
            "Instant-Ufrag": self.ufrag,
            "Instant-Proof": self.proof,
        }

    def __repr__(self) -> str:
        return "<InstantCall>"


def compose_call(
    bundle: Bundle, ticket: SealedTicket, offer: str, certificate: Certificate, entropy: Entropy
) -> InstantCall:
    """Return the attempt of a ticket, for a connection whose offer and certificate these are.

    Raises `SdpError` or `InvalidConfig` when the offer has no Opus or nothing else for the
    profile.
    """
    description = parse_description(offer)
    opus = offered_opus(description)
    if opus is None:
        raise InvalidConfig("the offer has no Opus: call by signalling")
    sctp = offered_sctp(description) if bundle.terms.snap else None
    fingerprint = hashlib.sha256(certificate.der).digest()
    attempt = make_attempt(fingerprint, opus, entropy, sctp=sctp)
    ufrag = compose_ufrag(ticket.raw, attempt)
    answer = compose_answer(
        description,
        bundle.terms,
        ufrag=ufrag,
        password=ticket.password,
        fingerprint=bundle.fingerprint,
        attempt=attempt,
        sctp=None if sctp is None else server_sctp(ticket.password, ufrag),
    )
    return InstantCall(str(answer), ufrag, attach_proof(ticket.password, ufrag))


class Wallet:
    """The tickets of one server, each good for one call, and what is known of the way there.

    Times are monotonic seconds: how long a bundle lasts is told by its own two times of the wall,
    so that a client whose clock is wrong does not notice.
    """

    __slots__ = (
        "_bundle",
        "_expires_at",
        "_left",
        "_refresh_at",
        "certificate_made_at",
        "fallback",
        "rtt_s",
    )

    def __init__(self) -> None:
        self._bundle: Bundle | None = None
        self._left: list[SealedTicket] = []
        self._expires_at = 0.0
        self._refresh_at = 0.0
        self.rtt_s: float | None = None
        """Round-trip time of the last call, where one was measured."""
        self.fallback = ""
        """Where offers go, as the last bundle has it; empty: it has not said."""
        self.certificate_made_at: float | None = None
        """When the certificate was made that is kept with it, seconds since 1970; None: unknown."""

    def __len__(self) -> int:
        """How many tickets are left, expired ones too."""
        return len(self._left)

    def put(self, bundle: Bundle, now: float, *, age_s: float = 0.0) -> None:
        """Keep a bundle that was issued `age_s` ago, in place of an earlier one."""
        lifetime = bundle.expires_at - bundle.issued_at - age_s
        self._bundle = bundle
        self.fallback = bundle.fallback
        self._left = list(bundle.tickets)
        self._expires_at = now + lifetime - MARGIN_S
        self._refresh_at = now + min(float(bundle.refresh_after_s), lifetime / 2)

    def take(self, now: float) -> tuple[Bundle, SealedTicket] | None:
        """Return a ticket for one call, or None: then only signalling helps."""
        if self._bundle is None or not self.has_ticket(now):
            return None
        return self._bundle, self._left.pop()

    def has_ticket(self, now: float) -> bool:
        """Tell whether a call can begin by a ticket now: one is left, and has not expired."""
        return bool(self._left) and now < self._expires_at

    def wants_refresh(self, now: float) -> bool:
        """Tell whether it is time for another bundle: none, an old one, or one that was used."""
        bundle = self._bundle
        return bundle is None or now >= self._refresh_at or len(self._left) < len(bundle.tickets)

    def expire(self) -> None:
        """Throw the tickets away: the network has changed, or one of them was refused."""
        self._left.clear()

    def to_text(self, now: float, wall_s: float, certificate: Certificate) -> str:
        """Return what the next launch wants to know, secrets included, as JSON text."""
        kept, key = certificate.to_pem()
        value: dict[str, Any] = {
            "v": _FORMAT,
            "certificate": kept.decode("ascii"),
            "private_key": key.decode("ascii"),
            "certificate_made_at": self.certificate_made_at,
            "rtt_s": self.rtt_s,
            "expires_at": wall_s + self._expires_at - now,
        }
        if self._bundle is not None:
            value["bundle"] = self._bundle.to_json()
            value["left"] = len(self._left)
        return json.dumps(value)


def parse_wallet(text: str, now: float, wall_s: float) -> tuple[Wallet, Certificate]:
    """Read what `Wallet.to_text` wrote. Raises `InvalidConfig`, which names no secret."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidConfig("a wallet is JSON, as Wallet.to_text writes it") from None
    if not isinstance(value, dict) or value.get("v") != _FORMAT:
        raise InvalidConfig(f'a wallet is a JSON object with "v": {_FORMAT}')
    texts = [value.get(name) for name in ("certificate", "private_key")]
    pems = [text.encode() if isinstance(text, str) else b"" for text in texts]
    try:
        certificate = Certificate.from_pem(*pems)
    except ValueError:
        why = "certificate and private_key are not two PEM texts that belong together"
        raise InvalidConfig(f"wallet: {why}") from None
    wallet = Wallet()
    wallet.rtt_s = _seconds(value, "rtt_s")
    wallet.certificate_made_at = _seconds(value, "certificate_made_at") or 0.0
    if "bundle" in value:
        _restore(wallet, value, now, wall_s)
    return wallet, certificate


def _restore(wallet: Wallet, value: Mapping[str, Any], now: float, wall_s: float) -> None:
    bundle, left = parse_bundle(str(value["bundle"])), value.get("left")
    expires_at = _seconds(value, "expires_at")
    if type(left) is not int or not 0 <= left <= len(bundle.tickets) or expires_at is None:
        raise InvalidConfig("wallet: left and expires_at do not fit its bundle")
    lifetime = bundle.expires_at - bundle.issued_at
    # a wall clock that was set back must not make tickets younger than they can be
    remaining = min(expires_at + MARGIN_S - wall_s, float(lifetime))
    wallet.put(bundle, now, age_s=lifetime - remaining)
    del wallet._left[left:]


def _seconds(value: Mapping[str, Any], name: str) -> float | None:
    found = value.get(name)
    if found is None:
        return None
    if type(found) not in (int, float) or not 0 <= found < 1e11:
        raise InvalidConfig(f"wallet: {name} is a number of seconds")
    return float(found)


class RaceState(Name):
    """Which of the two ways the call takes."""

    RACING = "both ways are under way"
    ALONE = "signalling has failed, the first way goes on"
    WAITING = "the first way has come to nothing, signalling decides"
    INSTANT = "the first way"
    SIGNALLED = "signalling's"
    LOST = "neither"


class RaceInput(Name):
    """What happens to either way."""

    CONNECTED = "the first way is connected"
    ATTACHED = "signalling has found the session of the first way, or will"
    NEW = "signalling has answered with another session"
    NO_ANSWER = "signalling has failed"
    ENDED = "the first way has come to nothing"


_R, _I = RaceState, RaceInput
RACE: Final[Mapping[tuple[RaceState, RaceInput], RaceState]] = {
    (_R.RACING, _I.CONNECTED): _R.INSTANT,
    (_R.RACING, _I.ATTACHED): _R.INSTANT,
    (_R.RACING, _I.NEW): _R.SIGNALLED,
    (_R.RACING, _I.NO_ANSWER): _R.ALONE,
    (_R.RACING, _I.ENDED): _R.WAITING,
    (_R.WAITING, _I.NEW): _R.SIGNALLED,
    (_R.WAITING, _I.ATTACHED): _R.LOST,
    (_R.WAITING, _I.NO_ANSWER): _R.LOST,
    (_R.ALONE, _I.CONNECTED): _R.INSTANT,
    (_R.ALONE, _I.ATTACHED): _R.INSTANT,
    (_R.ALONE, _I.NEW): _R.SIGNALLED,
    (_R.ALONE, _I.ENDED): _R.LOST,
}


class Race:
    """Decides between an attempt and its signalling: who is connected is not changed for another.

    A session that signalling offers to a client that is connected is not taken up, and so it
    never begins.
    """

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = RaceState.RACING

    def receive(self, why: RaceInput) -> bool:
        """Take in what has happened; True when the way of the call has changed."""
        state = RACE.get((self.state, why))
        if state is None:
            return False
        self.state = state
        return True
