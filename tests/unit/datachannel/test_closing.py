"""Channels end: both resets, at once, before the start, with the association, never answered."""

from __future__ import annotations

import pytest

from tests.unit.datachannel.fake import Side, pair, settle
from warp.datachannel import (
    ChannelClosed,
    ChannelClosing,
    ChannelConfig,
    ChannelDiscard,
    ChannelMessage,
    ChannelState,
    DcepOpen,
    Ppid,
    RegistryConfig,
)
from warp.errors import AssociationLost, InvalidConfig, InvalidState
from warp.sctp import StreamsReset

CONFIG = ChannelConfig(negotiated=True, stream_id=6)


def connected(config: RegistryConfig | None = None):
    client, server = pair(config=config)
    ours = client.registry.create_channel(CONFIG, 0.0)
    theirs = server.registry.create_channel(CONFIG, 0.0)
    settle(client, server)
    client.said.clear()
    server.said.clear()
    return client, server, ours, theirs


def test_dc_12_close_ends_both_sides_in_order() -> None:
    client, server, ours, theirs = connected()
    ours.send("last", 0.0)
    ours.close(0.0)
    assert ours.state is ChannelState.CLOSING
    settle(client, server)
    assert client.said == [ChannelClosed(ours, None)]
    assert server.said == [
        ChannelMessage(theirs, "last"), ChannelClosing(theirs), ChannelClosed(theirs, None),
    ]  # fmt: skip
    assert ours.state is theirs.state is ChannelState.CLOSED
    assert client.registry.channels == server.registry.channels == []


def test_dc_12_the_id_is_free_after_both_resets_only() -> None:
    client, server, ours, _ = connected()
    ours.close(0.0)
    with pytest.raises(InvalidConfig):
        client.registry.create_channel(CONFIG, 0.0)
    client.turn()
    with pytest.raises(InvalidConfig):
        client.registry.create_channel(CONFIG, 0.0)
    settle(client, server)
    assert client.registry.create_channel(CONFIG, 0.0).state is ChannelState.OPEN


def test_dc_12_nothing_can_be_sent_once_closing() -> None:
    _client, server, ours, theirs = connected()
    ours.close(0.0)
    server.turn()
    for channel in (ours, theirs):
        with pytest.raises(InvalidState, match="closing"):
            channel.send("x", 0.0)


def test_what_arrives_after_our_close_is_dropped() -> None:
    client, server, ours, theirs = connected()
    server.association.hold = True
    theirs.send("late", 0.0)
    ours.close(0.0)
    settle(client, server)
    assert [e for e in client.said if isinstance(e, ChannelMessage)] == []
    assert client.registry.discards[ChannelDiscard.NOT_OPEN] == 1
    assert ours.state is theirs.state is ChannelState.CLOSED


def test_closing_twice_is_harmless() -> None:
    client, server, ours, _ = connected()
    ours.close(0.0)
    ours.close(0.0)
    settle(client, server)
    ours.close(0.0)
    assert client.association.resets == [[6]]
    assert client.said == [ChannelClosed(ours, None)]


def test_a_negotiated_channel_that_only_the_peer_made_can_close() -> None:
    client, server = pair()
    for n in range(1, 4):
        ours = client.registry.create_channel(CONFIG, 0.0)
        ours.send("never heard", 0.0)
        ours.close(0.0)
        settle(client, server)
        assert ours.state is ChannelState.CLOSED
        assert server.association.resets == [[6]] * n
    assert server.said == []


def test_resets_of_streams_that_nobody_knows_end() -> None:
    client, server = pair()
    client.association.happened.append(StreamsReset((8,), incoming=True))
    settle(client, server)
    assert len(client.association.resets) + len(server.association.resets) <= 2


def test_dc_13_both_sides_close_at_once() -> None:
    client, server, ours, theirs = connected()
    ours.close(0.0)
    theirs.close(0.0)
    settle(client, server)
    assert client.said == [ChannelClosed(ours, None)]
    assert server.said == [ChannelClosed(theirs, None)]


def test_dc_13_many_channels_close_together() -> None:
    client, server = pair()
    channels = [client.registry.create_channel(ChannelConfig(), 0.0) for _ in range(50)]
    settle(client, server)
    for channel in channels[::2]:
        channel.close(0.0)
    settle(client, server)
    assert [c.state for c in channels] == [ChannelState.CLOSED, ChannelState.OPEN] * 25
    assert len(server.registry.channels) == 25


def test_a_reset_of_no_named_stream_is_one_of_all() -> None:
    client, server = pair()
    channels = [client.registry.create_channel(ChannelConfig(), 0.0) for _ in range(3)]
    settle(client, server)
    client.association.happened.append(StreamsReset((), incoming=True))
    client.turn()
    assert {c.state for c in channels} == {ChannelState.CLOSED, ChannelState.CLOSING} - {
        ChannelState.CLOSED
    }


def test_dc_14_close_before_the_association_is_immediate() -> None:
    side = Side(is_client=None)
    channels = [
        side.registry.create_channel(ChannelConfig(), 0.0),
        side.registry.create_channel(CONFIG, 0.0),
    ]
    for channel in channels:
        channel.close(0.0)
        assert channel.state is ChannelState.CLOSED
    side.association.establish()
    side.registry.set_dtls_role(True, 0.0)
    assert [type(e) for e in side.turn()] == [ChannelClosed, ChannelClosed]
    assert side.association.sent == [] and side.association.resets == []


def test_dc_14_an_abort_closes_every_channel_with_its_error() -> None:
    client, _, ours, _ = connected()
    waiting = client.registry.create_channel(ChannelConfig(), 0.0)
    client.turn()
    client.said.clear()
    error = AssociationLost("peer aborted")
    client.association.terminate(error)
    client.turn()
    assert client.said == [ChannelClosed(ours, error), ChannelClosed(waiting, error)]
    assert client.registry.error is error
    ours.close(0.0)
    assert client.turn() == []


def test_dc_14_messages_before_the_abort_are_delivered() -> None:
    _client, server, ours, theirs = connected()
    ours.send("last words", 0.0)
    server.association.terminate(None)
    server.turn()
    assert server.said == [ChannelMessage(theirs, "last words"), ChannelClosed(theirs, None)]


def test_dc_14_closing_the_registry_closes_all_and_aborts() -> None:
    client, _, ours, _ = connected()
    client.registry.close(0.0)
    assert ours.state is ChannelState.CLOSED
    assert client.turn() == [ChannelClosed(ours, None)]
    assert client.association.aborted
    client.registry.close(0.0)
    assert client.turn() == []


def test_dc_16_a_peer_that_cannot_reset_costs_the_id() -> None:
    client, _server, ours, _ = connected()
    client.association.can_reset = False
    ours.close(0.0)
    client.turn()
    assert client.said == [ChannelClosed(ours, None)]
    with pytest.raises(InvalidConfig, match="cannot be used"):
        client.registry.create_channel(CONFIG, 0.0)
    dynamic = client.registry.create_channel(ChannelConfig(), 0.0)
    dynamic.close(0.0)
    client.turn()
    assert client.registry.create_channel(ChannelConfig(), 0.0).stream_id != dynamic.stream_id


def test_a_peer_that_never_resets_meets_the_deadline() -> None:
    client, server, ours, _ = connected(RegistryConfig(close_timeout_s=5.0))
    server.association.can_reset = False
    ours.close(1.0)
    client.turn(1.0)
    assert client.registry.get_timer() == 6.0
    client.registry.handle_timer(5.9)
    assert ours.state is ChannelState.CLOSING
    client.registry.handle_timer(6.0)
    assert ours.state is ChannelState.CLOSED and client.registry.get_timer() is None
    with pytest.raises(InvalidConfig):
        client.registry.create_channel(CONFIG, 6.0)


def test_the_deadline_waits_for_data_that_still_leaves() -> None:
    client, _, ours, _ = connected(RegistryConfig(close_timeout_s=5.0))
    client.association.hold = True
    client.association.answers_resets = False
    ours.close(0.0)
    client.association.held.append((6, 53, b"x"))
    client.registry.handle_timer(5.0)
    assert ours.state is ChannelState.CLOSING
    assert client.registry.get_timer() == 10.0
    client.association.held.clear()
    client.registry.handle_timer(10.0)
    assert ours.state is ChannelState.CLOSED


def test_dc_15_the_next_channel_may_arrive_with_the_reset() -> None:
    """The peer heard our reset, sent its own, and used the id again, all in one batch."""
    client, server = pair()
    first = client.registry.create_channel(ChannelConfig(label="first"), 0.0)
    settle(client, server)
    accepted = server.registry.channel(0)
    server.said.clear()
    accepted.close(0.0)
    server.turn()
    server.association.happened.append(StreamsReset((0,), incoming=True))
    server.association.inbox.append((0, Ppid.DCEP, DcepOpen("second").to_bytes()))
    server.association.inbox.append((0, Ppid.STRING, b"new"))
    server.turn()
    assert server.names() == [
        "ChannelClosed",
        "ChannelAnnounced",
        "ChannelOpened",
        "ChannelMessage",
    ]
    assert server.registry.channel(0).label == "second"
    assert first.label == "first"


def test_dc_15_the_next_channel_may_overtake_the_answer_to_our_reset() -> None:
    client, server = pair()
    client.registry.create_channel(ChannelConfig(label="first"), 0.0)
    settle(client, server)
    server.said.clear()
    server.association.answers_resets = False
    server.association.happened.append(StreamsReset((0,), incoming=True))
    server.turn()
    server.association.inbox.append((0, Ppid.DCEP, DcepOpen("second").to_bytes()))
    server.association.inbox.append((0, Ppid.STRING, b"new"))
    server.turn()
    assert server.names() == ["ChannelClosing"]
    server.association.happened.append(StreamsReset((0,), incoming=False))
    server.turn()
    assert server.names() == [
        "ChannelClosing", "ChannelClosed", "ChannelAnnounced", "ChannelOpened", "ChannelMessage",
    ]  # fmt: skip
    assert not server.registry.discards


def test_dc_15_the_next_channel_may_even_be_closed_before_the_answer() -> None:
    client, server = pair()
    client.registry.create_channel(ChannelConfig(label="first"), 0.0)
    settle(client, server)
    server.said.clear()
    server.association.answers_resets = False
    server.association.happened.append(StreamsReset((0,), incoming=True))
    server.turn()
    server.association.inbox.append((0, Ppid.DCEP, DcepOpen("second").to_bytes()))
    server.association.inbox.append((0, Ppid.STRING, b"new"))
    server.association.happened.append(StreamsReset((0,), incoming=True))
    server.turn()
    server.association.happened.append(StreamsReset((0,), incoming=False))
    server.turn()
    assert server.names() == [
        "ChannelClosing", "ChannelClosed",
        "ChannelAnnounced", "ChannelOpened", "ChannelMessage", "ChannelClosing",
    ]  # fmt: skip
    assert server.association.resets == [[0], [0]]


def test_dc_15_the_same_id_serves_a_thousand_times() -> None:
    client, server = pair()
    for n in range(1000):
        channel = client.registry.create_channel(ChannelConfig(label=str(n)), 0.0)
        assert channel.stream_id == 0
        channel.send(str(n), 0.0)
        channel.close(0.0)
        settle(client, server)
    heard = [(e.channel.label, e.data) for e in server.said if isinstance(e, ChannelMessage)]
    assert heard == [(str(n), str(n)) for n in range(1000)]


def test_a_trace_tells_the_states() -> None:
    from warp.datachannel import ChannelRegistry
    from warp.trace import MemoryTrace

    trace = MemoryTrace()
    side = Side(is_client=True)
    side.registry = ChannelRegistry(side.association, is_dtls_client=True, trace=trace)
    side.association.establish()
    channel = side.registry.create_channel(CONFIG, 0.0)
    side.turn()
    side.association.inbox.append((6, 99, b"?"))
    side.turn()
    channel.close(0.0)
    states = [d["state"] for _, d in trace.named("datachannel:state_updated")]
    assert states == ["open", "closing"]
    assert len(trace.named("datachannel:message_discarded")) == 1
