"""Stream reset: closing and reusing streams (RFC 6525).

One object for both halves. Outgoing: streams are paused, their queued data leaves and is
acknowledged, then one request at a time names them. Incoming: a request is performed when all DATA
up to its last TSN is there, and its answer is kept for a peer that asks again.

    reset ──pause──▶ waiting ──settled──▶ request ──timer: again──▶ response ──▶ streams at 0
"""

from __future__ import annotations

from typing import Final

from warp.contract import Event
from warp.errors import Discard, PeerMisbehaved
from warp.sctp.chunks import ChunkType, encode_chunk
from warp.sctp.events import ResetResult, StreamsReset, StreamsResetFailed
from warp.sctp.inbound import Inbound
from warp.sctp.outbound import SendQueue
from warp.sctp.parameters import (
    OutgoingReset,
    ParameterType,
    ReconfigResponse,
    encode_outgoing_reset,
    encode_parameters,
    encode_reconfig_response,
    parse_outgoing_reset,
    parse_parameters,
    parse_reconfig_response,
)
from warp.sctp.reasons import SctpDiscard, SctpRule
from warp.sctp.retransmission import SctpTimer, Transmission
from warp.sctp.rto import Rto
from warp.sctp.sack import MASK32
from warp.sctp.snap import Agreement
from warp.timers import TimerTable

_MAX_STREAMS: Final = 128
"""Streams named in one request, so that it fits every packet."""
_REQUESTS: Final = frozenset(
    (
        ParameterType.OUTGOING_RESET,
        ParameterType.INCOMING_RESET,
        ParameterType.SSN_TSN_RESET,
        ParameterType.ADD_OUTGOING_STREAMS,
        ParameterType.ADD_INCOMING_STREAMS,
    )
)


class Reconfig:
    """Stream resets in both directions."""

    __slots__ = (
        "_agreed",
        "_answer",
        "_answered",
        "_deferred_seq",
        "_events",
        "_next_seq",
        "_patient",
        "_queue",
        "_request",
        "_resend",
        "_rto",
        "_timers",
        "_waiting",
    )

    def __init__(
        self,
        queue: SendQueue,
        rto: Rto,
        timers: TimerTable[SctpTimer],
        events: list[Event],
    ) -> None:
        self._queue = queue
        self._rto = rto
        self._timers = timers
        self._agreed = False
        self._next_seq = 0
        self._answered = 0
        """Sequence number of the peer's last request that was taken up."""
        self._answer: ResetResult | None = None
        self._deferred_seq: int | None = None
        self._waiting: list[int] = []
        self._request: OutgoingReset | None = None
        self._resend = False
        self._patient = False
        self._events = events

    def start(self, agreement: Agreement) -> None:
        """Begin with the numbers both sides agreed on; a request that a restart broke is redone."""
        self._agreed = agreement.shared.reconfig
        self._next_seq = agreement.local_tsn & MASK32
        self._answered = (agreement.peer_tsn - 1) & MASK32
        self._answer = None
        self._deferred_seq = None
        if self._request is not None:
            self._timers.cancel(SctpTimer.RECONFIG)
            self._waiting = [*self._request.stream_ids, *self._waiting]
            self._request = None

    def reset(self, stream_ids: list[int]) -> None:
        """Ask for outgoing streams to be reset; those already on their way are left alone."""
        requested = self._request.stream_ids if self._request is not None else ()
        for stream_id in stream_ids:
            if stream_id not in self._waiting and stream_id not in requested:
                self._queue.pause(stream_id)
                self._waiting.append(stream_id)

    @property
    def is_busy(self) -> bool:
        """Whether a reset of ours is waiting or under way."""
        return bool(self._waiting) or self._request is not None

    def chunk_to_send(self, transmission: Transmission, now: float) -> bytes | None:
        """Return the request that has to leave now: a new one, or the old one again."""
        if self._waiting and not self._agreed:
            refused, self._waiting = tuple(self._waiting), []
            self._finish(refused, ResetResult.DENIED)
        if self._waiting and self._request is None:
            self._form_request(transmission)
        if self._request is None or not self._resend:
            return None
        self._resend = False
        self._timers.arm(SctpTimer.RECONFIG, now + self._rto.current_s)
        return _chunk(encode_outgoing_reset(self._request))

    def handle_timeout(self, now: float) -> bool:
        """The response did not come in time: ask again; tell whether that counts as an error.

        A peer that said "in progress" is there and only needs time (RFC 6525 section 5.2.7).
        """
        if self._request is None:
            return False
        self._resend = True
        patient, self._patient = self._patient, False
        if not patient:
            self._rto.back_off()
        return not patient

    def receive(self, body: bytes, inbound: Inbound) -> bytes | None:
        """Take in a RE-CONFIG; return the chunk that answers it. Raises Discard, PeerMisbehaved."""
        parameters = parse_parameters(body)
        kinds = [kind for kind, _ in parameters]
        if not 1 <= len(kinds) <= 2 or kinds.count(ParameterType.OUTGOING_RESET) > 1:
            raise PeerMisbehaved(SctpRule.BAD_RECONFIG, "RFC 6525 section 3.1", str(kinds))
        answers: list[tuple[int, bytes]] = []
        for kind, value in parameters:
            if kind == ParameterType.RECONFIG_RESPONSE:
                self._receive_response(parse_reconfig_response(value))
            elif kind in _REQUESTS:
                answers.append(self._receive_request(kind, value, inbound))
            else:
                raise Discard(SctpDiscard.BAD_PARAMETER, f"RE-CONFIG parameter {kind}")
        return _chunk(*answers) if answers else None

    def finish_deferred(self, inbound: Inbound) -> bytes | None:
        """Perform a deferred reset whose DATA has come; return the answer, now a final one."""
        stream_ids = inbound.finish_deferred_reset()
        if stream_ids is None or self._deferred_seq is None:
            return None
        seq, self._deferred_seq = self._deferred_seq, None
        if seq == self._answered:
            self._answer = ResetResult.PERFORMED
        self._events.append(StreamsReset(tuple(sorted(stream_ids)), incoming=True))
        return _chunk(encode_reconfig_response(ReconfigResponse(seq, ResetResult.PERFORMED)))

    def _form_request(self, transmission: Transmission) -> None:
        acked = transmission.cumulative_acked
        settled = [s for s in self._waiting if self._queue.is_settled(s, acked)][:_MAX_STREAMS]
        if not settled:
            return
        self._waiting = [s for s in self._waiting if s not in settled]
        self._request = OutgoingReset(
            request_seq=self._next_seq,
            response_seq=self._answered,
            last_tsn=(transmission.next_tsn - 1) & MASK32,
            stream_ids=tuple(settled),
        )
        self._next_seq = (self._next_seq + 1) & MASK32
        self._resend = True

    def _receive_response(self, response: ReconfigResponse) -> None:
        request = self._request
        if request is None or response.response_seq != request.request_seq:
            return
        if response.result == ResetResult.IN_PROGRESS:
            self._patient = True
            return
        self._timers.cancel(SctpTimer.RECONFIG)
        self._request = None
        self._rto.reset_backoff()
        known = response.result in set(ResetResult)
        self._finish(
            request.stream_ids, ResetResult(response.result) if known else ResetResult.DENIED
        )

    def _finish(self, stream_ids: tuple[int, ...], result: ResetResult) -> None:
        done = result in (ResetResult.NOTHING_TO_DO, ResetResult.PERFORMED)
        for stream_id in stream_ids:
            self._queue.resume(stream_id, restart=done)
        if done:
            self._events.append(StreamsReset(stream_ids, incoming=False))
        else:
            self._events.append(StreamsResetFailed(stream_ids, result))

    def _receive_request(self, kind: int, value: bytes, inbound: Inbound) -> tuple[int, bytes]:
        if len(value) < 4:
            raise Discard(SctpDiscard.TRUNCATED_CHUNK, "re-configuration request")
        seq = int.from_bytes(value[:4], "big")
        if seq == self._answered and self._answer is not None:
            result = self._answer  # asked again, not executed again (RFC 6525 section 5.2.1)
        elif seq != (self._answered + 1) & MASK32:
            result = ResetResult.BAD_SEQUENCE_NUMBER
        else:
            request = parse_outgoing_reset(value) if kind == ParameterType.OUTGOING_RESET else None
            self._answered = seq
            if request is not None:
                result = self._perform(request, inbound)
            elif kind == ParameterType.INCOMING_RESET:
                # a channel's closer resets its own half; the other half follows by itself
                result = ResetResult.NOTHING_TO_DO
            else:
                result = ResetResult.DENIED
            self._answer = result
        return encode_reconfig_response(ReconfigResponse(seq, result))

    def _perform(self, request: OutgoingReset, inbound: Inbound) -> ResetResult:
        stream_ids = frozenset(request.stream_ids)
        if inbound.deferred_streams is not None:
            if inbound.deferred_streams != stream_ids:
                return ResetResult.ALREADY_IN_PROGRESS
            self._deferred_seq = request.request_seq  # some ask again under a new number
            return ResetResult.IN_PROGRESS
        if not inbound.reset_streams(stream_ids, request.last_tsn):
            self._deferred_seq = request.request_seq
            return ResetResult.IN_PROGRESS
        self._events.append(StreamsReset(tuple(sorted(stream_ids)), incoming=True))
        return ResetResult.PERFORMED


def _chunk(*parameters: tuple[int, bytes]) -> bytes:
    return encode_chunk(ChunkType.RE_CONFIG, 0, encode_parameters(parameters))
