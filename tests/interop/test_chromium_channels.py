"""Data channels between Chromium and us: every kind, opened by either side, closed by either."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import Any

import pytest

from interop.chromium import ChromiumConfig
from tests.interop.browsers import PageCall, page_calls, prepared, talk, we_call_page
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import run
from warp.datachannel import ChannelState
from warp.errors import MessageTooLarge
from warp.io import Channel, ServerConfig, Session

pytestmark = [pytest.mark.interop, pytest.mark.slow]

flags_of = pytest.mark.parametrize("config", [DEFAULT, WARP], ids=["default", "warp"])
MESSAGES: list[str | bytes] = [
    "text", "", b"", b"\0", "ünï¢ödé \U0001f600", bytes(range(256)), b"x" * 1200, "y" * 70_000,
]  # fmt: skip
MEGABYTE = 1 << 20
CHROMIUMS_LARGEST = 262_144
"""What it sends in one message at most, whatever its peer takes."""


async def both_ways(call: PageCall, channel: Channel, messages: list[str | bytes]) -> None:
    """Send the messages each way at once; all arrive whole, in order, with their kind."""
    label = channel.label
    await channel.opened()
    await call.peer.happened(f"open:{label}")
    for message in messages:
        channel.send(message)
    for message in messages:
        await call.peer.send(label, message)
    assert [await anext(channel) for _ in messages] == messages
    assert await call.peer.receive(label, len(messages)) == messages


def test_negotiated_channels_of_many_ids(chromium: Chromiums) -> None:
    ids = (0, 1, 7, 1000, 1023)
    made: list[Channel] = []

    def prepare(session: Session) -> Channel:
        made.extend(session.channel(f"n{i}", negotiated=True, stream_id=i) for i in ids)
        return made[0]

    theirs = [{"label": f"n{i}", "negotiated": True, "id": i} for i in ids]

    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, prepare=prepare, channels=theirs) as call,
        ):
            for channel in made:
                await both_ways(call, channel, MESSAGES)

    run(test())


THEIRS: list[dict[str, Any]] = [
    {"label": "plain"},
    {"label": "länger", "protocol": "voice-control", "ordered": False},
    {"label": "lossy", "maxRetransmits": 0, "ordered": False},
    {"label": "timed", "maxPacketLifeTime": 2500},
    {"label": ""},
]


@pytest.mark.parametrize(
    ("config", "passive"), [(DEFAULT, True), (WARP, False)], ids=["default-passive", "warp-active"]
)
def test_channels_that_chromium_opens(
    chromium: Chromiums, config: ChromiumConfig, passive: bool
) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            page_calls(browser, ServerConfig(passive=passive), channels=THEIRS) as call,
        ):
            await call.session.connected()
            incoming = call.session.channels()
            by_label = {(c := await anext(incoming)).label: c for _ in THEIRS}
            for kind in THEIRS:
                channel = by_label[kind["label"]]
                await both_ways(call, channel, ["a", b"b", "", b"c" * 3000])
                assert channel.protocol == kind.get("protocol", "")
                assert channel.ordered == kind.get("ordered", True)
                assert channel.max_retransmits == kind.get("maxRetransmits")
                timed = "maxPacketLifeTime" in kind
                assert channel.max_packet_lifetime_s == (2.5 if timed else None)
                # RFC 8832 section 6: the DTLS client has the even ids
                assert channel.stream_id is not None
                assert channel.stream_id % 2 == (0 if passive else 1)

    run(test())


OURS: list[dict[str, Any]] = [
    {"label": "plain"},
    {"label": "länger", "protocol": "voice-control", "ordered": False},
    {"label": "lossy", "max_retransmits": 0, "ordered": False},
    {"label": "timed", "max_packet_lifetime_s": 0.25},
    {"label": ""},
]


@flags_of
def test_channels_that_we_open(chromium: Chromiums, config: ChromiumConfig) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            we_call_page(browser, channels=[]) as call,
        ):
            await call.session.connected()
            for kind in OURS:
                channel = call.session.channel(**kind)
                await both_ways(call, channel, ["a", b"b", "", b"c" * 3000])
                there = await call.peer.channel_state(kind["label"])
                assert there["protocol"] == kind.get("protocol", "")
                assert there["ordered"] == kind.get("ordered", True)
                assert there["maxRetransmits"] == kind.get("max_retransmits")
                timed = "max_packet_lifetime_s" in kind
                assert there["maxPacketLifeTime"] == (250 if timed else None)
                assert there["negotiated"] is False
                # Chromium is the DTLS client here
                assert there["id"] == channel.stream_id
                assert there["id"] % 2 == 1

    run(test())


@flags_of
def test_a_megabyte_each_way(chromium: Chromiums, config: ChromiumConfig) -> None:
    """As one message to Chromium, when it says that it takes so much, and as four from it."""
    sound = random.Random(7).randbytes(MEGABYTE)
    parts = [sound[at : at + CHROMIUMS_LARGEST] for at in range(0, MEGABYTE, CHROMIUMS_LARGEST)]

    def wide(sdp: str) -> str:
        assert f"a=max-message-size:{CHROMIUMS_LARGEST}\r\n" in sdp
        return sdp.replace(f"size:{CHROMIUMS_LARGEST}\r\n", f"size:{MEGABYTE}\r\n")

    async def test() -> None:
        server = ServerConfig(max_message_size=MEGABYTE)
        async with (
            chromium(config).attach() as browser,
            page_calls(browser, server, prepare=prepared, edit_offer=wide) as call,
        ):
            await talk(call)
            assert call.channel is not None
            call.channel.send(sound)
            for part in parts:
                await call.peer.send("talk", part)
            [heard] = await call.peer.receive("talk")
            assert isinstance(heard, bytes)
            assert hashlib.sha256(heard).digest() == hashlib.sha256(sound).digest()
            assert [await anext(call.channel) for _ in parts] == parts

    run(test())


def test_largest_messages(chromium: Chromiums) -> None:
    """Both sides take 262144 bytes; one more is refused by who would have to send it."""
    largest = bytes(range(256)) * 1024

    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, prepare=prepared) as call,
        ):
            await talk(call, largest, "z" * len(largest))
            assert call.channel is not None
            with pytest.raises(MessageTooLarge):
                call.channel.send(largest + b"!")
            with pytest.raises(Exception, match="larger than max-message-size"):
                await call.peer.send("talk", largest + b"!")
            await talk(call, "still there")

    run(test())


def test_much_at_once_on_a_path_that_loses(chromium: Chromiums) -> None:
    luck = random.Random(1)
    messages: list[str | bytes] = [luck.randbytes(luck.randrange(10_000)) for _ in range(40)]

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepared, loss=0.03, delay_s=0.005) as call,
        ):
            await talk(call)
            assert call.channel is not None
            await both_ways(call, call.channel, messages)

    run(test())


def test_messages_that_may_get_lost(chromium: Chromiums) -> None:
    """Unordered and never repeated: some are lost, none is broken, none comes twice."""
    count = 200
    channels = [{"label": "lossy", "ordered": False, "maxRetransmits": 0}]

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, channels=channels) as call,
        ):
            await call.session.connected()
            channel = await anext(call.session.channels())
            await both_ways(call, channel, ["before"])
            call.wire.lose(0.2)
            # spread over time: what leaves in one burst shares a datagram's fate
            for number in range(count):
                channel.send(f"{number:04}" * 50)
                await call.peer.send("lossy", f"{number:04}" * 50)
            call.wire.lose(0.0)
            channel.send("end")
            await call.peer.send("lossy", "end")
            ours = [message async for message in until_end(channel)]
            theirs = await heard_by(call, "lossy")
            for heard in (ours, theirs):
                numbers = [int(message[:4]) for message in heard]
                assert heard == [f"{n:04}" * 50 for n in numbers]
                assert len(set(numbers)) == len(numbers)
                assert count / 2 < len(numbers) < count

    run(test())


async def until_end(channel: Channel):
    """Iterate over the messages before "end"."""
    async for message in channel:
        if message == "end":
            return
        yield message


async def heard_by(call: PageCall, label: str) -> list[str]:
    """Return what a page has heard before "end"."""
    heard: list[str] = []
    while (message := str((await call.peer.receive(label))[0])) != "end":
        heard.append(message)
    return heard


@pytest.mark.parametrize(
    ("config", "we_close"), [(DEFAULT, True), (WARP, False)], ids=["default-we", "warp-chromium"]
)
def test_one_channel_closes_and_its_id_serves_again(
    chromium: Chromiums, we_close: bool, config: ChromiumConfig
) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            we_call_page(browser, prepare=prepared) as call,
        ):
            await talk(call, "before")
            for turn in range(3):
                label = f"turn {turn}"
                channel = call.session.channel(label)
                await both_ways(call, channel, [label, b"", "last"])
                if we_close:
                    channel.send("farewell")
                    channel.close()
                    assert await call.peer.receive(label) == ["farewell"]
                else:
                    await call.peer.send(label, "farewell")
                    await call.peer.close_channel(label)
                assert [message async for message in channel] == ([] if we_close else ["farewell"])
                await call.peer.happened(f"closed:{label}")
                assert channel.state is ChannelState.CLOSED
                assert channel.stream_id == 1
                assert (await call.peer.channel_state(label))["readyState"] == "closed"
            await talk(call, "after")

    run(test())


def test_many_channels_opened_by_both_at_once(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, prepare=prepared) as call,
        ):
            await talk(call)
            incoming = call.session.channels()
            ours = [call.session.channel(f"ours {n}") for n in range(40)]
            for n in range(40):
                await call.peer.open_channel(f"theirs {n}")
            theirs = [await anext(incoming) for _ in range(40)]
            assert sorted(c.label for c in theirs) == sorted(f"theirs {n}" for n in range(40))
            async with asyncio.TaskGroup() as group:
                for channel in (*ours, *theirs):
                    group.create_task(both_ways(call, channel, [channel.label]))
            assert len({c.stream_id for c in (*ours, *theirs)}) == 80

    run(test())
