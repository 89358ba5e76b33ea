"""Peers of the matrix: other people's WebRTC, each behind the same few verbs.

kind = KINDS["aiortc"]
async with kind.run(wants) as running:   ─▶ a process of its own, ended by its id
    peer = await running.create(config)  ─▶ offer, answer, accept, send, receive, say, heard, close
"""

from __future__ import annotations

from interop.peers.kinds import KINDS, OURS
from interop.peers.peer import (
    Announced,
    Capability,
    ChannelOptions,
    Lack,
    Peer,
    PeerAbsent,
    PeerConfig,
    PeerError,
    PeerKind,
    RunningPeer,
    Wants,
)

__all__ = [
    "KINDS",
    "OURS",
    "Announced",
    "Capability",
    "ChannelOptions",
    "Lack",
    "Peer",
    "PeerAbsent",
    "PeerConfig",
    "PeerError",
    "PeerKind",
    "RunningPeer",
    "Wants",
]
