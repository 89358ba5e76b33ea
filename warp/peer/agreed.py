"""Descriptions that were exchanged before there was a connection, as values.

    offer, answer ─ agree ─▶ AgreedDescriptions ─▶ PeerConnection.accept_agreed

A server that holds nothing for a client until its first datagram comes has answered it long ago,
or never saw its offer at all. Everything that our answer names is taken from it: credentials,
INIT chunk, source, session id.
"""

from __future__ import annotations

from typing import NamedTuple

from warp.ice import IceCredentials
from warp.sctp import InitChunk, parse_init
from warp.sdp import Negotiated, SessionDescription, Source, negotiate


class AgreedDescriptions(NamedTuple):
    """Our answer, the offer that it answers, and what they agree on.

    The offer may be a stand-in: an empty `negotiated.transport.pwd` says that the peer's password
    is not known. Then any ufrag of the peer's is taken, and only an agent that is lite can do
    without the password.
    """

    local: SessionDescription
    remote: SessionDescription
    negotiated: Negotiated

    @property
    def credentials(self) -> IceCredentials:
        """Our credentials, as the answer says them."""
        section = next(m for m in self.local.media if not m.rejected)
        transport = self.local.transport_of(section)
        return IceCredentials(transport.ufrag, transport.pwd)

    @property
    def local_init(self) -> InitChunk | None:
        """Our INIT chunk, where the answer says one (SNAP)."""
        data = self.negotiated.data
        return None if data is None or data.local_init is None else parse_init(data.local_init)

    @property
    def source(self) -> Source | None:
        """The source that the answer announces, or None."""
        return next((m.sources[0] for m in self.local.media if m.sources), None)


def agree(answer: SessionDescription, offer: SessionDescription) -> AgreedDescriptions:
    """Return what our answer to the peer's offer agrees on; raises `SdpError` where it is none."""
    return AgreedDescriptions(answer, offer, negotiate(answer, offer, is_offerer=False))
