"""What a peer connection says upward. Channel events come from `warp.datachannel` unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warp.contract import Event, Flow
from warp.errors import WarpError
from warp.peer.states import ConnectionState, SendPermission
from warp.rtp import AudioFrame


@dataclass(frozen=True, slots=True)
class StateChanged(Event):
    """The connection as a whole entered `state`."""

    state: ConnectionState


@dataclass(frozen=True, slots=True)
class FlowAuthenticated(Event):
    """An address has proven that it knows our ICE password: its datagrams are this connection's."""

    flow: Flow


@dataclass(frozen=True, slots=True)
class MediaReady(Event):
    """Audio may be sent, as far as `permission` goes; said again when it grows."""

    permission: SendPermission


@dataclass(frozen=True, slots=True)
class AudioReceived(Event):
    """Frames of the audio section `mid`, in order."""

    mid: str
    frames: Sequence[AudioFrame]


@dataclass(frozen=True, slots=True)
class Terminated(Event):
    """The connection has ended; `error` is None when either side closed it on purpose."""

    error: WarpError | None
