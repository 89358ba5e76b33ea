"""Any DCEP bytes, any messages and resets from a peer: a value, an event, or a discard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.datachannel.fake import Side
from warp.datachannel import ChannelConfig, DcepOpen, RegistryConfig, parse_dcep
from warp.errors import Discard
from warp.sctp import ResetResult, StreamsReset, StreamsResetFailed

pytestmark = pytest.mark.slow

STREAMS = st.sampled_from([0, 1, 2, 3, 7, 65534, 65535])
PPIDS = st.sampled_from([0, 50, 50, 50, 51, 52, 53, 54, 56, 57, 99])
OPENS = st.builds(lambda label: DcepOpen(label).to_bytes(), st.text(max_size=3))
PAYLOADS = st.one_of(OPENS, st.sampled_from([b"\x02", b"\x03"]), st.binary(max_size=30))
MESSAGES = st.tuples(STREAMS, PPIDS, PAYLOADS)
RESETS = st.builds(
    lambda ids, incoming: StreamsReset(tuple(ids), incoming),
    st.lists(STREAMS, max_size=3),
    st.booleans(),
)
FAILURES = st.builds(lambda sid: StreamsResetFailed((sid,), ResetResult.DENIED), STREAMS)
LIMITS = RegistryConfig(max_channels=4, early_messages=8, early_bytes=100, receive_limit=20)


def fuzz_dcep(data: bytes) -> None:
    """A message that can be written again, None for ACK, or a Discard."""
    try:
        message = parse_dcep(data)
    except Discard:
        return
    if message is not None:
        assert parse_dcep(message.to_bytes()) == message


@given(st.one_of(st.binary(max_size=64), OPENS))
def test_any_dcep(data: bytes) -> None:
    fuzz_dcep(data)
    fuzz_dcep(b"\x03" + data)


@given(
    st.booleans(),
    st.lists(st.lists(st.one_of(MESSAGES, RESETS, FAILURES), max_size=6), max_size=6),
)
def test_any_peer(is_client: bool, batches: list[list]) -> None:
    side = Side(is_client=is_client, config=LIMITS)
    side.association.peer = type(side.association)()
    side.association.establish()
    side.registry.create_channel(ChannelConfig(label="own"), 0.0)
    side.registry.create_channel(ChannelConfig(negotiated=True, stream_id=7), 0.0)
    for now, batch in enumerate(batches):
        for item in batch:
            if isinstance(item, tuple):
                side.association.inbox.append(item)
            else:
                side.association.happened.append(item)
        side.turn(float(now))
        assert len(side.registry.channels) <= 4
        for channel in side.registry.channels:
            if channel.state.value == "open":
                channel.send("x", float(now))
    # what a closed stream's next channel had sent may come up as a channel meanwhile
    for turn in range(1, 6):
        now = 1000.0 * turn
        for channel in side.registry.channels:
            channel.close(now)
        side.turn(now)
        side.registry.handle_timer(now + 999.0)
    assert side.registry.channels == []
    assert side.registry.get_timer() is None
