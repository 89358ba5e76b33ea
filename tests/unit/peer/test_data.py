"""When the association begins, and how the goodbye of a peer is told from its faults."""

from __future__ import annotations

import pytest

from warp.datachannel import ChannelConfig, ChannelState
from warp.entropy import SeededEntropy
from warp.peer import PeerConfig
from warp.peer.data import DataTransport
from warp.sctp import PeerAborted, SctpConfig, local_init, parse_init
from warp.sctp.chunks import ChunkType, encode_chunk
from warp.sctp.packet import build_packet
from warp.sctp.parameters import Cause, encode_causes
from warp.sdp import DataParameters, SnapNegotiation

NOW = 1.0


def running(*, connected_first: bool = False) -> tuple[DataTransport, int]:
    """Return the data half of a connection, started by SNAP, and its verification tag."""
    entropy = SeededEntropy(1)
    data = DataTransport(PeerConfig(), entropy, None)
    theirs = local_init(SctpConfig(), entropy).to_bytes()
    snap = SnapNegotiation(data.local_init)
    snap.chunk_to_offer()
    snap.receive_answer(theirs)
    agreed = DataParameters(
        mid="0",
        index=0,
        local_port=5000,
        remote_port=5000,
        send_limit=None,
        receive_limit=None,
        local_init=data.local_init,
        remote_init=theirs,
    )
    if connected_first:
        data.start(NOW, rtt_s=None)
    data.agree(agreed, snap, True, NOW)
    if not connected_first:
        data.start(NOW, rtt_s=None)
    return data, parse_init(data.local_init or b"").initiate_tag


@pytest.mark.parametrize("connected_first", [False, True])
def test_an_association_agreed_on_in_mid_call_begins_at_once(connected_first: bool) -> None:
    data, _ = running(connected_first=connected_first)
    channel = data.create_channel(ChannelConfig(negotiated=True, stream_id=0), NOW)
    assert channel.state is ChannelState.OPEN


@pytest.mark.parametrize(
    ("causes", "hung_up"),
    [
        ([], True),
        ([(Cause.USER_INITIATED_ABORT, b"bye")], True),
        ([(Cause.PROTOCOL_VIOLATION, b"")], False),
        ([(Cause.NO_USER_DATA, bytes(4))], False),
    ],
)
def test_an_abort_is_a_goodbye_unless_it_names_a_fault(
    causes: list[tuple[int, bytes]], hung_up: bool
) -> None:
    data, tag = running()
    channel = data.create_channel(ChannelConfig(negotiated=True, stream_id=0), NOW)
    assert channel.state is ChannelState.OPEN
    assert not data.hung_up
    abort = encode_chunk(ChunkType.ABORT, 0, encode_causes(causes))
    data.receive_datagram(build_packet(5000, 5000, tag, abort), NOW)
    assert channel.state is ChannelState.CLOSED
    assert isinstance(data.error, PeerAborted)
    assert data.hung_up is hung_up
