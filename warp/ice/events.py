"""What an ICE agent says upward."""

from __future__ import annotations

from dataclasses import dataclass

from warp.contract import Event, Flow
from warp.errors import PathError
from warp.ice.candidate import Candidate
from warp.names import Name


class IceState(Name):
    """Where an agent stands (the shape of W3C's RTCIceTransportState)."""

    NEW = "new"
    CHECKING = "checking"
    CONNECTED = "connected"
    """A flow works, none is nominated yet."""
    COMPLETED = "completed"
    """A pair is selected."""
    DISCONNECTED = "disconnected"
    """The flow in use has gone quiet; may recover by itself."""
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class FlowAuthenticated(Event):
    """The first request with the right password came on this flow: it is usable for sending."""

    flow: Flow


@dataclass(frozen=True, slots=True)
class PairValidated(Event):
    """Our own check on this flow was answered."""

    flow: Flow
    rtt_s: float


@dataclass(frozen=True, slots=True)
class PairSelected(Event):
    """This flow is nominated and in use from now on."""

    flow: Flow


@dataclass(frozen=True, slots=True)
class RemoteCandidateLearned(Event):
    """A peer-reflexive remote candidate was seen (RFC 8445 section 7.3.1.3)."""

    candidate: Candidate


@dataclass(frozen=True, slots=True)
class StateChanged(Event):
    """The agent moved to another state."""

    state: IceState


@dataclass(frozen=True, slots=True)
class Terminated(Event):
    """No path is left: `NoPath` or `ConsentLost`. An ICE restart may still bring one."""

    error: PathError
