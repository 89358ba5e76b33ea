"""A file whose packets do not stand in the order of time."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import pytest

from tests.captures.pcap import read_pcap
from tests.unit.tools.capture.builder import frames, pcap
from warp_tools.capture.explain import explanation
from warp_tools.capture.order import in_order
from warp_tools.capture.reader import Reader
from warp_tools.capture.run import read

NAMES = ["stun/chromium156_warp", "calls/libwebrtc152_warp", "delay/chromium156_warp"]


def told(path: Path, capture: bytes) -> list[dict]:
    path.write_bytes(capture)
    return [explanation(facts) for facts in read(path).facts()]


def by_time(one: dict) -> dict:
    """The explanation without the numbers of packets, which are those of the file."""
    stages = {name: {**s, "datagram": 0} for name, s in one["stages"].items()}
    found = [(finding["id"], finding["ms"]) for finding in one["findings"]]
    return {**one, "stages": stages, "findings": found, "evidence": {}}


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_file_does_not_matter(name: str, tmp_path: Path) -> None:
    packets = list(frames(read_pcap(f"{name}.pcap")))
    (straight,) = told(tmp_path / "a.pcap", pcap(packets, ns=True))
    luck = random.Random(3)
    neighbours = [p for at in range(0, len(packets), 2) for p in reversed(packets[at : at + 2])]
    shuffled = luck.sample(packets, len(packets))
    for order in (neighbours, packets[::-1], shuffled):
        (other,) = told(tmp_path / "b.pcap", pcap(order, ns=True))
        assert by_time(other) == by_time(straight)


def test_only_a_window_is_kept() -> None:
    datagrams = list(Reader(BytesIO(pcap(frames(read_pcap(f"{NAMES[0]}.pcap"))))))
    taken = 0

    def source():
        nonlocal taken
        for datagram in datagrams:
            taken += 1
            yield datagram

    ordered = in_order(source(), window=10)
    assert next(ordered) == datagrams[0]
    assert taken == 11
    assert [datagrams[0], *ordered] == datagrams
