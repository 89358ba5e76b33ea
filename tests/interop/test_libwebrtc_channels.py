"""Data channels between libwebrtc and us: every kind, opened by either side, closed by either."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.interop.libwebrtc import WARP, Call, libwebrtc_calls, prepared, talk, we_call
from tests.interop.loops import run
from warp.datachannel import ChannelState
from warp.errors import MessageTooLarge
from warp.io import Channel, ServerConfig, Session

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("libwebrtc")]

trials_of = pytest.mark.parametrize("trials", ["", WARP], ids=["default", "warp"])
MESSAGES: list[str | bytes] = [
    "text", "", b"", b"\0", "ünï¢ödé \U0001f600", bytes(range(256)), b"x" * 1200, "y" * 70_000,
]  # fmt: skip
INTERLEAVING = "WebRTC-DataChannelMessageInterleaving/Enabled/"


async def both_ways(call: Call, channel: Channel, messages: list[str | bytes]) -> None:
    """Send the messages each way at once; all arrive whole, in order, with their kind."""
    label = channel.label
    await channel.opened()
    await call.peer.opened_at(label)
    for message in messages:
        channel.send(message)
        call.peer.send(label, message)
    assert [await anext(channel) for _ in messages] == messages
    assert [await call.peer.message(label) for _ in messages] == messages


@trials_of
def test_negotiated_channels_of_many_ids(trials: str) -> None:
    ids = (0, 1, 7, 1000, 1023)

    def prepare(session: Session) -> Channel:
        channels = [session.channel(f"n{i}", negotiated=True, stream_id=i) for i in ids]
        made.extend(channels)
        return channels[0]

    made: list[Channel] = []
    theirs = [{"label": f"n{i}", "negotiated": True, "id": i} for i in ids]

    async def test() -> None:
        async with libwebrtc_calls(trials, prepare=prepare, channels=theirs) as call:
            for channel in made:
                await both_ways(call, channel, MESSAGES)

    run(test())


THEIRS: list[dict[str, Any]] = [
    {"label": "plain"},
    {"label": "länger", "protocol": "voice-control", "ordered": False},
    {"label": "lossy", "max_retransmits": 0, "ordered": False},
    {"label": "timed", "max_packet_life_time": 2500},
    {"label": ""},
]


@trials_of
@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
def test_channels_that_libwebrtc_opens(trials: str, passive: bool) -> None:
    async def test() -> None:
        config = ServerConfig(passive=passive)
        async with libwebrtc_calls(trials, config, channels=THEIRS) as call:
            await call.session.connected()
            incoming = call.session.channels()
            by_label = {(c := await anext(incoming)).label: c for _ in THEIRS}
            for kind in THEIRS:
                channel = by_label[kind["label"]]
                await both_ways(call, channel, ["a", b"b", "", b"c" * 3000])
                assert channel.protocol == kind.get("protocol", "")
                assert channel.ordered == kind.get("ordered", True)
                assert channel.max_retransmits == kind.get("max_retransmits")
                timed = "max_packet_life_time" in kind
                assert channel.max_packet_lifetime_s == (2.5 if timed else None)
                # RFC 8832 section 6: the DTLS client has the even ids
                theirs = (await call.peer.wait("open", label=channel.label))["id"]
                assert channel.stream_id == theirs
                assert theirs % 2 == (0 if passive else 1)

    run(test())


OURS: list[dict[str, Any]] = [
    {"label": "plain"},
    {"label": "länger", "protocol": "voice-control", "ordered": False},
    {"label": "lossy", "max_retransmits": 3, "ordered": False},
    {"label": "timed", "max_packet_lifetime_s": 0.25},
    {"label": ""},
]


@trials_of
@pytest.mark.parametrize("early", [True, False], ids=["at-once", "later"])
def test_channels_that_we_open(trials: str, early: bool) -> None:
    async def test() -> None:
        opened: list[Channel] = []

        def prepare(session: Session) -> Channel:
            opened.extend(session.channel(**kind) for kind in OURS if early)
            return prepared(session)

        async with libwebrtc_calls(trials, prepare=prepare) as call:
            await talk(call)
            if not early:
                opened.extend(call.session.channel(**kind) for kind in OURS)
            for kind, channel in zip(OURS, opened, strict=True):
                await both_ways(call, channel, ["a", b"b", "", b"c" * 3000])
                there = await call.peer.wait("announced", label=kind["label"])
                assert there["protocol"] == kind.get("protocol", "")
                assert there["ordered"] == kind.get("ordered", True)
                assert there["max_retransmits"] == kind.get("max_retransmits")
                timed = "max_packet_lifetime_s" in kind
                assert there["max_packet_life_time"] == (250 if timed else None)
                assert there["id"] == channel.stream_id
                assert there["id"] % 2 == 1

    run(test())


@trials_of
def test_much_at_once_on_a_path_that_loses(trials: str) -> None:
    luck = random.Random(1)
    messages: list[str | bytes] = [luck.randbytes(luck.randrange(20_000)) for _ in range(60)]

    async def test() -> None:
        async with libwebrtc_calls(trials, prepare=prepared, loss=0.03, delay_s=0.01) as call:
            await talk(call)
            assert call.channel is not None
            await both_ways(call, call.channel, messages)

    run(test())


def test_largest_messages() -> None:
    """Both sides take 262144 bytes; one more is refused before it is sent."""
    largest = bytes(range(256)) * 1024

    async def test() -> None:
        async with libwebrtc_calls(WARP, prepare=prepared) as call:
            await talk(call, largest, "z" * len(largest))
            assert call.channel is not None
            with pytest.raises(MessageTooLarge):
                call.channel.send(largest + b"!")
            await talk(call, "still there")

    run(test())


@trials_of
@pytest.mark.parametrize("we_close", [True, False], ids=["we", "libwebrtc"])
def test_one_channel_closes_and_its_id_serves_again(trials: str, we_close: bool) -> None:
    async def test() -> None:
        async with we_call(trials, prepare=prepared) as call:
            await talk(call, "before")
            for turn in range(3):
                label = f"turn {turn}"
                channel = call.session.channel(label)
                await both_ways(call, channel, [label, b"", "last"])
                if we_close:
                    channel.send("farewell")
                    channel.close()
                    assert await call.peer.message(label) == "farewell"
                else:
                    call.peer.send(label, "farewell")
                    call.peer.tell("close_channel", label=label)
                assert [message async for message in channel] == ([] if we_close else ["farewell"])
                await call.peer.take("channel_closed", label=label)
                assert channel.state is ChannelState.CLOSED
                assert channel.stream_id == 1
            await talk(call, "after")

    run(test())


@pytest.mark.parametrize("snap", [True, False], ids=["snap", "classic"])
def test_libwebrtc_may_interleave_messages_and_we_may_not(snap: bool) -> None:
    """RFC 8260: it is used when both sides say so."""

    async def test() -> None:
        trials = (WARP if snap else "") + INTERLEAVING
        async with libwebrtc_calls(trials, prepare=prepared) as call:
            await talk(call, "short", b"x" * 200_000)

    run(test())
