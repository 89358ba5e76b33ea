"""The SCTP association: its states, and which organ a chunk belongs to (RFC 9260).

The five verbs without flow; the layer below (DTLS) carries whole packets. Called by the data
channel layer and the peer's transport.

    packet ──▶ tag, checksum ──▶ chunk ─┬─ DATA, FORWARD-TSN ──▶ inbound ──▶ messages()
                                        ├─ SACK ──▶ transmission
                                        ├─ RE-CONFIG ──▶ reconfig      HEARTBEAT ──▶ path
                                        └─ INIT, COOKIE ──▶ handshake  SHUTDOWN ──▶ shutdown

    send_message ──▶ queue ──▶ transmission ──▶ outbox ──▶ datagrams_to_send()
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from warp.contract import Event
from warp.errors import AssociationLost, Discard, InvalidState, PeerMisbehaved, UsageError
from warp.sctp.chunks import (
    CHUNK,
    CHUNK_DATA,
    CHUNK_I_DATA,
    CHUNK_SACK,
    TAG_REFLECTED,
    ChunkType,
    encode_chunk,
    parse_sack,
)
from warp.sctp.control import TIMEOUTS, Control
from warp.sctp.inbound import Inbound, ReceivedMessage
from warp.sctp.init_chunk import InitChunk
from warp.sctp.packet import COMMON_HEADER, COMMON_HEADER_SIZE, checksum_matches
from warp.sctp.parameters import Cause
from warp.sctp.reasons import SctpDiscard
from warp.sctp.retransmission import SctpTimer, Transmission
from warp.sctp.snap import Agreement, agree, is_echo
from warp.sctp.states import ACCEPTS_MESSAGES, RUNNING, Input, State

_STARTING: Final = frozenset(
    (
        ChunkType.INIT_ACK,
        ChunkType.COOKIE_ECHO,
        ChunkType.COOKIE_ACK,
        ChunkType.ERROR,
        ChunkType.ABORT,
        ChunkType.SHUTDOWN_ACK,
    )
)
"""First chunks of packets that are read before the association is established."""
_FORWARDS: Final = frozenset((ChunkType.FORWARD_TSN, ChunkType.I_FORWARD_TSN))


# a member of an enum costs as much as ten other names, and these are asked for every packet
_NEW, _ESTABLISHED, _SHUTDOWN_SENT = State.NEW, State.ESTABLISHED, State.SHUTDOWN_SENT
_CLOSED, _SACK = State.CLOSED, SctpTimer.SACK


class Association(Control):
    """One SCTP association over one DTLS connection."""

    __slots__ = ()

    # -- what the application asks for

    def set_remote_port(self, port: int) -> None:
        """Use the port that the peer's description names. Raises InvalidState once started."""
        if self.state is not State.NEW:
            raise InvalidState("the ports of a started association do not change")
        if port == self.config.remote_port:
            return
        self.config = replace(self.config, remote_port=port)
        self._outbox.set_destination(port)

    def start_snap(self, remote_init: InitChunk, now: float) -> None:
        """Be established at once from both descriptions' INITs (draft-hancke-tsvwg-snap 6).

        A remote INIT that is merely our own come back means a peer without SNAP: then the ordinary
        handshake starts. Raises InvalidState if already started or without a local INIT.
        """
        local = self._handshake.local
        if self.state is not State.NEW or local is None:
            raise InvalidState("start_snap needs a local INIT and comes first")
        if is_echo(local, remote_init):
            self.start(now)
            return
        self._outbox.accepts_zero = local.capabilities.zero_checksum
        self._become(Input.SNAP_AGREED, now)
        agreement = agree(local, remote_init)
        # no handshake has shown that the peer is there: ask, unless data has gone out by then
        self._establish(agreement, now, first_heartbeat_s=self.config.first_heartbeat_s)
        self._announce(agreement)
        self._replay_early(now)

    def start(self, now: float) -> None:
        """Begin the ordinary handshake; both ends may. Raises InvalidState if already started."""
        if self.state is not State.NEW:
            raise InvalidState("already started")
        self._become(Input.INIT_SENT, now)
        self._send_init(now)
        self._replay_early(now)

    def send_message(
        self,
        stream_id: int,
        ppid: int,
        data: bytes,
        now: float,
        *,
        ordered: bool = True,
        max_retransmits: int | None = None,
        lifetime_s: float | None = None,
    ) -> None:
        """Queue one message of at least one byte; before the association is up it waits.

        `max_retransmits` and `lifetime_s` make it partially reliable (RFC 7496) where the peer can
        do that. Raises InvalidState when closing, UsageError for an impossible stream or size.
        """
        if self.state not in ACCEPTS_MESSAGES:
            raise InvalidState(f"association is {self.state.value}")
        if not data:
            raise UsageError(
                "SCTP cannot carry an empty message; send one byte under PPID 56 or 57"
            )
        agreement = self._handshake.agreement
        streams = agreement.outbound_streams if agreement else self.config.outbound_streams
        if not 0 <= stream_id < streams:
            raise UsageError(f"stream id {stream_id} is not below {streams}")
        self._queue.put(
            stream_id,
            ppid,
            bytes(data),
            ordered=ordered,
            transmissions=None if max_retransmits is None else max_retransmits + 1,
            expires_at=None if lifetime_s is None else now + lifetime_s,
        )

    @property
    def has_news(self) -> bool:
        """Whether `events` or `messages` would drain something."""
        inbound = self._inbound
        return bool(self._events) or (inbound is not None and inbound.has_messages)

    def messages(self) -> list[ReceivedMessage]:
        """Drain the received messages as (stream id, PPID, payload), each stream in order."""
        return self._inbound.take_messages() if self._inbound is not None else []

    def reset_streams(self, stream_ids: Iterable[int], now: float) -> None:
        """Reset outgoing streams once what is queued on them has arrived (RFC 6525).

        Messages sent from now on wait for the reset and are numbered from 0. Ends in StreamsReset
        or StreamsResetFailed.
        """
        if self.state is State.CLOSED:
            raise InvalidState("association is closed")
        self._resets().reset(list(stream_ids))

    def buffered_amount(self, stream_id: int) -> int:
        """Return the bytes of a stream that have not left yet."""
        return self._queue.buffered_amount(stream_id)

    def drained_streams(self) -> set[int]:
        """Drain the ids of the streams whose buffered amount fell since the last call."""
        return self._queue.drained_streams()

    def set_rtt_hint(self, rtt_s: float) -> None:
        """Take the round trip that ICE or DTLS measured, until there is one of our own."""
        self._path.rto.hint(rtt_s)

    def close(self, now: float) -> None:
        """End in order: what is queued still arrives. Harmless when already ending."""
        if self.state is State.ESTABLISHED:
            self._become(Input.CLOSE, now)
            self._shutdown.begin(now)
        elif self.state in (State.NEW, State.COOKIE_WAIT, State.COOKIE_ECHOED):
            self._end(None, now)

    def abort(self, now: float, reason: str = "") -> None:
        """End at once; the peer is told with ABORT. Harmless when already closed."""
        if self.state is not State.CLOSED:
            self._abort(Cause.USER_INITIATED_ABORT, reason, now)
            self._end(
                AssociationLost(f"aborted by us: {reason}" if reason else "aborted by us"), now
            )

    @property
    def established(self) -> bool:
        """Whether messages travel now."""
        return self.state is State.ESTABLISHED

    @property
    def agreement(self) -> Agreement | None:
        """Streams, window and features, once both sides have shown theirs."""
        return self._handshake.agreement

    @property
    def rtt_s(self) -> float | None:
        """Smoothed round trip in seconds."""
        return self._path.rto.srtt_s

    # -- the five verbs

    def receive_datagram(self, data: bytes, now: float) -> None:
        """Take in one packet. Never raises for what a peer sent."""
        starting = self._inbound is None
        try:
            self._receive(data, now)
        except Discard as discard:
            self._count(discard, now)
        except PeerMisbehaved as error:
            self._abort(Cause.PROTOCOL_VIOLATION, str(error), now)
            self._end(error, now)
        if starting and self._inbound is not None:
            self._replay_early(now)

    def datagrams_to_send(self, now: float) -> list[bytes]:
        """Drain the packets that may leave now, at most what the windows allow."""
        inbound, transmission = self._inbound, self._transmission
        if inbound is not None and transmission is not None:
            self._fill(inbound, transmission, now)
        outbox = self._outbox
        return outbox.take() if outbox.packets else []

    def get_timer(self) -> float | None:
        """Return the next deadline, or None."""
        return self._timers.due

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        for timer in self._timers.pop_expired(now):
            if self.state is State.CLOSED:
                return
            TIMEOUTS[timer](self, now)

    def events(self) -> list[Event]:
        """Drain what has happened, in order."""
        if not self._events:
            return []
        events = self._events.copy()
        self._events.clear()
        return events

    # -- the way in

    def _receive(self, data: bytes, now: float) -> None:
        if len(data) < COMMON_HEADER_SIZE + 4:
            raise Discard(SctpDiscard.TOO_SHORT)
        if self.state is _NEW:
            self._put_early(data, now)
            return
        source, destination, tag, checksum = COMMON_HEADER.unpack_from(data)
        config = self.config
        if destination != config.port or source != config.remote_port:
            raise Discard(SctpDiscard.BAD_PORTS, f"{source} to {destination}")
        # RFC 9653 section 5.3: zero may stand for "not computed"; anything else must be right
        if (checksum or not self._outbox.accepts_zero) and not checksum_matches(data):
            raise Discard(SctpDiscard.BAD_CHECKSUM)
        if tag != self._local_tag or self.state is _CLOSED:
            self._receive_foreign(data, tag, now)
            return
        if self._inbound is None and data[COMMON_HEADER_SIZE] not in _STARTING:
            self._put_early(data, now)  # it overtook the COOKIE ACK
            return
        self._receive_chunks(data, COMMON_HEADER_SIZE, now)

    def _receive_chunks(self, data: bytes, position: int, now: float) -> None:
        size = len(data)
        inbound = self._inbound
        carried_data = False
        while position + 4 <= size:
            kind, flags, length = CHUNK.unpack_from(data, position)
            end = position + length
            if length < 4 or end > size:
                self._count(Discard(SctpDiscard.BAD_CHUNK_LENGTH, f"type {kind}: {length}"), now)
                break
            try:
                if kind == CHUNK_DATA and inbound is not None:
                    carried_data = True
                    inbound.receive_data(data, position, end, flags)
                elif kind == CHUNK_SACK and self._transmission is not None:
                    if self._transmission.receive_sack(parse_sack(data[position + 4 : end]), now):
                        self._path.errors = 0
                elif kind == CHUNK_I_DATA and inbound is not None:
                    carried_data = True
                    inbound.receive_i_data(data, position, end, flags)
                elif not self._receive_control(kind, flags, data[position + 4 : end], now):
                    break
                elif kind in _FORWARDS:
                    carried_data = True
            except Discard as discard:
                self._count(discard, now)
            inbound = self._inbound
            position = (end + 3) & ~3
        if carried_data and inbound is not None:
            self._end_data_packet(inbound, now)

    def _end_data_packet(self, inbound: Inbound, now: float) -> None:
        if inbound.deferred_streams is not None:
            answer = self._resets().finish_deferred(inbound)
            if answer is not None:
                self._outbox.add_control(answer)
        inbound.end_packet(now)
        if inbound.tracker.pending and self._timers.deadline(_SACK) is None:
            self._timers.arm(_SACK, now + self._sack_delay_s)
        for discard in inbound.take_discarded():
            self._count(discard, now)
        if self.state is _SHUTDOWN_SENT:
            self._repeat_shutdown(now)  # section 9.2: the peer may still be draining

    def _receive_foreign(self, data: bytes, tag: int, now: float) -> None:
        """Look at a packet with another tag: only a few chunks may have one (section 8.5.1)."""
        kind, flags, length = CHUNK.unpack_from(data, COMMON_HEADER_SIZE)
        end = COMMON_HEADER_SIZE + length
        if length < 4 or end > len(data):
            raise Discard(SctpDiscard.BAD_CHUNK_LENGTH, f"type {kind}: {length}")
        body = data[COMMON_HEADER_SIZE + 4 : end]
        agreement = self._handshake.agreement
        reflected = bool(flags & TAG_REFLECTED) and agreement is not None
        if kind == ChunkType.SHUTDOWN_ACK and self.state not in RUNNING:
            # section 8.5.1 E, 8.4 rule 5: it has no more use for an answer than its own tag
            done = encode_chunk(ChunkType.SHUTDOWN_COMPLETE, TAG_REFLECTED)
            self._outbox.add_packet(tag, done)
        elif self.state is State.CLOSED:
            raise Discard(SctpDiscard.ENDED)
        elif kind == ChunkType.INIT:
            if tag != 0 or (end + 3) & ~3 < len(data):
                raise Discard(SctpDiscard.INIT_NOT_ALONE)
            self._receive_init(body, now)
        elif kind == ChunkType.COOKIE_ECHO:
            self._receive_cookie_echo(body, tag, now)
            self._receive_chunks(data, (end + 3) & ~3, now)
        elif kind == ChunkType.ABORT and reflected and agreement and tag == agreement.peer_tag:
            self._receive_abort(flags, body, now)
        elif kind == ChunkType.SHUTDOWN_COMPLETE and reflected and agreement:
            if tag != agreement.peer_tag:
                raise Discard(SctpDiscard.BAD_TAG)
            self._receive_shutdown_complete(flags, body, now)
        else:
            raise Discard(SctpDiscard.BAD_TAG)

    def _put_early(self, data: bytes, now: float) -> None:
        if gone := self._handshake.keep_early(data):
            self._count(Discard(SctpDiscard.EARLY_OVERFLOW, f"{gone} packets"), now)

    def _replay_early(self, now: float) -> None:
        for packet in self._handshake.take_early():
            self.receive_datagram(packet, now)

    # -- the way out

    def _fill(self, inbound: Inbound, transmission: Transmission, now: float) -> None:
        outbox = self._outbox
        if outbox.control:
            for chunk in outbox.control:
                outbox.add(chunk)
            outbox.control = []
        tracker = inbound.tracker
        if tracker.has_news or (tracker.pending and transmission.wants_to_send(now)):
            *earlier, latest = tracker.take_sacks(inbound.window)
            for sack in earlier:
                outbox.add(sack)
                outbox.flush()
            outbox.add(latest)
        reconfig = self._reconfig
        if reconfig is not None and reconfig.is_busy:
            request = reconfig.chunk_to_send(transmission, now)
            if request is not None:
                outbox.add(request)
        transmission.transmit(outbox, now)
        if self.state is not _ESTABLISHED and self._shutdown.is_next(
            self.state, drained=transmission.is_idle
        ):
            self._become(Input.DRAINED, now)
            chunk_now = self._shutdown.chunk(self.state, tracker.cumulative, now)
            if chunk_now is not None:
                outbox.flush()
                outbox.add(chunk_now)
        outbox.flush()
