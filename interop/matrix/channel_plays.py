"""Plays about data channels and about sound."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import numpy as np

from interop.matrix.call import LARGEST, Call, Cannot, Failed, Stage, next_message, require, same
from interop.matrix.plays import Outcome
from interop.peers.peer import PATIENCE_S, TALK, Announced, ChannelOptions, Samples
from interop.peers.sound import clip, payloads
from warp.datachannel import ChannelState
from warp.io import Channel
from warp_tools.audio import likeness
from warp_tools.audio.likeness import SAME_SPEECH
from warp_tools.caller import Listener, speak

MEGABYTE = 1_000_000
SAME_PARTS = (0.85, 0.6)
"""A jitter buffer stretches and squeezes what it plays until it knows the path: of three parts of
what was said the best two are compared, each by itself. And what was stretched at first is said
again."""
_PARTS = 3
OTHER_SPEECH = 0.4
_POLL_S = 0.02
_SPEECH_S = 25.0
_AGAIN_S = 6.0
_SETTLE_S = 1.0


# -- opened in the call ---------------------------------------------------------------------------


async def dcep_ours(stage: Stage) -> Outcome:
    """A channel that we open is announced to the peer, with its protocol, and works."""
    async with stage.call() as call:
        cost = await call.up()
        channel = call.session.channel("ours", protocol="p1")
        await _announced(call, Announced(True, None, "p1"))
        await _works(call, channel, "ours")
        return Outcome(cost=cost)


async def dcep_theirs(stage: Stage) -> Outcome:
    """And one that it opens to us."""
    async with stage.call() as call:
        cost = await call.up()
        channel = await _opened_by_peer(call, ChannelOptions(label="theirs", protocol="p2"))
        same("the protocol is", channel.protocol, "p2")
        require(channel.ordered, "the channel was announced as unordered")
        await _works(call, channel, "theirs")
        return Outcome(cost=cost)


async def _announced(call: Call, wanted: Announced) -> None:
    """Wait until the peer knows our channel `ours`; compare what it tells of it."""
    found = await call.peer.announced("ours")
    if found.ordered is None:
        found = wanted._replace(protocol=found.protocol)
    same("announced was", found, wanted)


async def _opened_by_peer(call: Call, options: ChannelOptions) -> Channel:
    await call.peer.open_channel(options)
    async with asyncio.timeout(PATIENCE_S):
        channel = await anext(call.session.channels())
    same("the label is", channel.label, options.label)
    await call.peer.happened(f"open:{options.label}")
    return channel


async def _works(call: Call, channel: Channel, label: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await channel.opened()
    await call.peer.happened(f"open:{label}")
    await _each_way(call, channel, label, "text", b"\x00\x01")


async def _each_way(call: Call, channel: Channel, label: str, *messages: str | bytes) -> None:
    for message in messages:
        channel.send(message)
        same("the peer got", await call.peer.receive(label), [message])
        await call.peer.send(label, message)
        same("we got", await next_message(channel), message)


async def empty(stage: Stage) -> Outcome:
    """Messages of no bytes, text and binary, are messages all the same (RFC 8831 section 6.6)."""
    async with stage.call() as call:
        cost = await call.up()
        await _each_way(call, call.channel, TALK, "", b"", "behind them")
        return Outcome(cost=cost)


# -- sizes and numbers ----------------------------------------------------------------------------


def limit(sdp: str) -> int:
    """Return the largest message that a description takes (RFC 8841 section 6)."""
    found = re.search(r"^a=max-message-size:(\d+)", sdp, re.MULTILINE)
    return (int(found[1]) or LARGEST) if found else 65_536


def their_limit(call: Call) -> int:
    """Return the largest message that the peer takes."""
    return limit(call.offer if call.scenario.peer_offers else call.answer)


async def megabyte(stage: Stage) -> Outcome:
    """A message of a million bytes each way."""
    async with stage.call() as call:
        cost = await call.up()
        most = their_limit(call)
        if most < MEGABYTE:
            raise Cannot(f"its description says a=max-message-size:{most}")
        await _large(call, MEGABYTE)
        return Outcome(cost=cost)


async def largest(stage: Stage) -> Outcome:
    """The largest message that both descriptions allow, each way."""
    async with stage.call() as call:
        cost = await call.up()
        size = min(their_limit(call), MEGABYTE)
        await _large(call, size)
        return Outcome(cost=cost, note=f"{size} bytes")


async def _large(call: Call, size: int) -> None:
    message = (bytes(range(251)) * (size // 251 + 1))[:size]
    call.channel.send(message)
    [found] = await call.peer.receive(TALK)
    require(found == message, f"the peer got {len(found)} other bytes")
    await call.peer.send(TALK, message)
    require(await call.received() == message, "we got other bytes")


async def flood(stage: Stage) -> Outcome:
    """Many small messages each way at once; every one arrives, in order."""
    count, pad = stage.scenario.count, "." * stage.scenario.pad
    async with stage.call() as call:
        cost = await call.up()
        loop = asyncio.get_running_loop()
        began = loop.time()
        flooding = asyncio.ensure_future(call.peer.flood(TALK, count, f"{pad}from the peer "))
        try:
            for number in range(count):
                call.channel.send(f"{pad}from us {number}")
                if number % 100 == 99:
                    await call.channel.drain()
                    await asyncio.sleep(0)
            async with asyncio.timeout(stage.scenario.limit_s):
                found = [await anext(call.channel) for _ in range(count)]
            heard = await call.peer.receive(TALK, count)
            await flooding
        finally:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
        _compare("we got", found, [f"{pad}from the peer {n}" for n in range(count)])
        _compare("the peer got", heard, [f"{pad}from us {n}" for n in range(count)])
        return Outcome(cost=cost, note=f"{loop.time() - began:.1f} s")


def _compare(who: str, found: Sequence[str | bytes], wanted: Sequence[str]) -> None:
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        require(one == other, f"message {number}: {who} {one[-40:]!r}, not {other[-40:]!r}")


async def unordered(stage: Stage) -> Outcome:
    """Channels without an order, one from either side: each message comes once."""
    count = stage.scenario.count
    async with stage.call() as call:
        cost = await call.up()
        theirs = await _opened_by_peer(call, ChannelOptions(label="theirs", ordered=False))
        require(not theirs.ordered, "the peer's channel was announced as ordered")
        ours = call.session.channel("ours", ordered=False)
        await _announced(call, Announced(False, None, ""))
        await asyncio.wait_for(ours.opened(), PATIENCE_S)
        for number in range(count):
            ours.send(f"from us {number}")
        await call.peer.flood("theirs", count, "from the peer ")
        heard = await call.peer.receive("ours", count)
        found = [await next_message(theirs) for _ in range(count)]
        same("the peer got", set(heard), {f"from us {number}" for number in range(count)})
        same("we got", set(found), {f"from the peer {number}" for number in range(count)})
        return Outcome(cost=cost)


async def lossy(stage: Stage) -> Outcome:
    """Channels that repeat nothing, on a path that loses: no message twice, few lost."""
    count = stage.scenario.count
    async with stage.call() as call:
        cost = await call.up()
        options = ChannelOptions(label="theirs", ordered=False, max_retransmits=0)
        theirs = await _opened_by_peer(call, options)
        same("the peer's channel repeats", theirs.max_retransmits, 0)
        ours = call.session.channel("ours", ordered=False, max_retransmits=0)
        await _announced(call, Announced(False, 0, ""))
        await asyncio.wait_for(ours.opened(), PATIENCE_S)
        for number in range(count):
            ours.send(f"from us {number}")
            await call.peer.send("theirs", f"from the peer {number}")
            await asyncio.sleep(0.002)
        # the reliable channel is not held up by what was given up
        await call.talk("behind it")
        await asyncio.sleep(_SETTLE_S)
        heard, found = await call.peer.taken("ours"), theirs.take()
        for who, got, sender in (("the peer", heard, "us"), ("we", found, "the peer")):
            sent = {f"from {sender} {number}" for number in range(count)}
            require(len(set(got)) == len(got), f"{who} got messages twice")
            require(set(got) <= sent, f"{who} got what nobody sent")
            require(len(got) > 0.6 * count, f"{who} got {len(got)} of {count}")
        return Outcome(cost=cost, note=f"{len(heard)} and {len(found)} of {count} arrived")


# -- closed in the call ---------------------------------------------------------------------------


async def close_channel_ours(stage: Stage) -> Outcome:
    """We close a channel; the peer is told, and the other channel goes on."""
    async with stage.call() as call:
        cost = await call.up()
        channel = call.session.channel("short-lived")
        await call.peer.announced("short-lived")
        await _works(call, channel, "short-lived")
        channel.close()
        await call.peer.happened("closed:short-lived")
        await _closed(channel)
        await call.talk("goes on")
        return Outcome(cost=cost)


async def close_channel_theirs(stage: Stage) -> Outcome:
    """The peer does."""
    async with stage.call() as call:
        cost = await call.up()
        channel = await _opened_by_peer(call, ChannelOptions(label="short-lived"))
        await _works(call, channel, "short-lived")
        await call.peer.close_channel("short-lived")
        await _closed(channel)
        await call.talk("goes on")
        return Outcome(cost=cost)


async def _closed(channel: Channel) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while channel.state is not ChannelState.CLOSED:
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise Failed(f"our channel is {channel.state.value} and does not close") from None


# -- sound ----------------------------------------------------------------------------------------


async def speech(stage: Stage) -> Outcome:
    """Both speak at once; both have heard what the other said, and not themselves."""
    async with stage.call() as call:
        cost = await call.up()
        await converse(call, stage)
        return Outcome(cost=cost)


async def speech_beside_video(stage: Stage) -> Outcome:
    """The same with a video section in the offer, which we refuse."""
    async with stage.call() as call:
        cost = await call.up()
        ports = re.findall(r"^m=video (\d+)", call.answer, re.MULTILINE)
        same("the ports of the video sections are", ports, ["0"])
        await converse(call, stage)
        await call.talk("behind it")
        return Outcome(cost=cost)


async def late_audio(stage: Stage) -> Outcome:
    """The peer adds a track in mid-call."""
    async with stage.call() as call:
        cost = await call.up()
        await call.talk("before")
        await call.peer.add_audio()
        offer = await call.peer.offer()
        answer = call.session.accept_offer(call.wire.through(offer, ours=False))
        await call.peer.accept(call.wire.through(answer, ours=True))
        await converse(call, stage)
        await call.talk("after")
        return Outcome(cost=cost)


async def converse(call: Call, stage: Stage) -> None:
    """Speak and listen at both ends until what was heard is what was said."""
    theirs, ours = clip("speech"), clip("greeting")
    listener = Listener(call.session)
    try:
        await call.peer.say()
        await speak(call.session, payloads("greeting"))
        loop = asyncio.get_running_loop()
        end = loop.time() + _SPEECH_S
        by_us, by_them = 0.0, "not at all"
        again = loop.time() + _AGAIN_S
        while loop.time() < end and (by_us < SAME_SPEECH or by_them):
            await asyncio.sleep(0.5)
            if loop.time() > again:
                again += _AGAIN_S
                await speak(call.session, payloads("greeting"))
            if listener.recording.seconds > 2 and by_us < SAME_SPEECH:
                by_us = likeness(theirs, listener.recording.samples()).correlation
            if by_us >= SAME_SPEECH:
                heard = await call.peer.heard()
                by_them = differs(ours, heard, stretched=stage.kind.plays_out)
    finally:
        heard_by_us = await listener.stop()
    require(by_us >= SAME_SPEECH, f"what we heard is its speech by {by_us:.2f}")
    require(not by_them, f"what the peer heard is our speech {by_them}")
    own = likeness(ours, heard_by_us).correlation
    require(own < OTHER_SPEECH, f"we heard ourselves by {own:.2f}")


def differs(speech: Samples, heard: Samples, *, stretched: bool) -> str:
    """Return by how much the speech is in what was heard; an empty text when it is."""
    if not stretched:
        found = likeness(speech, heard).correlation
        return "" if found >= SAME_SPEECH else f"by {found:.2f}"
    parts = np.array_split(speech, _PARTS)
    best = sorted((likeness(part, heard).correlation for part in parts), reverse=True)
    same_parts = all(one >= floor for one, floor in zip(best, SAME_PARTS, strict=False))
    return "" if same_parts else "by " + ", ".join(f"{one:.2f}" for one in best)
