"""A data channel whose events call handlers (W3C RTCDataChannel).

"open" ─▶ send ... "message" (str or bytes) ... "bufferedamountlow" ─▶ "close"
"""

from __future__ import annotations

from warp import datachannel
from warp.compat.aiortc.call import Call
from warp.compat.aiortc.emitter import Emitter
from warp.compat.aiortc.exceptions import InvalidStateError, OperationError
from warp.contract import Event
from warp.io.channel import MAX_BUFFERED_BYTES


class RTCDataChannel(Emitter):
    """Made by `RTCPeerConnection.createDataChannel`, or told by its event "datachannel"."""

    def __init__(self, call: Call, inner: datachannel.Channel, *, announced: bool = False) -> None:
        """`announced` by the peer, it is open when the application first sees it."""
        super().__init__()
        self._call = call
        self._inner = inner
        self._announced = announced
        self._closed = False
        inner.buffered_amount_low_threshold = 0

    @property
    def bufferedAmount(self) -> int:
        """Bytes that `send` took and the network has not got yet."""
        return self._inner.buffered_amount

    @property
    def bufferedAmountLowThreshold(self) -> int:
        """At how many bytes "bufferedamountlow" is emitted; 0 unless set."""
        return self._inner.buffered_amount_low_threshold

    @bufferedAmountLowThreshold.setter
    def bufferedAmountLowThreshold(self, value: int) -> None:
        if not 0 <= value <= 0xFFFFFFFF:
            raise ValueError("bufferedAmountLowThreshold must be in range 0 - 4294967295")
        self._inner.buffered_amount_low_threshold = value

    @property
    def negotiated(self) -> bool:
        """Whether both applications agreed on it without DCEP."""
        return self._inner.config.negotiated

    @property
    def id(self) -> int | None:
        """The SCTP stream id; None before the DTLS roles are known."""
        return self._inner.stream_id

    @property
    def label(self) -> str:
        """The name given at creation."""
        return self._inner.config.label

    @property
    def ordered(self) -> bool:
        """Whether messages arrive in the order they were sent in."""
        return self._inner.config.ordered

    @property
    def maxPacketLifeTime(self) -> int | None:
        """For how many milliseconds a message is repeated; None: until it arrives."""
        lifetime = self._inner.config.max_packet_lifetime_s
        return None if lifetime is None else round(lifetime * 1000)

    @property
    def maxRetransmits(self) -> int | None:
        """How often a message is repeated; None: until it arrives."""
        return self._inner.config.max_retransmits

    @property
    def protocol(self) -> str:
        """The subprotocol given at creation."""
        return self._inner.config.protocol

    @property
    def readyState(self) -> str:
        """One of "connecting", "open", "closing" and "closed"."""
        return "closed" if self._closed else self._inner.state.text

    def send(self, data: str | bytes) -> None:
        """Send a message.

        Raises `InvalidStateError` unless open, `ValueError` for what is neither text nor bytes,
        `MessageTooLarge` beyond what the peer takes, and `OperationError` when 16 MiB wait.
        """
        if self.readyState != "open":
            raise InvalidStateError(f"the channel is {self.readyState}; send needs it to be open")
        if not isinstance(data, (str, bytes, bytearray, memoryview)):
            raise ValueError(f"a message is str or bytes, not {type(data).__name__}")
        if self._inner.buffered_amount >= MAX_BUFFERED_BYTES:
            raise OperationError(f"{self._inner.buffered_amount} bytes wait already")
        self._inner.send(data, self._call.now)
        self._call.driver.flush_soon(self._call)

    def close(self) -> None:
        """Close once everything queued has been sent; "close" tells the end."""
        if self.readyState in ("connecting", "open"):
            self._inner.close(self._call.now)
            self._call.driver.flush_soon(self._call)

    def receive_event(self, event: Event) -> None:
        """Tell the handlers; called by the connection."""
        if isinstance(event, datachannel.ChannelMessage):
            self.emit("message", event.data)
        elif isinstance(event, datachannel.ChannelOpened):
            if not self._announced:
                self.emit("open")
        elif isinstance(event, datachannel.BufferedAmountLow):
            self.emit("bufferedamountlow")
        elif isinstance(event, datachannel.ChannelClosed) and not self._closed:
            self._closed = True
            self.emit("close")
            self.remove_all_listeners()
