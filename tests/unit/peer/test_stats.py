"""What a connection tells of its start: who did what, and which parts of WARP took part."""

from __future__ import annotations

import pytest

from tests.scenarios.live_call import LiveCall
from tests.scenarios.start import PLAIN, WARP, Start
from warp.sdp import parse_description


@pytest.mark.parametrize(
    ("start", "sped_used", "options", "snap"),
    [
        (WARP, True, ("sped", "googspedv1"), "snap"),
        (Start(server_sped=False, server_snap=False), False, (), "classic"),
        (PLAIN, False, (), "classic"),
    ],
)
def test_the_parts_of_warp_that_took_part(
    start: Start, sped_used: bool, options: tuple[str, ...], snap: str
) -> None:
    call = LiveCall(start)
    assert call.until_connected()
    for end in call.ends.values():
        stats = end.stats()
        assert stats["sped_used"] is sped_used
        assert stats["snap"] == snap
    assert set(call.ends["client"].stats()["sped_options"]) == set(options)


def test_who_does_what() -> None:
    call = LiveCall(WARP)
    before = call.ends["server"].stats()
    assert (before["sped_used"], before["dtls_version"]) == (False, None)
    assert call.until_connected()
    client, server = call.ends["client"].stats(), call.ends["server"].stats()
    assert (client["dtls_role"], client["ice_role"], client["ice_lite"]) == (
        "client",
        "controlling",
        False,
    )
    assert (server["dtls_role"], server["ice_role"], server["ice_lite"]) == (
        "server",
        "controlled",
        True,
    )


def test_the_description_of_the_peer_is_known_once_agreed_on() -> None:
    call = LiveCall(WARP)
    assert call.until_connected()
    for name, other in (("client", "server"), ("server", "client")):
        told = parse_description(call.ends[name].remote_description)
        [ufrag] = {m.transport.ufrag for m in told.media}
        assert ufrag == call.ends[other].local_ufrag
