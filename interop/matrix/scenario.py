"""What a scenario is: everything about one call that can be said without code."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from interop.peers.peer import Capability, Wants
from warp.io import WarpOptions

RTT_S = 0.04
"""The round trip of a path on which nothing is measured."""
MEASURED_RTT_S = 0.1


class Used(enum.StrEnum):
    """What a start has to have used, by what our end and the wire say of it."""

    DTLS13 = "DTLS 1.3"
    DTLS12 = "DTLS 1.2"
    HYBRID = "X25519MLKEM768"
    CLASSICAL = "no hybrid group"
    SPED = "SPED"
    NO_SPED = "no SPED"
    SNAP = "SNAP"
    NO_SNAP = "no SNAP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row of the matrix."""

    name: str
    group: str
    play: str
    """What is done in the call: a name in `interop.matrix.plays`."""
    needs: tuple[Capability, ...] = ()
    core: bool = False
    """Whether the tests play it, with every peer; the matrix plays all."""
    peer_offers: bool = True
    lite: bool = True
    """Our ICE when we answer; who offers is a full agent."""
    passive: bool = True
    """Our DTLS role when we answer."""
    setup: str | None = None
    """The peer's role when it answers; None: its own choice."""
    ours: WarpOptions = field(default_factory=WarpOptions)
    wants: Wants = field(default_factory=Wants)
    used: tuple[Used, ...] = ()
    audio: bool = False
    video: bool = False
    """Whether the peer offers video besides, which we refuse."""
    rtt_s: float = RTT_S
    loss: float = 0.0
    """The share of datagrams that is lost, each way."""
    not_above: str | None = None
    """The scenario of the same peer's, with as many round trips as this one may take."""
    as_reference: bool = False
    """Whether it may take as many round trips as two of our own."""
    tries: int = 1
    """Starts of which the least costly counts: a busy machine can only add to them."""
    count: int = 1
    """How many starts, messages or seconds; the play knows which."""
    pad: int = 0
    """How many bytes longer than their numbers messages of a flood are."""
    limit_s: float = 60.0
