"""Where a DTLS connection stands, and how it gets there. Called by the connection.

IDLE ─ start ─▶ HANDSHAKING ─ complete ─▶ UNVERIFIED ─ fingerprint matches ─▶ CONNECTED
                    └───────────── close, fail ─────────────┴─▶ CLOSED, FAILED
"""

from __future__ import annotations

from typing import Final

from warp.names import Name


class DtlsState(Name):
    """Where a connection stands."""

    IDLE = "not started"
    HANDSHAKING = "handshaking"
    UNVERIFIED = "complete, but the peer's fingerprint is not known yet"
    CONNECTED = "connected"
    CLOSED = "closed"
    FAILED = "failed"


class DtlsInput(Name):
    """What moves a connection on."""

    START = "started"
    COMPLETE = "both Finished are in place"
    VERIFY = "the peer is who it should be"
    CLOSE = "closed"
    FAIL = "failed"


_S: Final = DtlsState
_LIVE: Final = (_S.IDLE, _S.HANDSHAKING, _S.UNVERIFIED, _S.CONNECTED)

OVER: Final = (_S.CLOSED, _S.FAILED)
"""Nothing can be sent any more."""

TRANSITIONS: Final[dict[tuple[DtlsState, DtlsInput], DtlsState]] = {
    (_S.IDLE, DtlsInput.START): _S.HANDSHAKING,
    (_S.HANDSHAKING, DtlsInput.COMPLETE): _S.UNVERIFIED,
    (_S.UNVERIFIED, DtlsInput.VERIFY): _S.CONNECTED,
    **{(state, DtlsInput.CLOSE): _S.CLOSED for state in _LIVE},
    **{(state, DtlsInput.FAIL): _S.FAILED for state in _LIVE},
}
