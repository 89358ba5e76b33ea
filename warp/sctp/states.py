"""The states of an association and what leads from one to the next (RFC 9260 section 4).

NEW ──▶ COOKIE_WAIT ──▶ COOKIE_ECHOED ──▶ ESTABLISHED ──▶ SHUTDOWN_* ──▶ CLOSED
 └───────────────── SNAP ────────────────────▲
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warp.names import Name


class State(Name):
    """Where an association stands. NEW precedes CLOSED: nothing has been started yet."""

    NEW = "new"
    COOKIE_WAIT = "cookie-wait"
    COOKIE_ECHOED = "cookie-echoed"
    ESTABLISHED = "established"
    SHUTDOWN_PENDING = "shutdown-pending"
    SHUTDOWN_SENT = "shutdown-sent"
    SHUTDOWN_RECEIVED = "shutdown-received"
    SHUTDOWN_ACK_SENT = "shutdown-ack-sent"
    CLOSED = "closed"


class Input(Name):
    """What moves an association."""

    INIT_SENT = "INIT sent"
    SNAP_AGREED = "both INITs were signalled"
    INIT_ACK = "INIT ACK received"
    COOKIE_ECHO = "valid COOKIE ECHO received"
    COOKIE_ACK = "COOKIE ACK received"
    STALE_COOKIE = "peer finds our cookie too old"
    RESTART = "the peer starts anew"
    CLOSE = "close asked for"
    DRAINED = "everything sent is acknowledged"
    SHUTDOWN = "SHUTDOWN received"
    SHUTDOWN_ACK = "SHUTDOWN ACK received"
    SHUTDOWN_COMPLETE = "SHUTDOWN COMPLETE received"
    END = "closed before it was established"


TRANSITIONS: Final[Mapping[tuple[State, Input], State]] = {
    (State.NEW, Input.INIT_SENT): State.COOKIE_WAIT,
    (State.NEW, Input.SNAP_AGREED): State.ESTABLISHED,
    (State.COOKIE_WAIT, Input.INIT_ACK): State.COOKIE_ECHOED,
    (State.COOKIE_WAIT, Input.COOKIE_ECHO): State.ESTABLISHED,
    (State.COOKIE_ECHOED, Input.COOKIE_ECHO): State.ESTABLISHED,
    (State.COOKIE_ECHOED, Input.COOKIE_ACK): State.ESTABLISHED,
    (State.COOKIE_ECHOED, Input.STALE_COOKIE): State.COOKIE_WAIT,
    (State.ESTABLISHED, Input.CLOSE): State.SHUTDOWN_PENDING,
    (State.ESTABLISHED, Input.RESTART): State.ESTABLISHED,
    (State.SHUTDOWN_PENDING, Input.RESTART): State.SHUTDOWN_PENDING,
    (State.SHUTDOWN_SENT, Input.RESTART): State.SHUTDOWN_PENDING,
    (State.SHUTDOWN_RECEIVED, Input.RESTART): State.ESTABLISHED,
    (State.SHUTDOWN_PENDING, Input.DRAINED): State.SHUTDOWN_SENT,
    (State.ESTABLISHED, Input.SHUTDOWN): State.SHUTDOWN_RECEIVED,
    (State.SHUTDOWN_PENDING, Input.SHUTDOWN): State.SHUTDOWN_RECEIVED,
    (State.SHUTDOWN_RECEIVED, Input.DRAINED): State.SHUTDOWN_ACK_SENT,
    (State.SHUTDOWN_SENT, Input.SHUTDOWN): State.SHUTDOWN_ACK_SENT,
    (State.SHUTDOWN_SENT, Input.SHUTDOWN_ACK): State.CLOSED,
    (State.SHUTDOWN_ACK_SENT, Input.SHUTDOWN_ACK): State.CLOSED,
    (State.SHUTDOWN_ACK_SENT, Input.SHUTDOWN_COMPLETE): State.CLOSED,
} | {(state, Input.END): State.CLOSED for state in State if state is not State.CLOSED}

RUNNING: Final = frozenset(
    (
        State.ESTABLISHED,
        State.SHUTDOWN_PENDING,
        State.SHUTDOWN_SENT,
        State.SHUTDOWN_RECEIVED,
        State.SHUTDOWN_ACK_SENT,
    )
)
"""Both tags are known, both halves exist."""
ACCEPTS_MESSAGES: Final = frozenset(
    (State.NEW, State.COOKIE_WAIT, State.COOKIE_ECHOED, State.ESTABLISHED)
)
"""The application may send; before ESTABLISHED its messages wait."""
