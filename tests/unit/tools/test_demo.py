from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from warp_tools.audio import packaged_sound, write_wav
from warp_tools.delay import Rung
from warp_tools.demo import VARIANTS, DemoConfig, candidate_of, demo
from warp_tools.demo_instant import HAD, address_of
from warp_tools.demo_talk import late_frames
from warp_tools.dissect import Description
from warp_tools.failure import ToolFailure
from warp_tools.ledger import TARGETS

ANSWER = "v=0\r\na=candidate:1 1 udp 2130706431 127.0.0.1 5000 typ host\r\n"


def test_every_target_has_its_start() -> None:
    assert set(TARGETS) <= set(VARIANTS)
    assert next(iter(VARIANTS)) == "plain"


def test_the_servers_address_is_read_from_its_answer() -> None:
    assert candidate_of(ANSWER) == ("127.0.0.1", 5000)
    with pytest.raises(ToolFailure, match="names no address"):
        candidate_of("v=0\r\n")


def test_the_servers_address_is_read_from_its_bundle() -> None:
    assert address_of(["tcp 192.0.2.1 443", "udp 127.0.0.1 5000"]) == ("127.0.0.1", 5000)
    for none in ([], ["tcp 192.0.2.1 443"]):
        with pytest.raises(ToolFailure, match="names no address"):
            address_of(none)


def test_frames_of_the_question_that_left_too_late_are_counted() -> None:
    def rungs(*times: float, kind: str = "rtp", from_client: bool = True) -> list[Rung]:
        return [Rung(at, from_client, 80, Description(kind, kind), False) for at in times]

    assert late_frames([]) == 0
    assert late_frames(rungs(1.0, 1.02, 1.035, 1.07)) == 0  # a jitter buffer bridges that
    # at 1.04, 1.06, 1.08 and 1.10 nothing left; then everything at once
    stalled = rungs(1.0, 1.02, 1.12, 1.121, 1.122, 1.123, 1.14)
    assert late_frames(stalled) == 4
    # others' packets are no frames of the question
    beside = rungs(1.05, kind="stun") + rungs(1.07, from_client=False)
    assert late_frames(sorted(stalled + beside)) == 4


@pytest.mark.slow
def test_the_demo_runs_and_knows_its_speech(tmp_path: Path) -> None:
    """A short call over a short path; how long the parts take is judged in the simulation."""
    write_wav(tmp_path / "speech.wav", packaged_sound("speech")[:96_000])
    said: list[str] = []
    config = DemoConfig(
        rtt_ms=40, speech=tmp_path / "speech.wav", out=tmp_path / "reply.wav", talk=False
    )
    ledger = asyncio.run(demo(config, said.append))
    assert [row.name for row in ledger.rows] == list(VARIANTS)
    assert ledger.correlation is not None
    assert ledger.correlation > 0.9
    assert (tmp_path / "reply.wav").stat().st_size > 200_000
    assert said[-1] == "calling: instant"
    instant = ledger.rows[-1]
    assert "carries ClientHello (" in instant.ladder[0].description.text
    assert [what for _, what in sorted(instant.had)] == [what for _, what in instant.had]
    assert {what for _, what in instant.had} == set(HAD.values())
