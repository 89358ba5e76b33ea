"""What may be asked of a channel."""

from __future__ import annotations

import pytest

from warp.datachannel import ChannelConfig, DcepOpen
from warp.datachannel.dcep import Reliability
from warp.errors import InvalidConfig


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retransmits": 1, "max_packet_lifetime_s": 1.0},
        {"max_retransmits": -1},
        {"max_retransmits": 65536},
        {"max_packet_lifetime_s": -0.1},
        {"max_packet_lifetime_s": 66.0},
        {"label": "a" * 65536},
        {"protocol": "é" * 32768},
        {"priority": 65536},
        {"negotiated": True},
        {"negotiated": True, "stream_id": 65535},
        {"negotiated": True, "stream_id": -1},
    ],
)
def test_dc_3_what_cannot_be_is_refused(wrong: dict) -> None:
    with pytest.raises(InvalidConfig):
        ChannelConfig(**wrong)


def test_dc_3_the_ends_of_the_range_are_fine() -> None:
    assert ChannelConfig(negotiated=True, stream_id=0).stream_id == 0
    assert ChannelConfig(negotiated=True, stream_id=65534).stream_id == 65534


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ChannelConfig(label="a"), DcepOpen("a")),
        (
            ChannelConfig(label="a", ordered=False, max_retransmits=0),
            DcepOpen("a", "", False, Reliability.RETRANSMITS, 0),
        ),
        (
            ChannelConfig(label="a", protocol="p", max_packet_lifetime_s=0.5, priority=512),
            DcepOpen("a", "p", True, Reliability.LIFETIME, 500, 512),
        ),
        (
            ChannelConfig(label="a", max_packet_lifetime_s=0),
            DcepOpen("a", "", True, Reliability.LIFETIME, 0),
        ),
    ],
)
def test_config_and_open_say_the_same(config: ChannelConfig, message: DcepOpen) -> None:
    assert config.to_open() == message
    back = ChannelConfig.from_open(message, 6)
    assert (back.label, back.ordered, back.max_retransmits, back.max_packet_lifetime_s) == (
        config.label,
        config.ordered,
        config.max_retransmits,
        config.max_packet_lifetime_s,
    )
    assert back.stream_id == 6


def test_dc_17_zero_is_not_unset() -> None:
    assert ChannelConfig(max_retransmits=0).to_open().reliability is Reliability.RETRANSMITS
    assert ChannelConfig(max_packet_lifetime_s=0.0).to_open().reliability is Reliability.LIFETIME
