"""Channels come up: ids, DCEP, negotiated ones, what peers get wrong."""

from __future__ import annotations

import pytest

from tests.unit.datachannel.fake import Side, pair, settle
from warp.datachannel import (
    ChannelAnnounced,
    ChannelClosed,
    ChannelConfig,
    ChannelDiscard,
    ChannelMessage,
    ChannelOpened,
    ChannelRule,
    ChannelState,
    DcepDiscard,
    DcepOpen,
    Ppid,
    RegistryConfig,
)
from warp.errors import InvalidConfig, InvalidState, PeerMisbehaved, UnknownChannel

NEGOTIATED = ChannelConfig(label="n", negotiated=True, stream_id=4)


def inject(side: Side, stream_id: int, ppid: int, data: bytes) -> None:
    """Something the other side sent."""
    side.association.inbox.append((stream_id, ppid, data))


def test_dc_1_open_and_ack_on_the_wire() -> None:
    client, server = pair()
    channel = client.registry.create_channel(ChannelConfig(label="é", protocol="x"), 0.0)
    settle(client, server)
    assert client.association.sent == [
        (0, 50, bytes.fromhex("030001000000000000020001c3a978"), {"ordered": True})
    ]
    assert server.association.sent == [(0, 50, b"\x02", {"ordered": True})]
    assert not channel.announces


def test_dc_2_parity_follows_the_dtls_role() -> None:
    client, server = pair()
    ours = [client.registry.create_channel(ChannelConfig(label=str(n)), 0.0) for n in range(3)]
    theirs = [server.registry.create_channel(ChannelConfig(label=str(n)), 0.0) for n in range(3)]
    assert [c.stream_id for c in ours] == [0, 2, 4]
    assert [c.stream_id for c in theirs] == [1, 3, 5]
    settle(client, server)
    assert {c.stream_id for c in client.registry.channels} == {0, 1, 2, 3, 4, 5}
    assert not client.registry.discards and not server.registry.discards


def test_dc_3_ids_are_null_until_both_role_and_association_are_known() -> None:
    side = Side(is_client=None)
    early = side.registry.create_channel(ChannelConfig(label="early"), 0.0)
    assert early.stream_id is None and early.state is ChannelState.CONNECTING
    side.association.establish()
    side.turn()
    assert early.stream_id is None
    side.registry.set_dtls_role(False, 0.0)
    assert (early.stream_id, early.state) == (1, ChannelState.OPEN)


def test_dc_3_role_before_association_is_as_good() -> None:
    side = Side(is_client=None)
    early = side.registry.create_channel(ChannelConfig(), 0.0)
    side.registry.set_dtls_role(True, 0.0)
    assert early.stream_id is None
    side.association.establish()
    side.turn()
    assert early.stream_id == 0


def test_dc_3_negotiated_ids_are_skipped_and_id_zero_works() -> None:
    client, server = pair()
    zero = ChannelConfig(negotiated=True, stream_id=0)
    ours, theirs = (
        client.registry.create_channel(zero, 0.0),
        server.registry.create_channel(zero, 0.0),
    )
    assert client.registry.create_channel(ChannelConfig(), 0.0).stream_id == 2
    ours.send("hi", 0.0)
    settle(client, server)
    assert ChannelMessage(theirs, "hi") in server.said
    assert server.registry.channel(0) is theirs


def test_dc_3_duplicates_and_missing_streams_are_refused() -> None:
    client, _ = pair(established=False)
    client.association.establish(streams=10)
    client.turn()
    client.registry.create_channel(NEGOTIATED, 0.0)
    with pytest.raises(InvalidConfig, match="already"):
        client.registry.create_channel(NEGOTIATED, 0.0)
    with pytest.raises(InvalidConfig, match="cannot be used"):
        client.registry.create_channel(ChannelConfig(negotiated=True, stream_id=10), 0.0)
    with pytest.raises(UnknownChannel):
        client.registry.channel(9)


def test_dc_3_a_negotiated_id_beyond_the_agreed_streams_closes() -> None:
    side = Side(is_client=True)
    channel = side.registry.create_channel(ChannelConfig(negotiated=True, stream_id=100), 0.0)
    side.association.establish(streams=50)
    assert isinstance(side.turn()[0], ChannelClosed)
    assert channel.state is ChannelState.CLOSED and channel.error is not None


def test_dc_3_when_ids_run_out_creation_fails() -> None:
    side = Side(is_client=True)
    side.association.establish(streams=2)
    side.turn()
    side.registry.create_channel(ChannelConfig(), 0.0)
    with pytest.raises(InvalidState, match="no stream id"):
        side.registry.create_channel(ChannelConfig(), 0.0)


def test_an_id_without_negotiated_is_ignored() -> None:
    client, _ = pair()
    assert client.registry.create_channel(ChannelConfig(stream_id=9), 0.0).stream_id == 0


def test_dc_4_negotiated_channels_put_nothing_on_the_wire() -> None:
    client, server = pair(established=False)
    ours = client.registry.create_channel(NEGOTIATED, 0.0)
    assert ours.state is ChannelState.CONNECTING
    client.association.establish()
    assert client.turn() == [ChannelOpened(ours)]
    assert client.association.sent == []
    server.association.establish()
    theirs = server.registry.create_channel(NEGOTIATED, 0.0)
    assert server.turn() == [ChannelOpened(theirs)]
    assert server.association.sent == []


def test_dc_4_reliability_is_each_sides_own() -> None:
    client, server = pair()
    ours = client.registry.create_channel(
        ChannelConfig(negotiated=True, stream_id=4, ordered=False, max_retransmits=0), 0.0
    )
    theirs = server.registry.create_channel(NEGOTIATED, 0.0)
    ours.send(b"a", 0.0)
    theirs.send(b"b", 0.0)
    assert client.association.sent[0][3] == {
        "ordered": False, "max_retransmits": 0, "lifetime_s": None,
    }  # fmt: skip
    assert server.association.sent[0][3] == {
        "ordered": True, "max_retransmits": None, "lifetime_s": None,
    }  # fmt: skip


def test_dc_4_data_before_the_remote_creation_waits() -> None:
    client, server = pair()
    client.registry.create_channel(NEGOTIATED, 0.0).send("early", 0.0)
    settle(client, server)
    assert server.said == [] and server.association.resets == []
    theirs = server.registry.create_channel(NEGOTIATED, 0.0)
    server.turn()
    assert server.said == [ChannelOpened(theirs), ChannelMessage(theirs, "early")]


def test_dc_4_early_data_is_bounded() -> None:
    client, server = pair(config=RegistryConfig(early_messages=2, early_bytes=10))
    channel = client.registry.create_channel(NEGOTIATED, 0.0)
    for data in (b"1234", b"12345678", b"12", b"3"):
        channel.send(data, 0.0)
    settle(client, server)
    assert server.registry.discards[ChannelDiscard.NO_CHANNEL] == 2
    server.registry.create_channel(NEGOTIATED, 0.0)
    server.turn()
    assert [e.data for e in server.said if isinstance(e, ChannelMessage)] == [b"1234", b"12"]


def test_dc_5_unordered_data_stays_ordered_until_the_answer() -> None:
    client, server = pair()
    channel = client.registry.create_channel(ChannelConfig(ordered=False, max_retransmits=3), 0.0)
    channel.send("before", 0.0)
    settle(client, server)
    channel.send("after", 0.0)
    ordered = [how["ordered"] for _, ppid, _, how in client.association.sent if ppid == Ppid.STRING]
    assert ordered == [True, False]
    limits = [how["max_retransmits"] for _, ppid, _, how in client.association.sent if ppid == 51]
    assert limits == [3, 3]


def test_dc_5_any_message_is_an_answer() -> None:
    client, _ = pair()
    channel = client.registry.create_channel(ChannelConfig(ordered=False), 0.0)
    inject(client, 0, Ppid.BINARY, b"x")
    client.turn()
    channel.send("after", 0.0)
    assert client.association.sent[-1][3]["ordered"] is False


def test_dc_6_dcep_is_reliable_and_ordered_whatever_the_channel() -> None:
    client, server = pair()
    client.registry.create_channel(ChannelConfig(ordered=False, max_retransmits=0), 0.0)
    settle(client, server)
    for side in (client, server):
        (message,) = side.association.sent
        assert message[3] == {"ordered": True}


def test_dc_7_the_acceptor_answers_first_and_takes_over_reliability() -> None:
    client, server = pair()
    client.registry.create_channel(
        ChannelConfig(label="l", protocol="p", ordered=False, max_packet_lifetime_s=0.25), 0.0
    )
    settle(client, server)
    announced, opened = server.said
    assert isinstance(announced, ChannelAnnounced) and isinstance(opened, ChannelOpened)
    channel = announced.channel
    assert (channel.label, channel.protocol, channel.stream_id) == ("l", "p", 0)
    channel.send(b"x", 0.0)
    assert [ppid for _, ppid, _, _ in server.association.sent] == [Ppid.DCEP, Ppid.BINARY]
    assert server.association.sent[1][3] == {
        "ordered": False, "max_retransmits": None, "lifetime_s": 0.251,
    }  # fmt: skip


def test_dc_18_messages_follow_their_announcement() -> None:
    client, server = pair()
    client.registry.create_channel(ChannelConfig(), 0.0).send("first", 0.0)
    settle(client, server)
    assert server.names() == ["ChannelAnnounced", "ChannelOpened", "ChannelMessage"]


def test_data_that_overtook_its_open_is_kept() -> None:
    _, server = pair()
    inject(server, 0, Ppid.STRING, b"overtook")
    inject(server, 0, Ppid.DCEP, DcepOpen("a", ordered=False).to_bytes())
    server.turn()
    assert server.names() == ["ChannelAnnounced", "ChannelOpened", "ChannelMessage"]


@pytest.mark.parametrize("wire", [b"", b"\x03", b"\x7f", b"\x03\x7f" + bytes(10)])
def test_dc_8_malformed_dcep_resets_its_stream_alone(wire: bytes) -> None:
    client, server = pair()
    other = server.registry.create_channel(ChannelConfig(), 0.0)
    inject(server, 0, Ppid.DCEP, wire)
    inject(server, 0, Ppid.DCEP, wire)
    settle(server, client)
    assert server.association.resets == [[0]]
    assert other.state is ChannelState.OPEN
    assert sum(server.registry.discards[r] for r in DcepDiscard) == 2


def test_dc_8_a_free_stream_of_the_wrong_parity_is_taken() -> None:
    """werift counts by its ICE role; browsers take what is free, whoever should have had it."""
    client, server = pair()
    inject(server, 1, Ppid.DCEP, DcepOpen("x").to_bytes())
    server.turn()
    assert server.association.resets == []
    assert server.association.sent == [(1, 50, b"\x02", {"ordered": True})]
    [announced, _] = server.said
    assert isinstance(announced, ChannelAnnounced)
    assert announced.channel.stream_id == 1
    ours = server.registry.create_channel(ChannelConfig(), 0.0)
    settle(server, client)
    assert ours.stream_id == 3


def test_dc_8_too_many_channels_are_refused() -> None:
    client, server = pair(config=RegistryConfig(max_channels=2))
    for _ in range(3):
        client.registry.create_channel(ChannelConfig(), 0.0)
    server.turn()
    assert server.association.resets == [[4]]
    assert server.registry.discards[ChannelDiscard.TOO_MANY_CHANNELS] == 1


def test_dc_8_open_on_a_stream_in_use_closes_that_channel_only() -> None:
    client, server = pair()
    used = server.registry.create_channel(NEGOTIATED, 0.0)
    other = server.registry.create_channel(ChannelConfig(), 0.0)
    inject(server, 4, Ppid.DCEP, DcepOpen("again").to_bytes())
    settle(server, client)
    assert isinstance(used.error, PeerMisbehaved)
    assert used.error.rule is ChannelRule.STREAM_IN_USE
    assert used.state is ChannelState.CLOSED
    assert other.state is ChannelState.OPEN


def test_dc_8_an_unexpected_ack_is_ignored() -> None:
    _client, server = pair()
    channel = server.registry.create_channel(NEGOTIATED, 0.0)
    inject(server, 4, Ppid.DCEP, b"\x02")
    inject(server, 8, Ppid.DCEP, b"\x02")
    server.turn()
    assert channel.state is ChannelState.OPEN
    assert server.registry.discards[ChannelDiscard.UNEXPECTED_ACK] == 2


def test_channels_can_be_made_before_the_association_only_while_it_lives() -> None:
    client, _ = pair()
    client.association.terminate(None)
    client.turn()
    with pytest.raises(InvalidState, match="ended"):
        client.registry.create_channel(ChannelConfig(), 0.0)
