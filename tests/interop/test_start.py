"""aiortc and we connect, whoever offers and whoever is the DTLS client."""

from __future__ import annotations

import pytest

from tests.interop.calls import CONNECT_S, Wire, aiortc_calls, state_of, talk_channel, we_call
from tests.interop.loops import run
from warp.datachannel import ChannelState
from warp.dtls import DtlsVersion
from warp.errors import FingerprintMismatch
from warp.io import ServerConfig, Session, WarpOptions

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("aiortc_on_loopback")]


async def talk(session: Session, wire: Wire) -> None:
    """Connect, and exchange a message each way on channel 0."""
    channel = session.channel("talk", negotiated=True, stream_id=0)
    await session.connected(CONNECT_S)
    await channel.opened()
    await wire.opened.wait()
    channel.send("from us")
    wire.send("from aiortc")
    assert await wire.next() == "from us"
    assert await anext(channel) == "from aiortc"


@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
@pytest.mark.parametrize("insists", [False, True], ids=["actpass", "insists"])
def test_aiortc_offers(lite: bool, passive: bool, insists: bool) -> None:
    """Without a choice (`insists`) our answer is what the offer leaves, whatever we prefer."""
    offered = ("active" if passive else "passive") if insists else "actpass"
    config = ServerConfig(lite=lite, passive=passive is not insists)

    async def test() -> None:
        async with aiortc_calls(
            talk_channel,
            config,
            edit_offer=lambda sdp: sdp.replace("a=setup:actpass", f"a=setup:{offered}"),
        ) as (session, peer, wire):
            await talk(session, wire)
            assert f"a=setup:{'passive' if passive else 'active'}\r\n" in session.answer
            assert ("a=ice-lite" in session.answer) == lite
            stats = session.stats()
            assert stats["dtls_version"] is DtlsVersion.DTLS12
            assert stats["sped"] == "off"
            assert stats["unknown_datagrams"] == 0
            assert peer.connectionState == "connected"

    run(test())


@pytest.mark.parametrize("setup", ["active", "passive"])
def test_we_offer(setup: str) -> None:
    async def test() -> None:
        async with we_call(talk_channel, setup=setup) as (session, peer, wire):
            await talk(session, wire)
            assert f"a=setup:{setup}\r\n" in session.answer
            stats = session.stats()
            assert stats["dtls_version"] is DtlsVersion.DTLS12
            assert stats["sped"] == "off"
            assert stats["unknown_datagrams"] == 0
            assert peer.connectionState == "connected"

    run(test())


@pytest.mark.parametrize(
    "options",
    [
        WarpOptions(sped=False, snap=False, versions=(DtlsVersion.DTLS12,)),
        WarpOptions(simultaneous_open=False),
        WarpOptions(sped=False),
        WarpOptions(snap=False),
    ],
    ids=["plain", "client-sends-init", "no-sped", "no-snap"],
)
@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
def test_parts_of_warp_that_are_off_change_nothing(options: WarpOptions, passive: bool) -> None:
    async def test() -> None:
        config = ServerConfig(warp=options, passive=passive)
        async with aiortc_calls(talk_channel, config) as (session, _, wire):
            await talk(session, wire)

    run(test())


def forge_fingerprints(sdp: str) -> str:
    """Return a description that names another certificate."""
    lines = sdp.split("\r\n")
    for at, line in enumerate(lines):
        if line.startswith("a=fingerprint:"):
            lines[at] = line[:-2] + ("00" if line[-2:] != "00" else "11")
    return "\r\n".join(lines)


def test_we_refuse_another_certificate_than_the_offers() -> None:
    async def test() -> None:
        async with aiortc_calls(talk_channel, edit_offer=forge_fingerprints) as (session, _, wire):
            with pytest.raises(FingerprintMismatch):
                await session.connected(CONNECT_S)
            assert isinstance(await session.closed, FingerprintMismatch)
            assert not wire.opened.is_set()

    run(test())


def test_aiortc_refuses_another_certificate_than_our_answers() -> None:
    async def test() -> None:
        async with aiortc_calls(talk_channel, edit_answer=forge_fingerprints) as (
            session, peer, wire,
        ):  # fmt: skip
            channel = session.channel("talk", negotiated=True, stream_id=0)
            assert await state_of(peer, "failed", "connected") == "failed"
            assert channel.state is ChannelState.CONNECTING
            assert not wire.opened.is_set()

    run(test())
