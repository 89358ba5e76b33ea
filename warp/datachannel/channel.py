"""One data channel: its life, and the way of a message out (RFC 8831, RFC 8832, W3C WebRTC 6.2).

    CONNECTING --association up, id known--> OPEN --close / peer's reset--> CLOSING --> CLOSED

Created by `ChannelRegistry` only, which also moves it from state to state. Applications call
`send`, `close` and read the properties.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from warp.datachannel.config import ChannelConfig
from warp.datachannel.payloads import encode_payload
from warp.errors import InternalError, InvalidState, MessageTooLarge, WarpError
from warp.names import Name

if TYPE_CHECKING:
    from warp.datachannel.registry import ChannelRegistry

# A message lives through its whole last millisecond: a lifetime of 0 still means one try, and the
# driver may drain a little after `send`.
_LIFETIME_STEP_S: Final = 0.001


class ChannelState(Name):
    """The states of W3C RTCDataChannelState."""

    CONNECTING = "connecting"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class ChannelInput(Name):
    """What moves a channel."""

    OPENED = "the association is up and the stream id is known"
    CLOSE = "closed by us"
    PEER_RESET = "the peer reset its outgoing stream"
    BOTH_RESET = "both directions are reset"
    GIVEN_UP = "the reset cannot be completed"
    LOST = "the association is gone"


_S, _I = ChannelState, ChannelInput
TRANSITIONS: Final[Mapping[tuple[ChannelState, ChannelInput], ChannelState]] = {
    (_S.CONNECTING, _I.OPENED): _S.OPEN,
    (_S.CONNECTING, _I.CLOSE): _S.CLOSED,
    (_S.CONNECTING, _I.LOST): _S.CLOSED,
    (_S.OPEN, _I.CLOSE): _S.CLOSING,
    (_S.OPEN, _I.PEER_RESET): _S.CLOSING,
    (_S.OPEN, _I.LOST): _S.CLOSED,
    (_S.CLOSING, _I.BOTH_RESET): _S.CLOSED,
    (_S.CLOSING, _I.GIVEN_UP): _S.CLOSED,
    (_S.CLOSING, _I.LOST): _S.CLOSED,
}


class Reset(enum.Flag):
    """How far the two stream resets of a closing channel are (RFC 6525, RFC 8831 section 6.7)."""

    NONE = 0
    OUTGOING = enum.auto()
    INCOMING = enum.auto()


class Channel:
    """A data channel. `stream_id` is None until the DTLS roles decide it (RFC 8832 section 6)."""

    __slots__ = (
        "_announces", "_lifetime_s", "_max_retransmits", "_ordered", "_owner", "_threshold",
        "config", "error", "resets", "state", "stream_id",
    )  # fmt: skip

    def __init__(
        self,
        owner: ChannelRegistry,
        config: ChannelConfig,
        stream_id: int | None,
        *,
        announces: bool,
    ) -> None:
        self._owner = owner
        self.config = config
        self.stream_id = stream_id
        self.state = ChannelState.CONNECTING
        self.error: WarpError | None = None
        self.resets = Reset.NONE
        # RFC 8832 section 6: what follows our OPEN stays in order until the peer has answered
        self._announces = announces
        self._ordered = config.ordered or announces
        self._max_retransmits = config.max_retransmits
        lifetime = config.max_packet_lifetime_s
        self._lifetime_s = None if lifetime is None else lifetime + _LIFETIME_STEP_S
        self._threshold = 0

    def __repr__(self) -> str:
        return f"<Channel {self.config.label!r} id={self.stream_id} {self.state.value}>"

    @property
    def label(self) -> str:
        """The name given at creation."""
        return self.config.label

    @property
    def protocol(self) -> str:
        """The subprotocol given at creation."""
        return self.config.protocol

    @property
    def announces(self) -> bool:
        """Whether we opened it with DCEP and the peer has not answered yet."""
        return self._announces

    @property
    def buffered_amount(self) -> int:
        """Bytes accepted by `send` that the network has not got yet."""
        if self.stream_id is None or self.state is ChannelState.CLOSED:
            return 0
        return self._owner.association.buffered_amount(self.stream_id)

    @property
    def buffered_amount_low_threshold(self) -> int:
        """At how many bytes `BufferedAmountLow` is said."""
        return self._threshold

    @buffered_amount_low_threshold.setter
    def buffered_amount_low_threshold(self, value: int) -> None:
        self._threshold = value
        if self.state is not ChannelState.CONNECTING:  # else there is nothing unsent yet
            self._owner.watch(self)

    def send(self, data: str | bytes | bytearray | memoryview, now: float) -> None:
        """Send one message: text or bytes.

        Raises `InvalidState` unless open and `MessageTooLarge` beyond the peer's limit; the
        channel stays as it is then.
        """
        stream_id = self.stream_id
        if self.state is not ChannelState.OPEN or stream_id is None:
            raise InvalidState(f"the channel is {self.state.value}; send needs it to be open")
        ppid, payload = encode_payload(data)
        owner = self._owner
        if len(payload) > owner.send_limit:
            raise MessageTooLarge(f"{len(payload)} bytes; the peer takes {owner.send_limit}")
        owner.association.send_message(
            stream_id,
            ppid,
            payload,
            now,
            ordered=self._ordered,
            max_retransmits=self._max_retransmits,
            lifetime_s=self._lifetime_s,
        )
        owner.watch(self)

    def close(self, now: float) -> None:
        """Close once what was sent has left; `ChannelClosed` tells the end. Harmless later."""
        self._owner.close_channel(self, now)

    def receive_answer(self) -> None:
        """Take note that the peer knows the channel: an ACK or any message on it came."""
        self._announces = False
        self._ordered = self.config.ordered

    def advance(self, why: ChannelInput) -> None:
        """Move to the next state. Called by the registry."""
        following = TRANSITIONS.get((self.state, why))
        if following is None:
            raise InternalError(f"channel {self.state.value}: {why.value}")
        self.state = following
