"""A call with libwebrtc from its middle to its end: restarts, changes, goodbyes, refusals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.interop.libwebrtc import WARP, Call, libwebrtc_calls, prepared, talk, we_call
from tests.interop.loops import END_S, run, sound
from tests.interop.sound import clip
from tests.interop.test_start import forge_fingerprints
from warp.datachannel import ChannelState
from warp.errors import FingerprintMismatch
from warp.io import ServerConfig
from warp.peer import ConnectionState
from warp.stun import Attribute
from warp_tools.opus import encoded

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("libwebrtc")]

trials_of = pytest.mark.parametrize("trials", ["", WARP], ids=["default", "warp"])
calls_of = pytest.mark.parametrize(
    "calls", [libwebrtc_calls, we_call], ids=["libwebrtc-calls", "we-call"]
)


async def they_offer_again(call: Call, **wanted: object) -> None:
    """libwebrtc makes another offer and we answer it."""
    arguments = {"channels": [], "audio": False, "restart": False, **wanted}
    call.peer.tell("offer", **arguments)
    offer = (await call.peer.take("description"))["sdp"]
    answer = call.session.accept_offer(call.wire.through(offer, ours=False))
    call.peer.tell("accept", sdp=call.wire.through(answer, ours=True))
    await call.peer.take("accepted")


async def we_offer_again(call: Call, *, ice_restart: bool = False) -> None:
    """We make another offer and libwebrtc answers it."""

    async def signal(offer: str) -> str:
        sdp = call.wire.through(offer, ours=True)
        call.peer.tell("answer", sdp=sdp, channels=[], audio=False, setup=None)
        return call.wire.through((await call.peer.take("description"))["sdp"], ours=False)

    await call.session.renegotiate(signal, ice_restart=ice_restart)


def generations(call: Call, *, ours: bool) -> set[bytes]:
    """Return the ufrags of its own that one side has checked with."""
    checks = [r.message for r in call.wire.rungs if r.ours is ours and r.is_check]
    return {(m.get(Attribute.USERNAME) or b":").split(b":")[1] for m in checks if m is not None}


async def checked_with(call: Call, number: int, *, ours: bool) -> None:
    """Wait until one side has used so many ufrags."""
    while len(generations(call, ours=ours)) < number:
        await asyncio.sleep(0.01)


@trials_of
@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
def test_libwebrtc_restarts_ice(trials: str, lite: bool) -> None:
    async def test() -> None:
        config = ServerConfig(lite=lite)
        async with libwebrtc_calls(trials, config, prepare=prepared, audio=True) as call:
            await talk(call, "before")
            await call.peer.take("accepted")
            for number in (2, 3):
                await they_offer_again(call, restart=True)
                await checked_with(call, number, ours=False)
                await talk(call, f"in generation {number}")
            if not lite:
                await checked_with(call, 3, ours=True)
            assert call.session.state is ConnectionState.CONNECTED

    run(test())


@trials_of
def test_both_restart_ice(trials: str) -> None:
    async def test() -> None:
        async with we_call(trials, prepare=prepared, audio=True) as call:
            await talk(call, "before")
            await we_offer_again(call, ice_restart=True)
            await checked_with(call, 2, ours=True)
            await talk(call, "after ours")
            await they_offer_again(call, restart=True)
            await checked_with(call, 3, ours=True)
            await talk(call, "after theirs")
            await we_offer_again(call)
            await talk(call, "after a change of nothing")
            assert len(generations(call, ours=True)) == 3
            assert call.session.state is ConnectionState.CONNECTED

    run(test())


@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
def test_libwebrtc_moves(lite: bool) -> None:
    """Its NAT gives it another address in mid-call, and it does not know."""

    async def test() -> None:
        config = ServerConfig(lite=lite)
        async with libwebrtc_calls(WARP, config, prepare=prepared, audio=True) as call:
            await talk(call, "before")
            await anext(call.session.audio_in)
            before = call.session.stats()["flow"]
            call.wire.rebind(ours=False)
            async with asyncio.timeout(2):
                await talk(call, "after")
            assert call.session.stats()["flow"] != before
            call.session.audio_in.take()
            await sound(call.session)

    run(test())


@trials_of
def test_audio_comes_later(trials: str, tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_bytes(clip("speech").tobytes())

    async def test() -> None:
        async with libwebrtc_calls(trials, prepare=prepared) as call:
            await talk(call, "before")
            await call.peer.take("accepted")
            await they_offer_again(call, audio=True)
            call.peer.tell("say", path=str(said))
            for payload in encoded(clip("greeting"))[:40]:
                call.session.audio_out.send(payload)
            for _ in range(20):
                assert (await anext(call.session.audio_in)).payload
            await call.peer.wait("audible")
            await talk(call, "after")

    run(test())


@trials_of
def test_data_comes_later(trials: str) -> None:
    async def test() -> None:
        async with libwebrtc_calls(trials, channels=[], audio=True) as call:
            await call.session.connected()
            await call.peer.take("accepted")
            await they_offer_again(call, channels=[{"label": "late"}])
            channel = await anext(call.session.channels())
            await call.peer.opened_at("late")
            channel.send("so it works")
            assert await call.peer.message("late") == "so it works"
            states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
            assert (states == ["established"]) == (trials == WARP)

    run(test())


@trials_of
@calls_of
def test_we_hang_up(trials: str, calls) -> None:
    async def test() -> None:
        async with calls(trials, prepare=prepared, audio=True) as call:
            await talk(call, "short")
            await anext(call.session.audio_in)
            async with asyncio.timeout(END_S):
                await call.session.close()
                assert await call.session.closed is None
                await call.peer.wait("channel_closed", label="talk")
            # libwebrtc's connection says nothing; what is below it understands in its own time
            async with asyncio.timeout(END_S):
                while (await call.peer.stats("transport"))["dtls_state"] != "closed":
                    await asyncio.sleep(0.02)
            assert call.session.state is ConnectionState.CLOSED

    run(test())


@trials_of
@calls_of
@pytest.mark.parametrize("media", [True, False], ids=["audio-and-data", "data"])
def test_libwebrtc_hangs_up(trials: str, calls, media: bool) -> None:
    async def test() -> None:
        async with calls(trials, prepare=prepared, audio=media) as call:
            await talk(call, "short")
            call.peer.tell("close")
            async with asyncio.timeout(END_S):
                assert await call.session.closed is None
            assert call.session.state is ConnectionState.CLOSED

    run(test())


@trials_of
def test_libwebrtc_hangs_up_a_call_without_channels(trials: str) -> None:
    async def test() -> None:
        async with libwebrtc_calls(trials, channels=[], audio=True) as call:
            await call.session.connected()
            await anext(call.session.audio_in)
            call.peer.tell("close")
            async with asyncio.timeout(END_S):
                assert await call.session.closed is None

    run(test())


@trials_of
def test_we_refuse_another_certificate_than_the_offers(trials: str) -> None:
    async def test() -> None:
        async with libwebrtc_calls(trials, prepare=prepared, edit_offer=forge_fingerprints) as call:
            with pytest.raises(FingerprintMismatch):
                await call.session.connected()
            # the client of DTLS 1.3 is done before we have seen its certificate
            await call.peer.wait("connection_state", state="failed")
            assert call.channel is not None
            assert call.channel.state is not ChannelState.OPEN

    run(test())


@trials_of
def test_libwebrtc_refuses_another_certificate_than_our_answers(trials: str) -> None:
    async def test() -> None:
        async with libwebrtc_calls(
            trials, prepare=prepared, edit_answer=forge_fingerprints
        ) as call:
            await call.peer.wait("connection_state", state="failed")
            assert call.peer.seen("open", label="talk") is None

    run(test())
