"""The peers that the matrix knows, by the names that the command line uses."""

from __future__ import annotations

from interop.peers.browsers import CHROMIUM, FIREFOX
from interop.peers.node import LIBDATACHANNEL, WERIFT
from interop.peers.peer import PeerKind
from interop.peers.pion import PION, PION_NEXT
from interop.peers.programs_in_python import AIORTC, LIBWEBRTC, OURS
from interop.peers.str0m import STR0M

__all__ = ["KINDS", "OURS"]

_ALL: tuple[PeerKind, ...] = (
    OURS,
    CHROMIUM,
    FIREFOX,
    LIBWEBRTC,
    PION,
    PION_NEXT,
    AIORTC,
    LIBDATACHANNEL,
    WERIFT,
    STR0M,
)
KINDS: dict[str, PeerKind] = {kind.name: kind for kind in _ALL}
