"""Data channels between Firefox and us: every kind, opened by either side, closed by either."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import Any

import pytest

from interop.firefox import FirefoxProcess
from tests.interop.browsers import page_calls, prepared, talk, we_call_page
from tests.interop.loops import run
from tests.interop.test_chromium_channels import (
    MESSAGES,
    OURS,
    THEIRS,
    both_ways,
    heard_by,
    until_end,
)
from warp.datachannel import ChannelState
from warp.io import Channel, ServerConfig, Session

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MEGABYTE = 1 << 20


def test_negotiated_channels_of_many_ids(firefox: FirefoxProcess) -> None:
    ids = (0, 1, 7, 1000, 1023)
    made: list[Channel] = []

    def prepare(session: Session) -> Channel:
        made.extend(session.channel(f"n{i}", negotiated=True, stream_id=i) for i in ids)
        return made[0]

    theirs = [{"label": f"n{i}", "negotiated": True, "id": i} for i in ids]

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepare, channels=theirs) as call,
        ):
            for channel in made:
                await both_ways(call, channel, MESSAGES)

    run(test())


@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
def test_channels_that_firefox_opens(firefox: FirefoxProcess, passive: bool) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
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


def test_channels_that_we_open(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, we_call_page(browser, prepare=prepared) as call:
            await talk(call)
            for kind in OURS:
                channel = call.session.channel(**kind)
                await both_ways(call, channel, ["a", b"b", "", b"c" * 3000])
                there: dict[str, Any] = await call.peer.channel_state(kind["label"])
                assert there["protocol"] == kind.get("protocol", "")
                assert there["ordered"] == kind.get("ordered", True)
                assert there["maxRetransmits"] == kind.get("max_retransmits")
                timed = "max_packet_lifetime_s" in kind
                assert there["maxPacketLifeTime"] == (250 if timed else None)
                assert there["negotiated"] is False
                # Firefox is the DTLS client here
                assert there["id"] == channel.stream_id
                assert there["id"] % 2 == 1

    run(test())


def test_a_megabyte_each_way(firefox: FirefoxProcess) -> None:
    """As one message: Firefox takes a gigabyte and sends what we say that we take."""
    sound = random.Random(7).randbytes(MEGABYTE)

    async def test() -> None:
        server = ServerConfig(max_message_size=MEGABYTE)
        async with (
            firefox.attach() as browser,
            page_calls(browser, server, prepare=prepared) as call,
        ):
            await talk(call)
            assert "a=max-message-size:1073741823\r\n" in call.offer
            assert f"a=max-message-size:{MEGABYTE}\r\n" in call.answer
            assert call.channel is not None
            call.channel.send(sound)
            await call.peer.send("talk", sound)
            [heard] = await call.peer.receive("talk")
            assert isinstance(heard, bytes)
            wanted = hashlib.sha256(sound).digest()
            assert hashlib.sha256(heard).digest() == wanted
            answered = await anext(call.channel)
            assert isinstance(answered, bytes)
            assert hashlib.sha256(answered).digest() == wanted

    run(test())


def test_a_message_that_is_too_large(firefox: FirefoxProcess) -> None:
    """We take 262144 bytes; one more is refused by who would have to send it."""
    largest = bytes(range(256)) * 1024

    async def test() -> None:
        async with firefox.attach() as browser, page_calls(browser, prepare=prepared) as call:
            await talk(call, largest, "z" * len(largest))
            with pytest.raises(Exception, match="Message size"):
                await call.peer.send("talk", largest + b"!")
            await talk(call, "still there")

    run(test())


def test_much_at_once_on_a_path_that_loses(firefox: FirefoxProcess) -> None:
    luck = random.Random(1)
    messages: list[str | bytes] = [luck.randbytes(luck.randrange(10_000)) for _ in range(40)]

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepared, loss=0.03, delay_s=0.005) as call,
        ):
            await talk(call)
            assert call.channel is not None
            await both_ways(call, call.channel, messages)

    run(test())


def test_messages_that_may_get_lost(firefox: FirefoxProcess) -> None:
    """Unordered and never repeated: some are lost, none is broken, none comes twice."""
    count = 100
    channels = [{"label": "lossy", "ordered": False, "maxRetransmits": 0}]

    async def test() -> None:
        async with firefox.attach() as browser, page_calls(browser, channels=channels) as call:
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


@pytest.mark.parametrize("we_close", [True, False], ids=["we", "firefox"])
def test_one_channel_closes_and_its_id_serves_again(
    firefox: FirefoxProcess, we_close: bool
) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, we_call_page(browser, prepare=prepared) as call:
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
            await talk(call, "after")

    run(test())


def test_many_channels_opened_by_both_at_once(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, page_calls(browser, prepare=prepared) as call:
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
