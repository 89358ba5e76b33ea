"""Data channels over SCTP streams (RFC 8831, RFC 8832): many channels, one association.

    Channel.send --> PPID 51/53/56/57 --> Association --> DTLS
    DTLS --> Association --> ChannelRegistry --> PPID 50: DCEP, announces a channel
                                             `-> else: ChannelMessage

`ChannelRegistry` is driven by `warp.peer` with the verbs of the association below it.
"""

from warp.datachannel.channel import Channel, ChannelState
from warp.datachannel.config import ChannelConfig, RegistryConfig
from warp.datachannel.dcep import DcepDiscard, DcepOpen, Ppid, parse_dcep
from warp.datachannel.events import (
    BufferedAmountLow,
    ChannelAnnounced,
    ChannelClosed,
    ChannelClosing,
    ChannelMessage,
    ChannelOpened,
)
from warp.datachannel.registry import ChannelDiscard, ChannelRegistry, ChannelRule

__all__ = [
    "BufferedAmountLow",
    "Channel",
    "ChannelAnnounced",
    "ChannelClosed",
    "ChannelClosing",
    "ChannelConfig",
    "ChannelDiscard",
    "ChannelMessage",
    "ChannelOpened",
    "ChannelRegistry",
    "ChannelRule",
    "ChannelState",
    "DcepDiscard",
    "DcepOpen",
    "Ppid",
    "RegistryConfig",
    "parse_dcep",
]
