"""Messages both ways: PPIDs, limits, what is buffered."""

from __future__ import annotations

import pytest

from tests.unit.datachannel.fake import pair, settle
from warp.datachannel import (
    BufferedAmountLow,
    ChannelClosed,
    ChannelConfig,
    ChannelDiscard,
    ChannelMessage,
    ChannelRule,
    ChannelState,
    Ppid,
    RegistryConfig,
)
from warp.errors import InvalidState, MessageTooLarge, PeerMisbehaved

CONFIG = ChannelConfig(negotiated=True, stream_id=6)


def connected(config: RegistryConfig | None = None):
    client, server = pair(config=config)
    ours = client.registry.create_channel(CONFIG, 0.0)
    theirs = server.registry.create_channel(CONFIG, 0.0)
    settle(client, server)
    return client, server, ours, theirs


@pytest.mark.parametrize(
    ("data", "ppid", "wire"),
    [
        ("hé", 51, b"h\xc3\xa9"),
        (b"\x00\xff", 53, b"\x00\xff"),
        (bytearray(b"ab"), 53, b"ab"),
        (memoryview(b"ab"), 53, b"ab"),
        ("", 56, b"\0"),
        (b"", 57, b"\0"),
    ],
)
def test_dc_9_ppids_of_what_we_send(data, ppid: int, wire: bytes) -> None:
    client, server, ours, theirs = connected()
    ours.send(data, 0.0)
    assert client.association.sent[-1][:3] == (6, ppid, wire)
    settle(client, server)
    expected = data if isinstance(data, str) else bytes(data)
    assert server.said[-1] == ChannelMessage(theirs, expected)


@pytest.mark.parametrize(
    ("ppid", "wire", "data"),
    [
        (Ppid.STRING_PARTIAL, b"part", "part"),
        (Ppid.BINARY_PARTIAL, b"part", b"part"),
        (Ppid.STRING_EMPTY, b"ignored", ""),
        (Ppid.BINARY_EMPTY, b"ignored", b""),
        (Ppid.STRING, b"a\xffb", "a\ufffdb"),
    ],
)
def test_dc_9_ppids_of_what_we_receive(ppid: int, wire: bytes, data: str | bytes) -> None:
    _, server, _, theirs = connected()
    server.association.inbox.append((6, ppid, wire))
    assert server.turn() == [ChannelMessage(theirs, data)]
    broken = int(ppid == Ppid.STRING)
    assert server.registry.discards[ChannelDiscard.INVALID_UTF8] == broken


@pytest.mark.parametrize("ppid", [0, 49, 55, 58, 2**32 - 1])
def test_dc_9_unknown_ppids_are_dropped(ppid: int) -> None:
    _, server, _, theirs = connected()
    server.association.inbox.append((6, ppid, b"?"))
    assert server.turn() == []
    assert server.registry.discards[ChannelDiscard.UNKNOWN_PPID] == 1
    assert theirs.state is ChannelState.OPEN


@pytest.mark.parametrize(
    ("limit", "cap", "fits"), [(100, 1000, 100), (None, 1000, 1000), (5000, 1000, 1000)]
)
def test_dc_10_send_limit(limit: int | None, cap: int, fits: int) -> None:
    _, _, ours, _ = connected(RegistryConfig(send_limit=limit, send_cap=cap))
    ours.send(bytes(fits), 0.0)
    with pytest.raises(MessageTooLarge):
        ours.send(bytes(fits + 1), 0.0)
    assert ours.state is ChannelState.OPEN


def test_dc_10_the_limit_without_an_attribute_is_64_ki() -> None:
    client, _, ours, _ = connected()
    with pytest.raises(MessageTooLarge):
        ours.send(bytes(65_537), 0.0)
    client.registry.set_send_limit(70_000)
    ours.send(bytes(65_537), 0.0)


def test_dc_10_the_limit_counts_bytes_of_text() -> None:
    _, _, ours, _ = connected(RegistryConfig(send_limit=3))
    ours.send("é", 0.0)
    with pytest.raises(MessageTooLarge):
        ours.send("éé", 0.0)


def test_dc_10_a_message_beyond_our_limit_closes_its_channel() -> None:
    client, server, ours, theirs = connected(RegistryConfig(receive_limit=10))
    other = server.registry.create_channel(ChannelConfig(), 0.0)
    ours.send(bytes(10), 0.0)
    ours.send(bytes(11), 0.0)
    settle(client, server)
    assert [e.data for e in server.said if isinstance(e, ChannelMessage)] == [bytes(10)]
    closed = next(e for e in server.said if isinstance(e, ChannelClosed))
    assert closed.channel is theirs and isinstance(closed.error, PeerMisbehaved)
    assert closed.error.rule is ChannelRule.MESSAGE_TOO_LARGE
    assert other.state is ChannelState.OPEN


def test_send_needs_an_open_channel() -> None:
    client, _ = pair(established=False)
    channel = client.registry.create_channel(CONFIG, 0.0)
    with pytest.raises(InvalidState, match="connecting"):
        channel.send("x", 0.0)
    channel.close(0.0)
    with pytest.raises(InvalidState, match="closed"):
        channel.send("x", 0.0)


def test_dc_11_buffered_amount_is_what_has_not_left() -> None:
    client, _server, ours, _ = connected()
    client.association.hold = True
    ours.send(bytes(100), 0.0)
    ours.send("x" * 50, 0.0)
    assert ours.buffered_amount == 150
    client.association.release(1)
    assert ours.buffered_amount == 50
    client.association.release()
    assert ours.buffered_amount == 0


def test_dc_11_low_is_said_once_on_the_way_down() -> None:
    client, _, ours, _ = connected()
    client.association.hold = True
    ours.buffered_amount_low_threshold = 100
    for _ in range(3):
        ours.send(bytes(60), 0.0)
    assert client.turn() == []
    client.association.release(1)
    assert client.turn() == []  # 120 bytes
    client.association.release(1)
    assert client.turn() == [BufferedAmountLow(ours)]
    assert client.turn() == []
    client.association.release()
    assert client.turn() == []  # from 60 to 0 crosses nothing
    ours.send(bytes(101), 0.0)
    client.association.release()
    assert client.turn() == [BufferedAmountLow(ours)]


def test_dc_11_at_threshold_zero_low_means_empty() -> None:
    client, _, ours, _ = connected()
    client.association.hold = True
    assert ours.buffered_amount_low_threshold == 0
    ours.send(b"x", 0.0)
    ours.send(b"y", 0.0)
    client.association.release(1)
    assert client.turn() == []
    client.association.release(1)
    assert client.turn() == [BufferedAmountLow(ours)]


def test_dc_11_moving_the_threshold_says_nothing_by_itself() -> None:
    client, _, ours, _ = connected()
    client.association.hold = True
    ours.send(bytes(100), 0.0)
    ours.buffered_amount_low_threshold = 200
    assert client.turn() == []
    ours.buffered_amount_low_threshold = 50
    client.association.release()
    assert client.turn() == [BufferedAmountLow(ours)]


def test_dc_11_a_message_that_leaves_at_once_says_nothing() -> None:
    client, _, ours, _ = connected()
    ours.send(bytes(1000), 0.0)
    assert client.turn() == []
