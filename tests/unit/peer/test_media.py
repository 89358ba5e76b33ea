"""Audio that comes into a call which is connected already."""

from __future__ import annotations

import pytest

from tests.unit.sdp.build import local
from warp.entropy import SeededEntropy
from warp.peer import PeerConfig
from warp.peer.media import Media
from warp.sdp import create_answer, create_offer, negotiate

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
