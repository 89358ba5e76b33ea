"""What two INITs make: the numbers that both sides start with (draft-hancke-tsvwg-snap section 6).

Used with the INITs of the descriptions (no packet is exchanged), and with those of the ordinary
handshake, which end in the same agreement.
"""

from __future__ import annotations

from operator import and_
from typing import NamedTuple

from warp.sctp.init_chunk import Capabilities, InitChunk


class Agreement(NamedTuple):
    """Tags, first TSNs, window, streams and features of an association."""

    local_tag: int
    peer_tag: int
    local_tsn: int
    peer_tsn: int
    peer_rwnd: int
    outbound_streams: int
    inbound_streams: int
    shared: Capabilities
    """What both sides announced, in what they signalled; a config changed later has no say."""


def agree(local: InitChunk, remote: InitChunk) -> Agreement:
    """Return what `local` (our INIT) and `remote` (the peer's INIT or INIT ACK) amount to."""
    ours, theirs = local.capabilities, remote.capabilities
    return Agreement(
        local_tag=local.initiate_tag,
        peer_tag=remote.initiate_tag,
        local_tsn=local.initial_tsn,
        peer_tsn=remote.initial_tsn,
        peer_rwnd=remote.a_rwnd,
        outbound_streams=min(local.outbound_streams, remote.inbound_streams),
        inbound_streams=min(local.inbound_streams, remote.outbound_streams),
        shared=ours if ours == theirs else Capabilities(*map(and_, ours, theirs)),
    )


def is_echo(local: InitChunk, remote: InitChunk) -> bool:
    """Tell whether the peer merely copied our value into its description.

    Peers that answer with attributes they do not know have done this; such a peer does not speak
    SNAP and waits for an ordinary INIT.
    """
    return local.initiate_tag == remote.initiate_tag
