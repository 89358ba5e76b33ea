"""The orderly end of an association (RFC 9260 section 9.2).

    close ──(all acked)──▶ SHUTDOWN ──▶ peer drains ──▶ SHUTDOWN ACK ──▶ SHUTDOWN COMPLETE

The association keeps the state; this organ knows which chunk each state repeats, and its timers.
"""

from __future__ import annotations

from warp.sctp.chunks import ChunkType, encode_chunk, encode_tsn
from warp.sctp.config import SctpConfig
from warp.sctp.retransmission import SctpTimer
from warp.sctp.rto import Rto
from warp.sctp.sack import MASK32
from warp.sctp.states import State
from warp.timers import TimerTable


class Shutdown:
    """T2, T5 and the chunks that they repeat."""

    __slots__ = ("_deadline_s", "_rto", "_timers")

    def __init__(self, config: SctpConfig, rto: Rto, timers: TimerTable[SctpTimer]) -> None:
        self._deadline_s = config.shutdown_deadline_s
        self._rto = rto
        self._timers = timers

    def begin(self, now: float) -> None:
        """The end has been asked for: it must not last for ever (T5)."""
        if self._timers.deadline(SctpTimer.SHUTDOWN_GUARD) is None:
            self._timers.arm(SctpTimer.SHUTDOWN_GUARD, now + self._deadline_s)

    def is_next(self, state: State, *, drained: bool) -> bool:
        """Tell whether the state waits for nothing but the last acknowledgement."""
        return drained and state in (State.SHUTDOWN_PENDING, State.SHUTDOWN_RECEIVED)

    def chunk(self, state: State, cumulative_tsn: int, now: float) -> bytes | None:
        """Return what this state sends, now and whenever T2 expires."""
        if state is State.SHUTDOWN_SENT:
            body = encode_tsn(cumulative_tsn & MASK32)
            chunk = encode_chunk(ChunkType.SHUTDOWN, 0, body)
        elif state is State.SHUTDOWN_ACK_SENT:
            chunk = encode_chunk(ChunkType.SHUTDOWN_ACK, 0)
        else:
            return None
        self._timers.arm(SctpTimer.SHUTDOWN, now + self._rto.current_s)
        return chunk
