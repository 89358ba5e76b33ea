"""A registry of channels that is sent any messages and resets, told by bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.mutation import Script, mutate
from tests.unit.datachannel.fake import Side
from warp.datachannel import ChannelConfig, DcepOpen, RegistryConfig
from warp.datachannel.payloads import decode_payload, encode_payload
from warp.sctp import ResetResult, StreamsReset, StreamsResetFailed

pytestmark = pytest.mark.slow

STREAMS = (0, 1, 2, 3, 7, 65534, 65535)
PPIDS = (50, 51, 52, 53, 54, 56, 57, 0)
OPEN = DcepOpen("label", protocol="p").to_bytes()
LIMITS = RegistryConfig(max_channels=4, early_messages=8, early_bytes=100, receive_limit=20)


def fuzz_payload(data: bytes) -> None:
    """A message, None for a PPID without a meaning, or text that is none; and back again."""
    if not data:
        return
    try:
        message = decode_payload(data[0], data[1:])
    except UnicodeDecodeError:
        return
    if message is not None:
        ppid, payload = encode_payload(message)
        assert decode_payload(ppid, payload) == message


def fuzz_channel_peer(data: bytes) -> None:
    """Any order of OPEN, ACK, messages, resets and refusals: few channels, all of which end."""
    script = Script(data)
    side = Side(is_client=bool(script.below(2)), config=LIMITS)
    side.association.peer = type(side.association)()
    side.association.establish()
    side.registry.create_channel(ChannelConfig(label="own"), 0.0)
    side.registry.create_channel(ChannelConfig(negotiated=True, stream_id=7), 0.0)
    now = 0.0
    while script:
        choice, stream = script.below(8), STREAMS[script.below(len(STREAMS))]
        if choice < 2:
            side.association.inbox.append((stream, 50, mutate(OPEN, script)))
        elif choice == 2:
            side.association.inbox.append((stream, 50, b"\x02"))
        elif choice < 6:
            ppid = PPIDS[script.below(len(PPIDS))]
            side.association.inbox.append((stream, ppid, script.take(30)))
        elif choice == 6:
            side.association.happened.append(StreamsReset((stream,), bool(script.below(2))))
        else:
            side.association.happened.append(StreamsResetFailed((stream,), ResetResult.DENIED))
        if script.below(2):
            now += 1.0
            side.turn(now)
            side.said.clear()
        assert len(side.registry.channels) <= 4
        early = side.registry._early
        assert early is None or early._bytes <= 100
    side.turn(now)
    side.registry.close(now)
    side.turn(now)
    assert side.registry.channels == []
    assert side.registry.get_timer() is None


@given(st.binary(max_size=40))
def test_payloads(data: bytes) -> None:
    fuzz_payload(data)


@given(st.binary(max_size=200))
def test_any_peer(data: bytes) -> None:
    fuzz_channel_peer(data)
