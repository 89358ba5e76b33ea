"""Descriptions of the installed aiortc: we answer its offers, it takes our answers and offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.unit.sdp.build import OWN_INIT, local
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
