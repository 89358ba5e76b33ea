"""Every capture of the project, explained: held against what was read from its packets by hand.

`explained.toml` names, for each capture, what was negotiated, the packet that ended each stage and
every finding. Times come from the tests' own pcap reader. tshark is the referee where it knows the
protocol: the same handshake messages in the same packets, at the same times.
"""

from __future__ import annotations

import subprocess
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.captures.pcap import CAPTURES, UdpPacket, read_pcap
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import Facts
from warp_tools.capture.finding import IDS
from warp_tools.capture.opened import opened_with
from warp_tools.capture.run import read

EXPLAINED: dict[str, dict[str, Any]] = tomllib.loads((CAPTURES / "explained.toml").read_text())
WITH_KEYS = [name for name, expected in EXPLAINED.items() if "keys" in expected]


def facts_of(name: str, keylog: Path | None = None) -> Facts:
    opened = None if keylog is None else opened_with(keylog)
    (facts,) = read(CAPTURES / f"{name}.pcap", opened=opened).facts()
    return facts


@lru_cache(maxsize=64)
def measured(name: str) -> Facts:
    return facts_of(name)


@lru_cache(maxsize=64)
def told(name: str) -> dict[str, Any]:
    return explanation(measured(name))


def letter(name: str, port: int) -> str:
    """Which side has this port."""
    parties = told(name)["parties"]
    (found,) = (
        side
        for side, party in parties.items()
        if any(address.endswith(f":{port}") for address in party["addresses"])
    )
    return found


def times(name: str) -> dict[int, float]:
    """Milliseconds by packet number, from the first one."""
    packets: list[UdpPacket] = read_pcap(f"{name}.pcap")
    return {n: (p.time - packets[0].time) * 1000 for n, p in enumerate(packets, 1)}


def test_no_capture_is_without_its_explanation() -> None:
    present = {
        str(path.relative_to(CAPTURES).with_suffix("")) for path in CAPTURES.rglob("*.pcap*")
    }
    assert set(EXPLAINED) == present


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_was_negotiated(name: str) -> None:
    expected, answer = EXPLAINED[name], told(name)
    assert answer["session"] == 1
    for key in ("dtls_version", "group", "snap", "dcep"):
        assert answer[key] == expected.get(key), key
    group = expected.get("group")
    assert answer["pq"] == (None if group is None else "MLKEM" in group)


@pytest.mark.parametrize("name", EXPLAINED)
def test_sped(name: str) -> None:
    expected, answer = EXPLAINED[name].get("sped"), told(name)["sped"]
    if expected is None:
        assert answer == {"offered": None, "dialect": None, "used": None}
        return
    assert answer["offered"] == [letter(name, port) for port in expected["offered"]]
    assert answer["dialect"] == expected.get("dialect")
    assert answer["used"] == expected["used"]


@pytest.mark.parametrize("name", EXPLAINED)
def test_roles(name: str) -> None:
    expected, answer = EXPLAINED[name], told(name)
    for key in ("controlling", "dtls_client"):
        port = expected.get(key)
        assert answer["roles"][key] == (None if port is None else letter(name, port)), key
    asked = "sped" in expected
    lite = {letter(name, port) for port in expected.get("lite", [])}
    unknown = {letter(name, port) for port in expected.get("unknown_lite", [])}
    for side in ("A", "B"):
        wanted = None if not asked or side in unknown else side in lite
        assert answer["lite"][side] == wanted, side


@pytest.mark.parametrize("name", EXPLAINED)
def test_stages(name: str) -> None:
    """The same stages, ended by the same packets at the same times, after as many round trips."""
    expected, answer = EXPLAINED[name]["stages"], told(name)["stages"]
    clock = times(name)
    renamed = {}
    for stage, value in expected.items():
        base, _, port = stage.rpartition("_")
        renamed[f"{base}_{letter(name, int(port))}" if port.isdigit() else stage] = value
    assert set(answer) == set(renamed)
    for stage, (packet, *trips) in renamed.items():
        assert answer[stage]["ms"] == pytest.approx(clock[packet], abs=0.002), stage
        assert answer[stage]["round_trips"] == (trips[0] if trips else None), stage


@pytest.mark.parametrize("name", [n for n, e in EXPLAINED.items() if "rtt_ms" in e])
def test_round_trips_by_the_clock_agree_with_those_by_messages(name: str) -> None:
    expected, answer = EXPLAINED[name], told(name)
    assert answer["rtt"]["ms"] == pytest.approx(expected["rtt_ms"], rel=0.02)
    assert answer["rtt"]["vantage"] == expected["vantage"]
    assert answer["rtt"]["countable"]
    counted = [stage for stage in answer["stages"].values() if stage["round_trips"] is not None]
    assert len(counted) >= 7
    for stage in counted:
        # a relay of Python's on a loaded machine adds a few ms to every hop
        assert stage["round_trips"] - 0.05 <= stage["rtt"] <= stage["round_trips"] + 0.35


@pytest.mark.parametrize("name", [n for n, e in EXPLAINED.items() if "rtt_at_most_ms" in e])
def test_a_round_trip_that_is_known_by_its_bound(name: str) -> None:
    expected, rtt = EXPLAINED[name], told(name)["rtt"]
    assert rtt["at_most"] and rtt["countable"] and rtt["vantage"] == "between"
    assert rtt["ms"] == pytest.approx(expected["rtt_at_most_ms"], abs=0.1)


@pytest.mark.parametrize(
    "name", [n for n, e in EXPLAINED.items() if not {"rtt_ms", "rtt_at_most_ms"} & set(e)]
)
def test_a_round_trip_of_loopback_is_not_divided_by(name: str) -> None:
    answer = told(name)
    assert not answer["rtt"]["countable"]
    assert answer["unknown"]["rtt"]
    assert all(stage["rtt"] is None for stage in answer["stages"].values())


@pytest.mark.parametrize("name", EXPLAINED)
def test_findings_are_these_and_no_others(name: str) -> None:
    found = told(name)["findings"]
    assert sorted(finding["id"] for finding in found) == sorted(EXPLAINED[name]["findings"])
    assert {finding["id"] for finding in found} <= set(IDS)
    assert all(finding["text"].endswith(".") for finding in found)


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_was_lost(name: str) -> None:
    lost = [event.number for event in measured(name).session.events if event.marked(Mark.LOST)]
    assert lost == EXPLAINED[name].get("lost", [])


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_is_unknown_has_its_reason(name: str) -> None:
    answer = told(name)
    for key in ("dtls_version", "group", "pq", "snap", "dcep"):
        assert (answer[key] is None) == (key in answer["unknown"]), key
    for role in ("controlling", "dtls_client"):
        assert (answer["roles"][role] is None) == (f"roles.{role}" in answer["unknown"])
    assert all(reason for reason in answer["unknown"].values())


@pytest.mark.parametrize("name", WITH_KEYS)
def test_keys_settle_what_sizes_do_not(name: str) -> None:
    """And what the sizes said is what stands inside."""
    facts = facts_of(name, CAPTURES / f"{name}.keys")
    answer = explanation(facts)
    assert answer["snap"] == EXPLAINED[name]["keys"]["snap"]
    assert answer["dcep"] == EXPLAINED[name]["keys"]["dcep"]
    more = answer["stages"].keys() - told(name)["stages"].keys()
    assert told(name)["stages"].keys() <= answer["stages"].keys()
    clock, opened = times(name), EXPLAINED[name]["keys"].get("opened", {})
    channels = {f"channel_{letter(name, int(port))}": value for port, value in opened.items()}
    for stage, (packet, trips) in channels.items():
        assert answer["stages"][stage]["ms"] == pytest.approx(clock[packet], abs=0.002), stage
        assert answer["stages"][stage]["round_trips"] == trips, stage
    more -= channels.keys()
    assert not more or ("stages.sctp" in told(name)["unknown"] and more <= {"sctp_A", "sctp_B"})
    by_size = {
        packet.event.number: packet.size
        for packet in measured(name).channel.packets
        if packet.event.size < 1500  # several packets may have been captured as one
    }
    inside = {p.event.number: p.size for p in facts.channel.packets if p.event.size < 1500}
    assert {number: by_size.get(number) for number in inside} == inside


# -- the referee ----------------------------------------------------------------------------------

FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "udp.length",
    "stun.type",
    "dtls.handshake.type",
    "dtls.record.content_type",
)
STUN_TYPES = {"REQUEST": 0x0001, "INDICATION": 0x0011, "SUCCESS": 0x0101, "ERROR": 0x0111}


def tshark(path: Path) -> list[dict[str, str]]:
    command = ["tshark", "-n", "-r", str(path), "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def ladder(name: str) -> dict[int, Event]:
    result = read(CAPTURES / f"{name}.pcap", limit=10_000, fold=False)
    return {event.number: event for event in result.finder.sessions[0].events}


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", EXPLAINED)
def test_tshark_sees_the_same(name: str, require_peer: Any) -> None:
    """Where tshark decodes a packet, it says what we say; it never sees one that we do not."""
    require_peer("tshark")
    events = ladder(name)
    second_sights = {
        event.again_ns: event for event in events.values() if event.again_ns is not None
    }
    compared = 0
    for row in tshark(CAPTURES / f"{name}.pcap"):
        number = int(row["frame.number"])
        seconds, _, fraction = row["frame.time_epoch"].partition(".")
        time_ns = int(seconds) * 1_000_000_000 + int(fraction[:9].ljust(9, "0"))
        event = events.get(number) or second_sights[time_ns]
        assert time_ns in (event.time_ns, event.again_ns)
        assert event.size == int(row["udp.length"]) - 8
        compared += _same(event, row)
    assert compared or "chromium156_first_flight" not in name


def _same(event: Event, row: dict[str, str]) -> bool:
    stun, dtls = event.contents.stun, event.contents.dtls
    if row["stun.type"]:
        assert stun is not None
        assert STUN_TYPES[stun.message_class.name] == int(row["stun.type"], 16)
        return True
    if row["dtls.handshake.type"]:
        assert stun is None and dtls is not None
        pieces = [piece for record in dtls.records for piece in record.pieces]
        assert [piece.kind for piece in pieces] == [
            int(kind) for kind in row["dtls.handshake.type"].split(",")
        ]
    if row["dtls.record.content_type"] and not row["dtls.handshake.type"]:
        assert dtls is not None
        kinds = [record.content_type for record in dtls.records if not record.unified]
        assert kinds == [int(kind) for kind in row["dtls.record.content_type"].split(",")]
    return bool(row["dtls.record.content_type"])
