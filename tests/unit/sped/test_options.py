from __future__ import annotations

import pytest

from tests.captures.pcap import CAPTURES
from warp.sdp import parse_description
from warp.sped import echo_options

OFFER = (CAPTURES / "sdp" / "chromium156_warp_offer.sdp").read_text()
LINE = "a=ice-options:trickle sped googspedv1"


@pytest.mark.parametrize(
    ("options", "echoed"),
    [
        ("trickle sped googspedv1", ["sped", "googspedv1"]),
        ("trickle goog-sped-v1", ["goog-sped-v1"]),
        ("trickle renomination x,y+z ?", []),
    ],
)
def test_options_with_hyphens_and_unknown_ones_parse(options: str, echoed: list[str]) -> None:
    """Chromium 149 to 154 writes a token that RFC 8839 section 5.6 does not allow."""
    assert LINE in OFFER
    description = parse_description(OFFER.replace(LINE, f"a=ice-options:{options}"))
    offered = [media.transport.ice_options for media in description.media]
    assert all(echo_options(each) == echoed for each in offered)
