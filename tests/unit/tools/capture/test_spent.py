"""What WARP would have saved, counted from when the DTLS client could begin."""

from __future__ import annotations

import pytest

from tests.captures.pcap import read_pcap
from tests.unit.tools.capture.builder import frames, pcap
from tests.unit.tools.capture.simulated import facts_of
from warp_tools.capture.facts import Facts
from warp_tools.capture.findings import findings
from warp_tools.capture.spent import saved, spent


def of(name: str) -> Facts:
    return facts_of(pcap(frames(read_pcap(f"{name}.pcap")), ns=True))


def by_name(facts: Facts) -> dict[str, tuple[float, float]]:
    return {one.what: (one.now, one.warp) for one in saved(facts)}


def test_a_client_that_was_called_forth_begins_half_a_round_trip_later() -> None:
    """The other side's check came first: WARP itself was saved nothing but the server's wait."""
    assert by_name(of("delay/chromium156_warp_nopqc")) == {
        "client can send media": (1.5, 1.5),
        "server can send media": (2.0, 1.0),
        "channel open at the client": (1.5, 1.5),
        "channel open at the server": (2.0, 2.0),
    }
    plain = of("delay/chromium156_default")
    assert by_name(plain)["client can send media"] == (2.5, 1.5)
    (sped,) = (one for one in findings(plain) if one.id == "no-sped")
    assert sped.trips == 1.0  # the half before it no SPED would have taken away


def test_a_client_that_asks_first() -> None:
    assert by_name(of("stun/chromium156_default"))["client can send media"] == (2.0, 1.0)
    assert by_name(of("peers/firefox153"))["client can send media"] == (2.0, 1.0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("calls/libwebrtc152_warp", "a check with the first part of the ClientHello"),
        ("stun/chromium156_warp", "checks that carried the ClientHello in 2 parts"),
        ("stun/chromium156_warp_nopqc", "nothing: the first check carried the ClientHello"),
        ("delay/chromium156_warp_nopqc", "the check of the other side, whose answer"),
        ("peers/pion_v4", "checks, until the ClientHello left"),
    ],
)
def test_what_was_before_the_client_hello(name: str, text: str) -> None:
    assert spent(of(name))[0].text.startswith(text)
