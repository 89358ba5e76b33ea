"""Descriptions of the installed aiortc: we answer its offers, it takes our answers and offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.unit.sdp.build import OWN_INIT, local
from warp.io import listen
from warp.sdp import create_answer, create_offer, negotiate, parse_description

pytestmark = pytest.mark.interop


async def offer_and_answer() -> tuple[str, str]:
    from aiortc import RTCPeerConnection, RTCSessionDescription

    peer = RTCPeerConnection()
    try:
        peer.addTransceiver("audio")
        peer.createDataChannel("chat")
        await peer.setLocalDescription(await peer.createOffer())
        offer = peer.localDescription.sdp
        answer = str(create_answer(parse_description(offer), local(), sctp_init=OWN_INIT))
        await peer.setRemoteDescription(RTCSessionDescription(sdp=answer, type="answer"))
        assert peer.signalingState == "stable"
        return offer, answer
    finally:
        await peer.close()


async def answer_to(offer: str) -> str:
    from aiortc import RTCPeerConnection, RTCSessionDescription

    peer = RTCPeerConnection()
    try:
        await peer.setRemoteDescription(RTCSessionDescription(sdp=offer, type="offer"))
        await peer.setLocalDescription(await peer.createAnswer())
        return str(peer.localDescription.sdp)
    finally:
        await peer.close()


@pytest.mark.slow
def test_we_answer_an_aiortc_offer(require_peer: Callable[[str], None]) -> None:
    require_peer("aiortc")
    offer, answer = asyncio.run(offer_and_answer())
    result = negotiate(parse_description(answer), parse_description(offer), is_offerer=False)
    assert result.audio[0].send_codecs[0].name == "opus"
    assert result.data is not None and result.data.remote_init is None
    assert "sctp-init" not in answer
    assert not result.transport.is_dtls_client


@pytest.mark.slow
def test_aiortc_answers_our_offer(require_peer: Callable[[str], None]) -> None:
    require_peer("aiortc")
    offer = create_offer(local(), sctp_init=OWN_INIT)
    answer = parse_description(asyncio.run(answer_to(str(offer))))
    result = negotiate(offer, answer, is_offerer=True)
    assert result.audio[0].send_codecs[0].payload_type == 111
    assert result.data is not None and result.data.remote_init is None
    assert result.transport.candidates


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["balanced", "max-compat", "max-bundle"])
@pytest.mark.parametrize("kinds", [("audio", "video"), ("video", "audio")])
def test_aiortc_that_offers_video_as_well_can_call_us(
    policy: str, kinds: tuple[str, str], require_peer: Callable[[str], None]
) -> None:
    require_peer("aiortc")
    asyncio.run(call_with_video(policy, kinds))


async def call_with_video(policy: str, kinds: tuple[str, str]) -> None:
    """Call a server of ours: the video is refused, and the rest comes up."""
    import aioice.ice
    from aiortc import RTCBundlePolicy, RTCConfiguration, RTCPeerConnection, RTCSessionDescription

    configuration = RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy(policy))
    opened = asyncio.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])
        peer = RTCPeerConnection(configuration)
        for kind in kinds:
            peer.addTransceiver(kind)
        peer.createDataChannel("chat").on("open", opened.set)
        async with await listen("127.0.0.1") as server:
            await peer.setLocalDescription(await peer.createOffer())
            session = server.accept_offer(peer.localDescription.sdp)
            answer = RTCSessionDescription(sdp=session.answer, type="answer")
            await peer.setRemoteDescription(answer)
            await asyncio.wait_for(opened.wait(), 20)
            await session.connected(20)
            directions = {one.kind: one.currentDirection for one in peer.getTransceivers()}
            assert directions["video"] == "inactive" and directions["audio"] != "inactive"
            assert peer.connectionState == "connected"
            await peer.close()
