"""Live sessions of every kind that begin and end in every way, and what they leave: nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from warp.ice import IceConfig
from warp.peer.config import _ice_config
from warp_tools import web
from warp_tools.bench.live_churn import MEDIA_WAYS, SOCKET_WAYS, apart, inside
from warp_tools.bench.residue import Left


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A peer that has vanished is missed after 3 s in place of 30 (RFC 7675 section 5.1)."""
    for name, seconds in (("consent_interval_s", 1.0), ("consent_timeout_s", 3.0)):
        monkeypatch.setitem(IceConfig.__init__.__kwdefaults__, name, seconds)
    # and a web server's pings, which outlive their connection by an interval, come oftener
    monkeypatch.setattr(web, "_READ_TIMEOUT_S", 6)
    _ice_config.cache_clear()
    yield
    _ice_config.cache_clear()


@pytest.mark.slow
def test_live_sessions_that_end_in_any_way_leave_nothing() -> None:
    found = inside(96, rounds=1)
    assert found.left == Left()
    turned_away = sum(n for way, n in found.ways.items() if way.startswith("turned away"))
    assert turned_away < 60, found.ways
    if not turned_away:
        ways = {way for way in found.ways if not way.endswith("stay")}
        assert len(ways) == len(SOCKET_WAYS) + len(MEDIA_WAYS)


@pytest.mark.slow
def test_nor_does_the_process_that_they_talked_with() -> None:
    assert apart(16, rounds=1).left == Left()
