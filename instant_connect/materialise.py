"""A connection out of a first datagram: ticket and attempt say what offer and answer would have.

    Opened ─▶ stand-in offer ─▶ composed answer ─┐
    offer held from signalling, our answer ──────┴─▶ agreement ─▶ PeerConnection (lite, passive)

Deterministic: the same ufrag and entropy make the same connection, byte for byte. DTLS accepts only
the certificate of the attempt; a connection has the certificate of its ticket's epoch. Nothing of
it is text. Called by `sessions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from instant_connect.profile import Terms, compose_answer, stand_in_offer
from instant_connect.ufrag import Opened, server_sctp
from warp.entropy import Entropy
from warp.ice import IceCredentials
from warp.peer import AgreedDescriptions, PeerConfig, PeerConnection, agree
from warp.trace import Trace


class Materialiser:
    """What the sessions of one server have in common. `config` may be replaced."""

    __slots__ = ("_draw_credentials", "_entropy", "_keylog", "_trace", "config", "terms")

    def __init__(
        self,
        config: PeerConfig,
        terms: Terms,
        entropy: Entropy,
        *,
        trace: Trace | None = None,
        keylog: Callable[[str], object] | None = None,
        draw_credentials: Callable[[], IceCredentials] | None = None,
    ) -> None:
        """`draw_credentials` makes those of ICE restarts."""
        self._draw_credentials = draw_credentials
        self.set_config(config)
        self.terms = terms
        self._entropy = entropy
        self._trace = trace
        self._keylog = keylog

    def set_config(self, config: PeerConfig) -> None:
        """Use `config`, as far as the profile leaves a choice."""
        self.config = replace(config, lite=True, passive=True, audio=True, data=True)

    def materialise(
        self,
        opened: Opened,
        ufrag: str,
        client_ufrag: str,
        now: float,
        *,
        held: AgreedDescriptions | None = None,
    ) -> PeerConnection:
        """Return the connection of a ufrag, ready for its first check.

        `held` is what was agreed on when its offer was answered; without one the profile says.
        """
        agreed = held or self.agree(opened, ufrag, client_ufrag)
        peer = PeerConnection(
            self.config,
            certificate=opened.ticket.epoch.certificate,
            entropy=self._entropy,
            trace=self._trace,
            keylog=self._keylog,
            agreed=agreed,
            draw_credentials=self._draw_credentials,
        )
        for candidate in self.terms.candidates:
            peer.add_local_candidate(candidate, now)
        peer.accept_agreed(agreed, now)
        return peer

    def agree(self, opened: Opened, ufrag: str, client_ufrag: str) -> AgreedDescriptions:
        """Return what the profile makes of an attempt."""
        attempt, password = opened.attempt, opened.password
        offer = stand_in_offer(attempt, client_ufrag)
        answer = compose_answer(
            offer,
            self.terms,
            ufrag=ufrag,
            password=password,
            fingerprint=opened.ticket.epoch.certificate.fingerprint(),
            attempt=attempt,
            sctp=server_sctp(password, ufrag) if attempt.sctp is not None else None,
        )
        agreed = agree(answer, offer)
        # a lite agent has no use for the client's password, also where the attempt says it
        transport = agreed.negotiated.transport._replace(pwd="")
        return agreed._replace(negotiated=agreed.negotiated._replace(transport=transport))
