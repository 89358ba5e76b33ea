"""The same start seen from anywhere on its path is explained the same.

The virtual network knows when everything happened; a capture at the client, at the server or in
between has to give these times, whoever asks whom.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest

from tests.scenarios.start import PLAIN, WARP, Outcome, Start, run
from tests.unit.tools.capture.simulated import seen
from warp_tools.capture.facts import Facts
from warp_tools.capture.spent import saved

STARTS = {
    "plain": PLAIN,
    "dtls13": replace(WARP, sped=False, snap=False),
    "sped": replace(WARP, snap=False),
    "warp": WARP,
    "warp-pq": replace(WARP, hybrid=True),
    "active": replace(WARP, passive=False),
    "full": replace(WARP, lite=False),
    "full-active": replace(WARP, lite=False, passive=False, sped=False),
    "server-ignores": replace(WARP, server_sped=False),
    "no-early-data": replace(WARP, early_data=False),
}
PLACES = {"client": 0.0, "near the client": 0.1, "between": 0.4, "server": 1.0}
# round trips by messages: ClientHello, server's flight, client done, server done
MESSAGES = {
    "plain": (1.0, 1.5, 3.0, 2.5),
    "dtls13": (1.0, 1.5, 2.0, 2.5),
    "sped": (0.0, 0.5, 1.0, 1.5),
    "warp": (0.0, 0.5, 1.0, 1.5),
    "warp-pq": (0.0, 0.5, 1.0, 1.5),
    "active": (0.5, 1.0, 1.5, 2.0),
    "full": (0.0, 0.5, 1.0, 1.5),
    "full-active": (0.5, 1.0, 1.5, 2.0),
    "server-ignores": (1.0, 1.5, 2.0, 2.5),
    "no-early-data": (0.0, 0.5, 1.0, 1.5),
}


@lru_cache(maxsize=16)
def outcome(name: str) -> Outcome:
    return run(STARTS[name])


@lru_cache(maxsize=64)
def facts(name: str, place: str) -> Facts:
    return seen(outcome(name), PLACES[place])


both = pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name in STARTS for place in PLACES]
)


@both
def test_the_round_trip_and_the_place(name: str, place: str) -> None:
    vantage = facts(name, place).vantage
    assert vantage.rtt_ns == pytest.approx(100e6, rel=1e-6)
    assert vantage.countable
    letters = facts(name, place).letters
    near = {"side 0": letters[0], "side 1": letters[1]}.get(vantage.near, vantage.near)
    wanted = {"client": "A", "near the client": "A", "between": "between", "server": "B"}
    assert near == wanted[place]


@both
def test_stages_are_where_they_happened(name: str, place: str) -> None:
    found = facts(name, place)
    media = {"A": "client_media", "B": "server_media"}
    for letter, figure in media.items():
        stage = found.stage(f"media_{letter}")
        assert stage is not None
        assert stage.rtt == pytest.approx(outcome(name).figures[figure], abs=1e-6)
    for stage in found.stages:
        if stage.trips is not None:
            # pacing of checks and INIT adds 40 ms where there is nothing to wait for
            assert stage.trips - 1e-6 <= stage.rtt <= stage.trips + 0.041, stage


@both
def test_round_trips_by_messages(name: str, place: str) -> None:
    trips = facts(name, place).trips
    assert (trips.hello, trips.flight, trips.client, trips.server) == MESSAGES[name]


@pytest.mark.parametrize("place", PLACES)
def test_the_sctp_handshake_by_messages(place: str) -> None:
    """The client's INIT alone; and, with DTLS 1.3, the server's that leaves behind its flight."""
    plain = facts("plain", place)
    assert plain.trips.sctp[plain.letters.index("A")] == 5.0
    assert plain.trips.sctp[plain.letters.index("B")] == 4.5
    early = facts("sped", place)
    assert early.trips.sctp[early.letters.index("A")] == 2.0
    assert early.trips.sctp[early.letters.index("B")] == 2.5


@pytest.mark.parametrize("place", PLACES)
def test_what_warp_would_have_saved(place: str) -> None:
    found = {one.what: (one.now, one.trips) for one in saved(facts("plain", place))}
    assert found == {
        "client can send media": (3.0, 2.0),
        "server can send media": (2.5, 2.0),
        "SCTP up at the client": (5.0, 4.0),
        "SCTP up at the server": (4.5, 3.0),
    }
    assert [one.trips for one in saved(facts("warp", place))] == [0.0, 0.0]


@both
def test_lite_servers_are_told_from_full_ones_or_left_open(name: str, place: str) -> None:
    found = facts(name, place)
    server = found.letters.index("B")
    lite, reason = found.lite(server)
    assert lite is (False if not STARTS[name].lite else None)
    assert reason


def test_a_lite_server_shows_itself_when_the_call_lasts() -> None:
    pair = outcome("no-early-data").pair
    pair.run_for(3.0)
    found = seen(outcome("no-early-data"), 0.0)
    assert found.lite(found.letters.index("B"))[0] is True
    assert found.lite(found.letters.index("A"))[0] is False


@pytest.mark.parametrize("rtt_s", [0.02, 0.3])
def test_other_round_trips(rtt_s: float) -> None:
    start: Start = replace(WARP, rtt_s=rtt_s, lite=False)
    found = seen(run(start), 0.0)
    assert found.vantage.rtt_ns == pytest.approx(rtt_s * 1e9, rel=1e-6)


def test_a_round_trip_without_length_is_not_divided_by() -> None:
    found = seen(run(replace(WARP, rtt_s=0.001)), 0.0)
    assert not found.vantage.countable and found.vantage.near is None
    assert found.vantage.reason and "drowns" in found.vantage.reason
    assert all(stage.rtt is None for stage in found.stages)
