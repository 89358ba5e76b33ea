"""Answers that do not fit their offer leave the connection as it was, waiting for the right one."""

from __future__ import annotations

import pytest

from tests.scenarios.live_call import LiveCall
from tests.scenarios.start import WARP
from warp.errors import InvalidState


def test_an_answer_cannot_restart_ice_by_itself() -> None:
    """RFC 8839 section 4.4.1.1.1: both restart, or neither."""
    call = LiveCall(WARP)
    assert call.until_connected()
    client, server, now = call.ends["client"], call.ends["server"], call.now
    offer = client.create_offer(now)
    client.set_local_description("offer", offer, now)
    server.set_remote_description("offer", offer, now)
    answer = server.create_answer(now)
    server.set_local_description("answer", answer, now)
    other = answer.replace("password-of-the-server", "password-of-a-stranger")
    with pytest.raises(InvalidState, match="restarts ICE"):
        client.set_remote_description("answer", other, now)
    client.set_remote_description("answer", answer, now)
    assert call.until_connected()
