"""All channels of one association: opening, dispatch, closing (RFC 8831, RFC 8832).

    datagram --> Association --messages()--> registry --PPID 50--> dcep: announce, acknowledge
                                                     `--else----> ChannelMessage
    Channel.send --> Association.send_message --> datagrams_to_send

The registry speaks the verbs of `LayerEndpoint` for the association that it is given, so that
`warp.peer` drives one object. It alone reads the association's events.
"""

from __future__ import annotations

import enum

from warp.contract import Event
from warp.datachannel.channel import Channel, ChannelInput, ChannelState, Reset
from warp.datachannel.closing import ClosingChannels
from warp.datachannel.config import ChannelConfig, RegistryConfig
from warp.datachannel.dcep import ACK, DcepOpen, Ppid, parse_dcep
from warp.datachannel.early import RESET, EarlyMessages
from warp.datachannel.events import (
    BufferedAmountLow,
    ChannelAnnounced,
    ChannelClosed,
    ChannelClosing,
    ChannelMessage,
    ChannelOpened,
)
from warp.datachannel.payloads import decode_payload
from warp.datachannel.stream_ids import StreamIds
from warp.errors import (
    Discard,
    InvalidConfig,
    InvalidState,
    PeerIncompatible,
    PeerMisbehaved,
    UnknownChannel,
    WarpError,
)
from warp.names import Counts, Name
from warp.sctp import (
    Association,
    Established,
    StreamsReset,
    StreamsResetFailed,
    Terminated,
)
from warp.timers import earliest
from warp.trace import Trace


class ChannelDiscard(enum.Enum):
    """Why a message on a stream was thrown away."""

    UNKNOWN_PPID = "payload protocol identifier not known"
    NOT_OPEN = "the channel is not open"
    NO_CHANNEL = "no channel for the stream, and no room to wait for one"
    UNEXPECTED_ACK = "nothing was announced on the stream"
    TOO_MANY_CHANNELS = "the peer opened too many channels"
    INVALID_UTF8 = "text that is not UTF-8, delivered with replacement characters"


class ChannelRule(enum.Enum):
    """A rule whose breach closes a channel."""

    STREAM_IN_USE = "OPEN on a stream that carries a channel"
    MESSAGE_TOO_LARGE = "a message is larger than we announced"


class RegistryState(Name):
    """How far the association below is."""

    WAITING = "not established yet"
    UP = "established"
    ENDED = "gone for good"


class ChannelRegistry:
    """The owner of the channels of one association."""

    __slots__ = (
        "_channels", "_closing", "_early", "_events", "_ids", "_incoming", "_trace", "_waiting",
        "_watched", "association", "config", "discards", "error", "send_limit", "state",
    )  # fmt: skip

    def __init__(
        self,
        association: Association,
        config: RegistryConfig | None = None,
        *,
        is_dtls_client: bool | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.association = association
        self.config = config or RegistryConfig()
        self.send_limit = 0
        self.set_send_limit(self.config.send_limit)
        self.error: WarpError | None = None
        self.discards: Counts[enum.Enum] = Counts()
        self._trace = trace
        self._ids = StreamIds(is_dtls_client)
        self._channels: dict[int, Channel] = {}
        self._waiting: list[Channel] = []
        self.state = RegistryState.WAITING
        self._events: list[Event] = []
        self._early: EarlyMessages | None = None
        self._closing = ClosingChannels(association, self.config.close_timeout_s)
        self._watched: dict[Channel, None] = {}
        self._incoming: list[int] = []

    # -- commands

    def set_dtls_role(self, is_client: bool, now: float) -> None:
        """Say which DTLS role we have: it decides the parity of our stream ids."""
        self._ids.is_dtls_client = is_client
        self._open_waiting(now)

    def set_send_limit(self, limit: int | None) -> None:
        """Set the largest message the peer takes, in bytes; None means any (RFC 8841 section 6)."""
        cap = self.config.send_cap
        self.send_limit = cap if limit is None else min(limit, cap)

    def create_channel(self, config: ChannelConfig, now: float) -> Channel:
        """Return a new channel; `ChannelOpened` says when it can be sent on.

        Raises `InvalidConfig` for a stream id that is taken or does not exist, `InvalidState` when
        the association is gone or no id is left.
        """
        if self.state is RegistryState.ENDED:
            raise InvalidState("the association has ended; open a new session")
        if not config.negotiated:
            channel = Channel(self, config, None, announces=True)
            self._waiting.append(channel)
            self._open_waiting(now)
            if channel.error is not None:
                raise InvalidState(str(channel.error))
            return channel
        stream_id = config.stream_id
        if stream_id is None or stream_id in self._channels:
            raise InvalidConfig(f"stream {stream_id} already carries a channel")
        if not self._ids.is_usable(stream_id) or self._closing.is_refused(stream_id):
            raise InvalidConfig(f"stream {stream_id} cannot be used on this association")
        channel = Channel(self, config, stream_id, announces=False)
        self._channels[stream_id] = channel
        if self.state is RegistryState.UP:
            self._open(channel, now)
        return channel

    def channel(self, stream_id: int) -> Channel:
        """Return the channel of a stream; `UnknownChannel` when there is none."""
        channel = self._channels.get(stream_id)
        if channel is None:
            raise UnknownChannel(f"no channel has stream {stream_id}")
        return channel

    @property
    def channels(self) -> list[Channel]:
        """Every channel that is not closed."""
        return [*self._channels.values(), *self._waiting]

    def close_channel(self, channel: Channel, now: float) -> None:
        """Close one channel; see `Channel.close`."""
        if channel.state is ChannelState.CONNECTING:
            self._end(channel, ChannelInput.CLOSE, now)
        elif channel.state is ChannelState.OPEN:
            self._become(channel, ChannelInput.CLOSE, now)
            self._begin_reset(channel, now)

    def close(self, now: float) -> None:
        """Close every channel at once and abort the association (W3C RTCPeerConnection.close)."""
        self.state = RegistryState.ENDED
        for channel in self.channels:
            self._end(channel, ChannelInput.LOST, now)
        self.association.abort(now)

    # -- the verbs

    def receive_datagram(self, data: bytes, now: float) -> None:
        """Take in one SCTP packet. Never raises for what a peer sent."""
        self.association.receive_datagram(data, now)
        self.receive(now)

    def datagrams_to_send(self, now: float) -> list[bytes]:
        """Drain the SCTP packets that may leave now."""
        packets = self.association.datagrams_to_send(now)
        if self.association.has_news:
            self.receive(now)
        return packets

    def get_timer(self) -> float | None:
        """Return the next deadline of the association or of a closing channel, or None."""
        deadline = self.association.get_timer()
        if self._closing.deadlines:
            return earliest(self._closing.get_timer(), deadline)
        return deadline

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        self.association.handle_timer(now)
        self.receive(now)
        if self._closing.deadlines:
            for channel in self._closing.expired(now):
                self._give_up(channel, now)

    def events(self) -> list[Event]:
        """Drain what has happened on the channels."""
        if self._watched:
            self._say_low()
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def receive(self, now: float) -> None:
        """Take over what the association has: events and messages."""
        association = self.association
        if not association.has_news:
            return
        ended: Terminated | None = None
        messages = association.messages()
        for event in association.events():
            if isinstance(event, Established):
                self._establish(event, now)
            elif isinstance(event, StreamsReset):
                self._note_reset(event, now)
            elif isinstance(event, StreamsResetFailed):
                self._reset_failed(event, now)
            elif isinstance(event, Terminated):
                ended = event
        for stream_id, ppid, data in messages:
            self._dispatch(stream_id, ppid, data, now)
        # a stream is reset after its last message (RFC 6525 section 5.2.2)
        incoming, self._incoming = self._incoming, []
        for stream_id in incoming:
            self._receive_reset(stream_id, now)
        if ended is not None:
            self._terminate(ended.error, now)

    def _dispatch(self, stream_id: int, ppid: int, data: bytes, now: float) -> None:
        channel = self._channels.get(stream_id)
        if ppid == Ppid.DCEP:
            live = channel is not None and not channel.resets & Reset.INCOMING
            if live and stream_id in self._incoming and data[:1] != ACK:
                # the reset and the OPEN of the next channel came together
                self._incoming.remove(stream_id)
                self._receive_reset(stream_id, now)
                channel = self._channels.get(stream_id)
            if channel is None or not channel.resets & Reset.INCOMING:
                self._receive_dcep(stream_id, channel, data, now)
                return
        elif channel is not None and not channel.resets & Reset.INCOMING:
            self._receive_message(channel, ppid, data, now)
            return
        # No channel yet; or the next one, whose first message overtook the peer's answer to our
        # own reset: RE-CONFIG and DATA keep no order between each other.
        self._closing.note_message(stream_id)
        if self._early is None:
            self._early = EarlyMessages(self.config.early_messages, self.config.early_bytes)
        if not self._early.keep(stream_id, ppid, data):
            self._discard(ChannelDiscard.NO_CHANNEL, stream_id, now)

    # -- opening

    def _establish(self, event: Established, now: float) -> None:
        self._ids.limit = min(self._ids.limit, event.outbound_streams, event.inbound_streams)
        self.state = RegistryState.UP
        for channel in list(self._channels.values()):
            if channel.state is ChannelState.CONNECTING:
                self._open(channel, now)
        self._open_waiting(now)

    def _open_waiting(self, now: float) -> None:
        if self.state is not RegistryState.UP or self._ids.is_dtls_client is None:
            return
        if not self.association.established:
            return  # its end is already among its events
        waiting, self._waiting = self._waiting, []
        for channel in waiting:
            channel.stream_id = self._ids.allocate(self._channels)
            if channel.stream_id is None:
                channel.error = PeerIncompatible("no stream id is left for another channel")
                self._end(channel, ChannelInput.CLOSE, now)
                continue
            self._channels[channel.stream_id] = channel
            self._send_dcep(channel.stream_id, channel.config.to_open().to_bytes(), now)
            self._open(channel, now)

    def _open(self, channel: Channel, now: float) -> None:
        stream_id = channel.stream_id
        if stream_id is None or not self._ids.is_usable(stream_id):
            channel.error = PeerIncompatible(f"stream {stream_id} does not exist")
            self._end(channel, ChannelInput.CLOSE, now)
            return
        self._become(channel, ChannelInput.OPENED, now)
        self._events.append(ChannelOpened(channel))
        self._replay(stream_id, now)

    def _take_early(self, stream_id: int) -> list[tuple[int, bytes]]:
        return [] if self._early is None else self._early.take(stream_id)

    def _replay(self, stream_id: int, now: float) -> None:
        for ppid, data in self._take_early(stream_id):
            if ppid == RESET:
                self._receive_reset(stream_id, now)
            else:
                self._dispatch(stream_id, ppid, data, now)

    def _send_dcep(self, stream_id: int, message: bytes, now: float) -> None:
        # RFC 8832 section 6: always reliable and ordered, whatever the channel is
        self.association.send_message(stream_id, Ppid.DCEP, message, now, ordered=True)

    def _receive_dcep(
        self, stream_id: int, channel: Channel | None, data: bytes, now: float
    ) -> None:
        try:
            message = parse_dcep(data)
        except Discard as discard:
            self._discard(discard.reason, stream_id, now)
            if channel is None:
                self._closing.refuse(stream_id, now)
            return
        if message is None:
            if channel is None or not channel.announces:
                self._discard(ChannelDiscard.UNEXPECTED_ACK, stream_id, now)
            else:
                channel.receive_answer()
        elif channel is None:
            self._receive_open(stream_id, message, now)
        elif channel.state is ChannelState.OPEN:
            self._fail(channel, ChannelRule.STREAM_IN_USE, "RFC 8832 section 6", now)

    def _receive_open(self, stream_id: int, message: DcepOpen, now: float) -> None:
        """Take a channel of the peer's, on any free stream (RFC 8832 section 6).

        Peers that count by another role than DTLS's harm nobody before an id is in use.
        """
        if not self.association.established:
            self._discard(ChannelDiscard.NOT_OPEN, stream_id, now)
            return
        full = len(self._channels) >= self.config.max_channels
        if full or not self._ids.is_usable(stream_id):
            reason = ChannelDiscard.TOO_MANY_CHANNELS if full else ChannelDiscard.NO_CHANNEL
            self._discard(reason, stream_id, now)
            self._take_early(stream_id)
            self._closing.refuse(stream_id, now)
            return
        config = ChannelConfig.from_open(message, stream_id)
        channel = Channel(self, config, stream_id, announces=False)
        self._channels[stream_id] = channel
        self._send_dcep(stream_id, ACK, now)
        self._events.append(ChannelAnnounced(channel))
        self._open(channel, now)

    # -- messages

    def _receive_message(self, channel: Channel, ppid: int, data: bytes, now: float) -> None:
        stream_id = channel.stream_id or 0
        if channel.announces:
            channel.receive_answer()
        if channel.state is not ChannelState.OPEN:
            self._discard(ChannelDiscard.NOT_OPEN, stream_id, now)
            return
        limit = self.config.receive_limit
        if limit is not None and len(data) > limit:
            self._fail(channel, ChannelRule.MESSAGE_TOO_LARGE, "RFC 8841 section 6", now)
            return
        try:
            value = decode_payload(ppid, data)
        except UnicodeDecodeError:
            self._discard(ChannelDiscard.INVALID_UTF8, stream_id, now)
            value = data.decode(errors="replace")
        if value is None:
            self._discard(ChannelDiscard.UNKNOWN_PPID, stream_id, now)
            return
        self._events.append(ChannelMessage(channel, value))

    def watch(self, channel: Channel) -> None:
        """Note whether a channel has more unsent bytes than its threshold. Called by `Channel`."""
        if channel.buffered_amount > channel.buffered_amount_low_threshold:
            self._watched[channel] = None
        else:
            self._watched.pop(channel, None)

    def _say_low(self) -> None:
        low = [c for c in self._watched if c.buffered_amount <= c.buffered_amount_low_threshold]
        for channel in sorted(low, key=lambda c: c.stream_id or 0):
            del self._watched[channel]
            self._events.append(BufferedAmountLow(channel))

    # -- closing

    def _note_reset(self, event: StreamsReset, now: float) -> None:
        if event.incoming:
            # an empty list means every stream (RFC 6525 section 4.1)
            self._incoming += event.stream_ids or self._channels
            return
        self._closing.forget_refused(event.stream_ids)
        for stream_id in event.stream_ids:
            channel = self._channels.get(stream_id)
            if channel is not None and channel.state is ChannelState.CLOSING:
                channel.resets |= Reset.OUTGOING
                self._finish(channel, now)

    def _receive_reset(self, stream_id: int, now: float) -> None:
        channel = self._channels.get(stream_id)
        if channel is not None and channel.resets & Reset.INCOMING:
            if self._early is not None:
                self._early.keep_reset(stream_id)  # of the next channel on this stream
            return
        self._take_early(stream_id)
        if channel is None:
            self._closing.answer(stream_id, now)
            return
        channel.resets |= Reset.INCOMING
        if channel.state is ChannelState.OPEN:
            self._become(channel, ChannelInput.PEER_RESET, now)
            self._events.append(ChannelClosing(channel))
            self._begin_reset(channel, now)
        self._finish(channel, now)

    def _begin_reset(self, channel: Channel, now: float) -> None:
        if channel.stream_id is not None:
            self._closing.begin(channel, channel.stream_id, now)

    def _finish(self, channel: Channel, now: float) -> None:
        if channel.resets & Reset.OUTGOING and channel.resets & Reset.INCOMING:
            self._end(channel, ChannelInput.BOTH_RESET, now)
            self._replay(channel.stream_id or 0, now)

    def _reset_failed(self, event: StreamsResetFailed, now: float) -> None:
        self._closing.forget_refused(event.stream_ids)
        for stream_id in event.stream_ids:
            channel = self._channels.get(stream_id)
            if channel is not None and channel.state is ChannelState.CLOSING:
                self._give_up(channel, now)

    def _give_up(self, channel: Channel, now: float) -> None:
        if channel.stream_id is not None:
            self._ids.burn(channel.stream_id)
            self._closing.expect_reset(channel.stream_id)
        self._end(channel, ChannelInput.GIVEN_UP, now)

    def _fail(self, channel: Channel, rule: ChannelRule, section: str, now: float) -> None:
        channel.error = PeerMisbehaved(rule, section, f"stream {channel.stream_id}")
        self.close_channel(channel, now)

    def _terminate(self, error: WarpError | None, now: float) -> None:
        self.state = RegistryState.ENDED
        self.error = error
        for channel in self.channels:
            channel.error = channel.error or error
            self._end(channel, ChannelInput.LOST, now)

    def _end(self, channel: Channel, why: ChannelInput, now: float) -> None:
        self._become(channel, why, now)
        self._closing.end(channel)
        self._watched.pop(channel, None)
        if channel.stream_id is not None:
            self._channels.pop(channel.stream_id, None)
        elif channel in self._waiting:
            self._waiting.remove(channel)
        self._events.append(ChannelClosed(channel, channel.error))

    def _become(self, channel: Channel, why: ChannelInput, now: float) -> None:
        channel.advance(why)
        if self._trace is not None:
            data = {"stream_id": channel.stream_id, "state": channel.state.value, "why": why.value}
            self._trace.emit(now, "datachannel:state_updated", data)

    def _discard(self, reason: enum.Enum, stream_id: int, now: float) -> None:
        self.discards[reason] += 1
        if self._trace is not None:
            data = {"stream_id": stream_id, "reason": reason.value}
            self._trace.emit(now, "datachannel:message_discarded", data)
