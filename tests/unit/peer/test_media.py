"""Audio that comes into a call which is connected already."""

from __future__ import annotations

import pytest

from tests.unit.sdp.build import local
from warp.entropy import SeededEntropy
from warp.peer import PeerConfig
from warp.peer.media import Media
from warp.rtp import parse_rtp
from warp.sdp import LocalAudio, LocalData, create_answer, create_offer, negotiate

NOW = 1.0


@pytest.mark.parametrize("connected_first", [False, True])
def test_reports_begin_with_the_media(connected_first: bool) -> None:
    offer = create_offer(local())
    agreed = negotiate(offer, create_answer(offer, local()), is_offerer=True)
    media = Media(PeerConfig(), SeededEntropy(1), None)
    if connected_first:
        media.start(NOW)
        assert media.get_timer() is None
    media.apply(agreed.audio, NOW)
    if not connected_first:
        media.start(NOW)
    due = media.get_timer()
    assert due is not None
    assert due > NOW


@pytest.mark.parametrize("in_order", [True, False])
def test_frames_come_in_order_unless_the_player_puts_them_there(in_order: bool) -> None:
    offer = create_offer(local())
    agreed = negotiate(offer, create_answer(offer, local()), is_offerer=True)
    media = Media(PeerConfig(audio_in_order=in_order), SeededEntropy(1), None)
    media.apply(agreed.audio, NOW)
    assert media.session is not None
    [receiver] = media._receivers.values()
    receiver.begin_source(7, NOW)
    for number in (1, 3, 2):
        receiver.receive(number, 960 * number, False, 111, b"x", None, NOW)
    given = [frame.sequence for frame in media.session.router.frames()]
    assert given == ([1, 2, 3] if in_order else [1, 3, 2])


def test_the_source_that_is_announced_moves_with_its_section() -> None:
    """The peer gives a section up and makes another: it hears the source that our answer names."""
    media = Media(PeerConfig(), SeededEntropy(1), None)
    ours = local(media=(media.description(),))
    offer = create_offer(local(media=(LocalAudio(),)))
    media.apply(negotiate(create_answer(offer, ours), offer, is_offerer=False).audio, NOW)
    assert media.sender is not None
    source, first = media.sender.ssrc, parse_rtp(media.sender.packetize(b"a", 0, NOW))
    given_up = create_offer(local(media=(LocalData(), LocalAudio(mid="5"))), previous=offer)
    assert given_up.media[0].rejected
    answer = create_answer(given_up, ours)
    media.apply(negotiate(answer, given_up, is_offerer=False).audio, NOW)
    [announced] = [m.sources[0].ssrc for m in answer.media if m.sources]
    assert media.sender.ssrc == announced == source
    second = parse_rtp(media.sender.packetize(b"b", 960, NOW))
    assert (second.sequence - first.sequence) & 0xFFFF == 1
    assert list(media.stats()["sent"]) == ["5"]
