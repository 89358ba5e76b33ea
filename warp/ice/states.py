"""The agent's states as one table (the shape of W3C's RTCIceTransportState)."""

from __future__ import annotations

from warp.ice.events import IceState
from warp.names import Name


class Input(Name):
    """What moves an agent from state to state."""

    STARTED = "started"
    PATH_USABLE = "a path works"
    PATH_SELECTED = "a path is selected"
    PATH_QUIET = "the path in use has gone quiet"
    PATH_GONE = "no path is in use"
    CONSENT_LOST = "consent has expired"
    EXHAUSTED = "every pair has failed"
    RESTARTED = "restarted"
    CLOSED = "closed"


_S = IceState
_BEFORE = (_S.NEW, _S.CHECKING)
_AFTER = (_S.CONNECTED, _S.COMPLETED, _S.DISCONNECTED)

TRANSITIONS: dict[tuple[IceState, Input], IceState] = {
    (_S.NEW, Input.STARTED): _S.CHECKING,
    **{(state, Input.PATH_USABLE): _S.CONNECTED for state in (*_BEFORE, *_AFTER)},
    **{(state, Input.PATH_SELECTED): _S.COMPLETED for state in (*_BEFORE, *_AFTER)},
    **{(state, Input.PATH_QUIET): _S.DISCONNECTED for state in (*_BEFORE, *_AFTER)},
    # before a first path there is nothing to lose
    **{(state, Input.PATH_GONE): _S.DISCONNECTED for state in _AFTER},
    **{(state, Input.CONSENT_LOST): _S.FAILED for state in (*_BEFORE, *_AFTER)},
    **{(state, Input.EXHAUSTED): _S.FAILED for state in (*_BEFORE, *_AFTER)},
    **{(state, Input.RESTARTED): _S.CHECKING for state in (_S.CHECKING, *_AFTER, _S.FAILED)},
    **{(state, Input.CLOSED): _S.CLOSED for state in _S if state is not _S.CLOSED},
}
"""An agent stays where it is for every other input."""
