"""Real descriptions: every one is read, written back, answered, and agreed on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.sdp.build import OWN_INIT, local
from warp.sdp import Setup, create_answer, negotiate, parse_description

FOLDER = Path(__file__).with_name("sdp")
FILES = sorted(path.stem for path in FOLDER.glob("*.sdp"))
PAIRS = sorted(name.removesuffix("_offer") for name in FILES if name.endswith("_offer"))


def read(name: str):
    return parse_description((FOLDER / f"{name}.sdp").read_text())


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_lost_on_the_way_through_text(name: str) -> None:
    description = read(name)
    assert parse_description(str(description)) == description


@pytest.mark.parametrize("pair", PAIRS)
def test_the_recorded_pair_agrees(pair: str) -> None:
    result = negotiate(read(f"{pair}_offer"), read(f"{pair}_answer"), is_offerer=True)
    # both browsers and aiortc answered active
    assert not result.transport.is_dtls_client
    assert result.audio[0].send_codecs[0].name == "opus"
    assert result.data is not None


@pytest.mark.parametrize("pair", PAIRS)
def test_we_answer_the_recorded_offer(pair: str) -> None:
    offer = read(f"{pair}_offer")
    answer = parse_description(str(create_answer(offer, local(), sctp_init=OWN_INIT)))
    result = negotiate(answer, offer, is_offerer=False)
    assert not result.transport.is_dtls_client
    assert {m.transport.setup for m in answer.media} == {Setup.PASSIVE}
    assert result.audio and result.data is not None
    assert (result.data.local_init is not None) is (result.data.remote_init is not None)


def test_snap_values_of_chromium_reach_us_whole() -> None:
    data = read("chromium156_snap_only_offer").data_section()
    assert data is not None and data.sctp is not None and data.sctp.init is not None
    assert data.sctp.init.hex() == ("0100001ec7c4c4bd00500000ffffffff726faa66c00000048008000682c0")
