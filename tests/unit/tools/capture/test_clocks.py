"""A clock that stands before 1970: everything is told as at any other time."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.captures.pcap import CAPTURES
from tests.scenarios.start import WARP
from tests.unit.tools.capture.builder import Packet, enhanced, interface, option, section
from tests.unit.tools.capture.test_places import merged
from warp_tools.capture.explain import explanation
from warp_tools.capture.reader import open_capture
from warp_tools.capture.redact import redact
from warp_tools.capture.run import read
from warp_tools.capture.view import header, ladder_lines
from warp_tools.capture.writer import writing
from warp_tools.decrypt import DecryptConfig, decrypt

CALL = CAPTURES / "calls/libwebrtc152_warp.pcap"
OFFSET_S = -(10**10)
# 1970 comes before the first packet, during the start, after it, and long after the last
starts = pytest.mark.parametrize("start", [0, -1_000_000, -300_000_000, -(10**18)])


def retimed(source: Path, start: int) -> Path:
    """Write a capture once more, its first packet at `start`."""
    with open_capture(source) as reader:
        found = list(reader.frames)
    clock = option(9, b"\x09") + option(14, struct.pack("<q", OFFSET_S))
    count = max(frame.interface for frame in found) + 1
    blocks = [section(), *[interface(found[0].link, options=clock)] * count]
    base = start - OFFSET_S * 10**9
    for frame in found:
        packet = Packet(frame.time_ns - found[0].time_ns, frame.data, frame.interface)
        blocks.append(enhanced(packet, ticks=10**9, start=base))
    target = source.parent / f"{source.name}.early"
    target.write_bytes(b"".join(blocks))
    return target


def told(path: Path) -> tuple[str, list[str], list[str]]:
    result = read(path)
    said, lines = "", []
    for facts in result.facts():
        said += json.dumps(explanation(facts) | {"began": None})
        lines += [line.plain for line in ladder_lines(facts, 500)][len(list(header(facts))) :]
    return said, lines, result.notes


def times(path: Path) -> list[int]:
    with open_capture(path) as reader:
        return [frame.time_ns for frame in reader.frames]


@pytest.fixture
def usual(tmp_path: Path) -> Path:
    path = tmp_path / "usual"
    path.write_bytes(CALL.read_bytes())
    return path


@starts
def test_a_ladder_and_an_explanation_mind_no_clock(start: int, usual: Path) -> None:
    assert told(retimed(usual, start)) == told(usual)


@starts
def test_nor_does_a_file_of_both_ends(start: int, tmp_path: Path) -> None:
    path = tmp_path / "both"
    path.write_bytes(merged(WARP, two=True))
    assert told(retimed(path, start)) == told(path)


def test_a_moment_before_1970_is_a_date(usual: Path) -> None:
    (facts,) = read(retimed(usual, -4_750_000_000)).facts()
    assert "1969-12-31 23:59:55.250 UTC" in next(iter(header(facts))).plain


@starts
def test_what_is_redacted_keeps_its_times(start: int, usual: Path, tmp_path: Path) -> None:
    source, target = retimed(usual, start), tmp_path / "out"
    redact(source, target)
    assert times(target) == times(source)
    assert told(target)[1:] == told(source)[1:]


@starts
def test_what_is_opened_keeps_its_times(start: int, usual: Path, tmp_path: Path) -> None:
    found = []
    for source in (usual, retimed(usual, start)):
        plain, said = tmp_path / "plain", tmp_path / "said"
        keylog = CALL.with_suffix(".keys")
        decrypt(DecryptConfig(capture=source, keylog=keylog, plain=plain, messages=said))
        began = times(source)[0]
        seconds = [json.loads(line)["seconds"] for line in said.read_text().splitlines()]
        found.append((seconds, [at - began for at in times(plain)]))
    assert found[0] == found[1] and all(found[0])


def test_a_file_is_written_over_the_turn_of_1970(tmp_path: Path) -> None:
    path = tmp_path / "out"
    wrote = [(-1, 1), (5, 1), (-(10**18), 0), (7, 0), (-2, 2), (8, 2)]
    with writing(path) as writer:
        for at, number in wrote:
            writer.write(at, b"data", interface=number)
    assert times(path) == [at for at, _ in wrote]
