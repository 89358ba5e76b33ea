"""States and all but the data path: handshake, reset, heartbeat, shutdown, errors (RFC 9260).

`Association` builds on this class and adds the verbs. One method a chunk type, one a timer, in
protocol order; `_become` is the only place that changes the state.

    INIT ─▶ INIT ACK ─▶ COOKIE ECHO ─▶ COOKIE ACK ─▶ (running) ─▶ SHUTDOWN ─▶ ACK ─▶ COMPLETE
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from warp.contract import Event
from warp.entropy import Entropy
from warp.errors import AssociationLost, Discard, InternalError, PeerMisbehaved, WarpError
from warp.sctp.chunks import (
    ChunkType,
    ForwardTsn,
    Sack,
    encode_chunk,
    parse_forward_tsn,
    parse_i_forward_tsn,
    parse_tsn,
)
from warp.sctp.complaints import (
    abort_chunk,
    missing_cookie_chunk,
    stale_cookie_chunk,
    unrecognized_chunk,
)
from warp.sctp.config import SctpConfig
from warp.sctp.events import Established, PeerAborted, Restarted, Terminated
from warp.sctp.handshake import CookieMeaning, Handshake
from warp.sctp.heartbeat import Path
from warp.sctp.inbound import Inbound
from warp.sctp.init_chunk import InitChunk, parse_init_body
from warp.sctp.outbound import SendQueue
from warp.sctp.packet import COMMON_HEADER_SIZE, Outbox
from warp.sctp.parameters import Cause, parse_causes
from warp.sctp.reasons import SctpDiscard, SctpRule
from warp.sctp.reconfig import Reconfig
from warp.sctp.retransmission import SctpTimer, Transmission
from warp.sctp.shutdown import Shutdown
from warp.sctp.snap import Agreement
from warp.sctp.states import RUNNING, TRANSITIONS, Input, State
from warp.timers import TimerTable
from warp.trace import Trace

_STOP: Final = 0x80
_REPORT: Final = 0x40
"""Top bits of an unknown chunk type: without 0x80 the packet ends here, 0x40 wants an ERROR."""


class Control:
    """The organs of an association, and how they answer what is not data."""

    __slots__ = (
        "_events",
        "_handshake",
        "_inbound",
        "_local_tag",
        "_outbox",
        "_path",
        "_queue",
        "_reconfig",
        "_timers",
        "_trace",
        "_transmission",
        "config",
        "discards",
        "state",
    )

    def __init__(
        self,
        config: SctpConfig,
        *,
        local_init: InitChunk | None,
        entropy: Entropy,
        trace: Trace | None = None,
    ) -> None:
        """Make an association that waits; `local_init` is the INIT our description carries."""
        self.config = config
        self.state = State.NEW
        self.discards: dict[SctpDiscard, int] = {}
        """How many packets or chunks were thrown away, by reason."""
        self._trace = trace
        self._events: list[Event] = []
        self._timers: TimerTable[SctpTimer] = TimerTable()
        self._outbox = Outbox(config.port, config.remote_port, config.mtu)
        self._handshake = Handshake(config, entropy)
        self._handshake.local = local_init
        self._local_tag = 0
        self._queue = SendQueue()
        self._path = Path(config, entropy, self._timers)
        self._reconfig: Reconfig | None = None
        self._transmission: Transmission | None = None
        self._inbound: Inbound | None = None

    # -- states

    def _become(self, cause: Input, now: float, why: str = "") -> None:
        state = TRANSITIONS.get((self.state, cause))
        if state is None:
            raise InternalError(f"{cause.value} in state {self.state.value}")
        if self._trace is not None:
            data = {"old": self.state.value, "new": state.value, "why": why or cause.value}
            self._trace.emit(now, "sctp:state_changed", data)
        self.state = state

    def _require(self, cause: Input) -> None:
        if (self.state, cause) not in TRANSITIONS:
            raise Discard(SctpDiscard.UNEXPECTED_CHUNK, f"{cause.value} in {self.state.value}")

    def _establish(
        self, agreement: Agreement, now: float, *, first_heartbeat_s: float | None = None
    ) -> None:
        """Build both halves; the state is ESTABLISHED already."""
        config, shared = self.config, agreement.shared
        self._handshake.adopt(agreement)
        self._local_tag = agreement.local_tag
        self._outbox.set_tag(agreement.peer_tag, zero_checksum=shared.zero_checksum)
        self._queue.set_interleaving(shared.interleaving)
        self._inbound = Inbound(
            peer_tsn=agreement.peer_tsn,
            streams=agreement.inbound_streams,
            a_rwnd=config.a_rwnd,
            interleaving=shared.interleaving,
            outbox=self._outbox,
        )
        self._transmission = Transmission(
            config, agreement, queue=self._queue, rto=self._path.rto, timers=self._timers
        )
        if self._reconfig is not None:
            self._reconfig.start(agreement)
        self._path.start(now, first_s=first_heartbeat_s)

    def _resets(self) -> Reconfig:
        """Return the organ for stream resets, made when the first is asked for."""
        reconfig = self._reconfig
        if reconfig is None:
            reconfig = Reconfig(self._queue, self._path.rto, self._timers, self._events)
            self._reconfig = reconfig
            if self._handshake.agreement is not None:
                reconfig.start(self._handshake.agreement)
        return reconfig

    @property
    def _shutdown(self) -> Shutdown:
        """The organ for an orderly end; it keeps nothing itself."""
        return Shutdown(self.config, self._path.rto, self._timers)

    def _announce(self, agreement: Agreement) -> None:
        self._events.append(Established(agreement.outbound_streams, agreement.inbound_streams))

    def _abort(self, cause: Cause, detail: str, now: float) -> None:
        """Put ABORT on the way, instead of whatever has not left yet."""
        self._outbox.clear()
        if self._handshake.agreement is not None:
            self._outbox.add(abort_chunk(cause, detail, self.config.mtu))
            self._outbox.flush()

    def _end(self, error: WarpError | None, now: float, cause: Input = Input.END) -> None:
        """Close for good: no timer runs, nothing is kept but messages not yet taken."""
        self._become(cause, now, "" if error is None else str(error))
        self._timers.cancel_all()
        self._transmission = None
        self._queue = SendQueue()
        self._handshake.take_early()
        self._events.append(Terminated(error))

    def _count(self, discard: Discard, now: float) -> None:
        reason = discard.reason
        if isinstance(reason, SctpDiscard):
            self.discards[reason] = self.discards.get(reason, 0) + 1
        if self._trace is not None:
            self._trace.emit(now, "sctp:discarded", {"reason": str(discard)})

    # -- chunks, in protocol order

    def _receive_control(self, kind: int, flags: int, body: bytes, now: float) -> bool:
        """Take in a chunk that is not data; tell whether the packet's next is worth a look."""
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, flags, body, now)
            return self.state is not State.CLOSED
        if kind & _REPORT:
            self._outbox.add_control(unrecognized_chunk(kind, flags, body, self.config.mtu))
        self._count(Discard(SctpDiscard.UNKNOWN_CHUNK, f"type {kind}"), now)
        return bool(kind & _STOP)

    def _send_init(self, now: float) -> None:
        chunk = self._handshake.begin()
        local = self._handshake.local
        if local is not None:
            self._local_tag = local.initiate_tag
            self._outbox.accepts_zero = local.capabilities.zero_checksum
        self._outbox.add_packet(0, chunk)
        self._timers.arm(SctpTimer.HANDSHAKE, now + self._path.rto.current_s)

    def _receive_init(self, body: bytes, now: float) -> None:
        if self.state is State.SHUTDOWN_ACK_SENT:
            self._repeat_shutdown(now)  # section 9.2: the peer missed our SHUTDOWN ACK
            return
        init = parse_init_body(body)
        answer = self._handshake.answer_init(init, running=self.state in RUNNING, now=now)
        self._outbox.add_packet(init.initiate_tag, answer)

    def _receive_init_ack(self, flags: int, body: bytes, now: float) -> None:
        self._require(Input.INIT_ACK)
        init_ack = parse_init_body(body)
        self._outbox.set_tag(init_ack.initiate_tag, zero_checksum=False)
        try:
            self._handshake.receive_init_ack(init_ack)
        except PeerMisbehaved as error:
            # RFC 9260 section 3.3.10.2: one parameter is missing, the State Cookie
            self._outbox.clear()
            self._outbox.add(missing_cookie_chunk())
            self._outbox.flush()
            self._end(error, now)
            return
        self._become(Input.INIT_ACK, now)
        self._path.rto.reset_backoff()
        self._send_cookie(now)

    def _send_cookie(self, now: float) -> None:
        chunk, agreement = self._handshake.repeat_cookie(), self._handshake.agreement
        if chunk is not None and agreement is not None:
            # RFC 9653 section 5.2: COOKIE ECHO never goes without a checksum
            self._outbox.add_packet(agreement.peer_tag, chunk)
        self._timers.arm(SctpTimer.HANDSHAKE, now + self._path.rto.current_s)

    def _receive_cookie_echo(self, body: bytes, tag: int, now: float) -> None:
        cookie, late_s = self._handshake.open_cookie(body, now)
        agreement = cookie.agreement
        if tag != agreement.local_tag:
            raise Discard(SctpDiscard.BAD_TAG)
        running = self.state in RUNNING
        meaning = self._handshake.judge(cookie, running=running)
        if late_s and meaning is not CookieMeaning.AGAIN:
            self._outbox.add_packet(agreement.peer_tag, stale_cookie_chunk(late_s))
            raise Discard(SctpDiscard.STALE_COOKIE, f"{late_s:.3f} s")
        if meaning is CookieMeaning.STALE:
            raise Discard(SctpDiscard.BAD_COOKIE, "fits no association of ours")
        if meaning is CookieMeaning.RESTART:
            self._restart(agreement, now)
        elif not running:
            self._become(Input.COOKIE_ECHO, now)
            self._timers.cancel(SctpTimer.HANDSHAKE)
            self._establish(agreement, now)
            self._announce(agreement)
        self._outbox.add_control(encode_chunk(ChunkType.COOKIE_ACK, 0))

    def _restart(self, agreement: Agreement, now: float) -> None:
        """The peer lost its state (section 5.2.4 A): numbers start anew, channels live on."""
        if (self.state, Input.RESTART) not in TRANSITIONS or self._inbound is None:
            self._repeat_shutdown(now)
            raise Discard(SctpDiscard.UNEXPECTED_CHUNK, "restart while shutting down")
        self._become(Input.RESTART, now)
        for timer in (SctpTimer.RETRANSMIT, SctpTimer.SACK, SctpTimer.SHUTDOWN):
            self._timers.cancel(timer)
        unread = self._inbound.take_messages()
        if self._transmission is not None:
            self._queue.restart(self._transmission.unfinished_messages())
        self._establish(agreement, now)
        self._inbound.give_back(unread)
        self._events.append(Restarted())

    def _receive_cookie_ack(self, flags: int, body: bytes, now: float) -> None:
        self._require(Input.COOKIE_ACK)
        agreement = self._handshake.agreement
        if agreement is not None:
            self._become(Input.COOKIE_ACK, now)
            self._timers.cancel(SctpTimer.HANDSHAKE)
            self._establish(agreement, now)
            self._announce(agreement)

    def _receive_error(self, flags: int, body: bytes, now: float) -> None:
        causes = parse_causes(body)
        if self._trace is not None:
            self._trace.emit(now, "sctp:error_received", {"causes": [code for code, _ in causes]})
        stale = any(code == Cause.STALE_COOKIE for code, _ in causes)
        if stale and (self.state, Input.STALE_COOKIE) in TRANSITIONS:
            self._become(Input.STALE_COOKIE, now)  # section 5.2.6: start over
            self._send_init(now)

    def _receive_abort(self, flags: int, body: bytes, now: float) -> None:
        causes = parse_causes(body)
        code, detail = causes[0] if causes else (None, b"")
        self._outbox.clear()
        self._end(PeerAborted(code, detail[:200].decode("utf-8", "replace")), now)

    def _receive_forward_tsn(self, flags: int, body: bytes, now: float) -> None:
        self._forward(parse_forward_tsn(body), interleaving=False)

    def _receive_i_forward_tsn(self, flags: int, body: bytes, now: float) -> None:
        self._forward(parse_i_forward_tsn(body), interleaving=True)

    def _forward(self, chunk: ForwardTsn, *, interleaving: bool) -> None:
        agreement, inbound = self._handshake.agreement, self._inbound
        if agreement is None or inbound is None:
            raise Discard(SctpDiscard.UNEXPECTED_CHUNK, "FORWARD-TSN")
        if not agreement.shared.partial_reliability:
            raise PeerMisbehaved(SctpRule.NOT_NEGOTIATED, "RFC 3758 section 3.3", "FORWARD-TSN")
        if agreement.shared.interleaving != interleaving:
            rule = SctpRule.WRONG_CHUNK_FAMILY
            raise PeerMisbehaved(rule, "RFC 8260 section 2.2.1", "FORWARD-TSN")
        inbound.receive_forward_tsn(chunk)

    def _receive_reconfig(self, flags: int, body: bytes, now: float) -> None:
        agreement = self._handshake.agreement
        if self._inbound is None or agreement is None or not agreement.shared.reconfig:
            raise Discard(SctpDiscard.UNKNOWN_CHUNK, "RE-CONFIG was not negotiated")
        answer = self._resets().receive(body, self._inbound)
        self._path.errors = 0
        if answer is not None:
            self._outbox.add_control(answer)

    def _receive_heartbeat(self, flags: int, body: bytes, now: float) -> None:
        if len(body) + 4 + COMMON_HEADER_SIZE > self.config.mtu:
            raise Discard(SctpDiscard.UNEXPECTED_CHUNK, "HEARTBEAT larger than a packet")
        self._outbox.add_control(encode_chunk(ChunkType.HEARTBEAT_ACK, 0, body))

    def _receive_heartbeat_ack(self, flags: int, body: bytes, now: float) -> None:
        if not self._path.receive_ack(body, now):
            raise Discard(SctpDiscard.UNEXPECTED_CHUNK, "HEARTBEAT ACK for no probe of ours")

    def _receive_shutdown(self, flags: int, body: bytes, now: float) -> None:
        known = State.SHUTDOWN_RECEIVED, State.SHUTDOWN_ACK_SENT
        if self.state not in known:
            self._require(Input.SHUTDOWN)
        if self._transmission is not None:
            acked = Sack(parse_tsn(body), self._transmission.peer_rwnd, (), ())
            self._transmission.receive_sack(acked, now)
        if self.state not in known:
            self._become(Input.SHUTDOWN, now)
            self._shutdown.begin(now)
        self._repeat_shutdown(now)

    def _receive_shutdown_ack(self, flags: int, body: bytes, now: float) -> None:
        self._require(Input.SHUTDOWN_ACK)
        self._outbox.clear()
        self._outbox.add(encode_chunk(ChunkType.SHUTDOWN_COMPLETE, 0))
        self._outbox.flush()
        self._end(None, now, Input.SHUTDOWN_ACK)

    def _receive_shutdown_complete(self, flags: int, body: bytes, now: float) -> None:
        self._require(Input.SHUTDOWN_COMPLETE)
        self._end(None, now, Input.SHUTDOWN_COMPLETE)

    def _receive_out_of_place(self, flags: int, body: bytes, now: float) -> None:
        """INIT and COOKIE ECHO have other tags, or none: here they are a mistake (8.5.1)."""
        raise Discard(SctpDiscard.UNEXPECTED_CHUNK, "INIT under a tag")

    def _receive_repeated_cookie_echo(self, flags: int, body: bytes, now: float) -> None:
        self._receive_cookie_echo(body, self._local_tag, now)

    def _repeat_shutdown(self, now: float) -> None:
        cumulative = self._inbound.tracker.cumulative if self._inbound is not None else 0
        chunk = self._shutdown.chunk(self.state, cumulative, now)
        if chunk is not None:
            self._outbox.add_control(chunk)

    # -- timers

    def _give_up(self, why: str, now: float) -> None:
        self._abort(Cause.USER_INITIATED_ABORT, why, now)
        self._end(AssociationLost(why), now)

    def _handshake_timeout(self, now: float) -> None:
        if self._handshake.count_attempt():
            self._give_up("the handshake was not answered", now)
            return
        self._path.rto.back_off()
        init = self._handshake.repeat_init()
        if self.state is State.COOKIE_ECHOED:
            self._send_cookie(now)
        elif self.state is State.COOKIE_WAIT and init is not None:
            self._outbox.add_packet(0, init)
            self._timers.arm(SctpTimer.HANDSHAKE, now + self._path.rto.current_s)

    def _retransmit_timeout(self, now: float) -> None:
        transmission = self._transmission
        if self._trace is not None and transmission is not None:
            data = {
                "errors": self._path.errors,
                "flight_bytes": transmission.flight_size,
                "cwnd_bytes": transmission.congestion.cwnd,
                "rto_s": self._path.rto.current_s,
            }
            self._trace.emit(now, "sctp:retransmission_timeout", data)
        if self._path.count_error():
            self._give_up("data was not acknowledged", now)
        elif transmission is not None:
            transmission.handle_timeout(now)

    def _sack_timeout(self, now: float) -> None:
        if self._inbound is None:
            return
        tracker = self._inbound.tracker
        if not tracker.pending:
            return
        if now >= tracker.pending_since + self._sack_delay_s:
            tracker.due = True
        else:
            # armed for an earlier packet, whose SACK has left meanwhile
            self._timers.arm(SctpTimer.SACK, tracker.pending_since + self._sack_delay_s)

    def _heartbeat_timeout(self, now: float) -> None:
        idle = self._transmission is not None and self._transmission.is_idle
        chunk, failed = self._path.handle_timeout(now, idle=idle)
        if failed:
            self._give_up("heartbeats were not answered", now)
        elif chunk is not None:
            self._outbox.add_control(chunk)

    def _reconfig_timeout(self, now: float) -> None:
        if self._resets().handle_timeout(now) and self._path.count_error():
            self._give_up("a stream reset was not answered", now)

    def _shutdown_timeout(self, now: float) -> None:
        if self._path.count_error():
            self._give_up("the shutdown was not answered", now)
            return
        self._path.rto.back_off()
        self._repeat_shutdown(now)

    def _shutdown_guard_timeout(self, now: float) -> None:
        self._give_up("the shutdown took too long", now)

    @property
    def _sack_delay_s(self) -> float:
        return min(self.config.sack_delay_s, self._path.rto.current_s / 2)


_HANDLERS: Final[Mapping[int, Callable[[Control, int, bytes, float], None]]] = {
    ChunkType.INIT: Control._receive_out_of_place,
    ChunkType.INIT_ACK: Control._receive_init_ack,
    ChunkType.DATA: Control._receive_out_of_place,
    ChunkType.SACK: Control._receive_out_of_place,
    ChunkType.HEARTBEAT: Control._receive_heartbeat,
    ChunkType.HEARTBEAT_ACK: Control._receive_heartbeat_ack,
    ChunkType.ABORT: Control._receive_abort,
    ChunkType.SHUTDOWN: Control._receive_shutdown,
    ChunkType.SHUTDOWN_ACK: Control._receive_shutdown_ack,
    ChunkType.ERROR: Control._receive_error,
    ChunkType.COOKIE_ECHO: Control._receive_repeated_cookie_echo,
    ChunkType.COOKIE_ACK: Control._receive_cookie_ack,
    ChunkType.SHUTDOWN_COMPLETE: Control._receive_shutdown_complete,
    ChunkType.I_DATA: Control._receive_out_of_place,
    ChunkType.RE_CONFIG: Control._receive_reconfig,
    ChunkType.FORWARD_TSN: Control._receive_forward_tsn,
    ChunkType.I_FORWARD_TSN: Control._receive_i_forward_tsn,
}
TIMEOUTS: Final[Mapping[SctpTimer, Callable[[Control, float], None]]] = {
    SctpTimer.HANDSHAKE: Control._handshake_timeout,
    SctpTimer.RETRANSMIT: Control._retransmit_timeout,
    SctpTimer.SACK: Control._sack_timeout,
    SctpTimer.HEARTBEAT: Control._heartbeat_timeout,
    SctpTimer.RECONFIG: Control._reconfig_timeout,
    SctpTimer.SHUTDOWN: Control._shutdown_timeout,
    SctpTimer.SHUTDOWN_GUARD: Control._shutdown_guard_timeout,
}
