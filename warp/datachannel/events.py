"""What the channels say upward. `channel` is the object that `create_channel` returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from warp.contract import Event
from warp.errors import WarpError

if TYPE_CHECKING:
    from warp.datachannel.channel import Channel


@dataclass(frozen=True, slots=True)
class ChannelAnnounced(Event):
    """The peer opened a channel; its `ChannelOpened` and its messages follow."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class ChannelOpened(Event):
    """The channel can be sent on."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class ChannelMessage(Event):
    """One whole message: text as `str`, binary as `bytes`."""

    channel: Channel
    data: str | bytes


@dataclass(frozen=True, slots=True)
class ChannelClosing(Event):
    """The peer closes the channel; nothing more can be sent, `ChannelClosed` follows."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class ChannelClosed(Event):
    """The channel is gone; `error` says why when nobody asked for it."""

    channel: Channel
    error: WarpError | None


@dataclass(frozen=True, slots=True)
class BufferedAmountLow(Event):
    """The unsent bytes fell from above `buffered_amount_low_threshold` to it or below."""

    channel: Channel
