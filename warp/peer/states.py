"""The states of a peer connection, and what each of them permits."""

from __future__ import annotations

import enum

from warp.names import Name


class ConnectionState(Name):
    """The connection as a whole (the shape of W3C's RTCPeerConnectionState)."""

    NEW = "new"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    CLOSED = "closed"
    FAILED = "failed"


class Input(Name):
    """What moves the connection from state to state."""

    STARTED = "started"
    AUTHENTICATED = "authenticated"
    CLOSED = "closed"
    FAILED = "failed"


ENDED = (ConnectionState.CLOSED, ConnectionState.FAILED)

TRANSITIONS: dict[tuple[ConnectionState, Input], ConnectionState] = {
    (ConnectionState.NEW, Input.STARTED): ConnectionState.CONNECTING,
    (ConnectionState.CONNECTING, Input.AUTHENTICATED): ConnectionState.CONNECTED,
    **{
        (state, Input.CLOSED): ConnectionState.CLOSED
        for state in ConnectionState
        if state not in ENDED
    },
    **{
        (state, Input.FAILED): ConnectionState.FAILED
        for state in ConnectionState
        if state not in ENDED
    },
}


class SendPermission(enum.IntEnum):
    """Who may hear us: nobody yet, whoever holds our ICE password, or the authenticated peer."""

    NONE = 0
    NON_PERSONAL = 1
    ALL = 2
