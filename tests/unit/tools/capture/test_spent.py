"""What WARP would have saved, counted from when the DTLS client could begin."""

from __future__ import annotations

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from tests.unit.tools.capture.builder import frames, pcap
from tests.unit.tools.capture.simulated import facts_of
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import Facts
from warp_tools.capture.findings import findings
from warp_tools.capture.opened import opened_with
from warp_tools.capture.run import read
from warp_tools.capture.spent import saved, spent
from warp_tools.capture.trips import channel_depths
from warp_tools.capture.view import explain_lines


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


WARP_LOOPBACK = "stun/chromium156_warp_nopqc"
RTCP = bytes.fromhex("81c90007") + bytes(28) + bytes.fromhex("80000001") + bytes(10)


def with_early(name: str, payload: bytes) -> Facts:
    """A start in which the server sends something right behind its flight."""
    bare = of(name)
    server, flight = bare.start.server, bare.start.client_flight[0]
    assert server is not None
    packets = read_pcap(f"{name}.pcap")
    at = flight.number - 1
    source, destination = bare.session.addresses[server][0], flight.source
    early = packets[at]._replace(
        time=packets[at].time - 1e-5, source=source, destination=destination, payload=payload
    )
    return facts_of(pcap(frames([*packets[:at], early, *packets[at:]]), ns=True))


def test_media_behind_the_client_flight_does_not_show_that_the_server_waited() -> None:
    """On a loopback, order is chance: nothing is claimed of a session that is WARP already."""
    facts = of(WARP_LOOPBACK)
    assert "server can send media" not in by_name(facts)
    assert "with_warp.server_media" in explanation(facts)["unknown"]
    plain = of("stun/chromium156_default")
    (server,) = (one for one in saved(plain) if one.what == "server can send media")
    assert (server.now, server.warp, server.at_least) == (1.5, 0.5, True)
    assert any("not 1.5 or later: at least 1 less" in line.plain for line in explain_lines(plain))


def test_a_server_that_answers_the_client_flight_at_once_has_waited_for_it() -> None:
    facts = of("delay/chromium156_default")
    assert facts.vantage.countable
    assert by_name(facts)["server can send media"] == (3.0, 1.0)


def test_a_server_of_dtls_12_has_no_keys_before() -> None:
    assert by_name(of("calls/aiortc116_dtls12"))["server can send media"] == (2.5, 0.5)


def test_a_server_that_was_seen_to_send_early_is_saved_nothing() -> None:
    """A report alone counts as well as media: ledger and finding agree."""
    facts = with_early(WARP_LOOPBACK, RTCP)
    (finding,) = (one for one in findings(facts) if one.id == "early-media")
    assert "sent reports on media (SRTCP) behind its flight" in finding.text
    assert by_name(facts)["server can send media"] == (0.5, 0.5)
    assert "with_warp.server_media" not in explanation(facts)["unknown"]


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


def with_keys(name: str) -> Facts:
    (facts,) = read(
        CAPTURES / f"{name}.pcap", opened=opened_with(CAPTURES / f"{name}.keys")
    ).facts()
    return facts


def test_without_keys_a_channel_is_not_said_to_be_open() -> None:
    """SCTP is up at the server before the OPEN, which sizes do not show, can have come."""
    facts = of("peers/chromium156")
    told = by_name(facts)
    assert told["SCTP up at the server"] == (3.5, 1.5)
    assert not any(what.startswith("channel open") for what in told)
    assert explanation(facts)["unknown"]["with_warp.channel"].startswith("SCTP alone is counted: ")


def test_a_channel_is_open_at_the_other_side_when_its_open_came() -> None:
    facts = with_keys("peers/chromium156")
    told = by_name(facts)
    assert told["channel open at the client"] == (4.0, 1.0)
    assert told["channel open at the server"] == (4.5, 1.5)
    opened = facts.stage("channel_B")
    assert opened is not None and opened.trips == 4.5
    assert any("a channel is open at B" in line.plain for line in explain_lines(facts))
    assert "with_warp.channel" not in explanation(facts)["unknown"]


def test_a_channel_agreed_on_in_advance_is_open_with_sctp() -> None:
    facts = with_keys("calls/libwebrtc152_plain")
    assert by_name(facts)["channel open at the server"] == (3.5, 1.5)
    assert facts.stage("channel_A") is None


def test_an_open_that_comes_with_the_cookie_echo_costs_nothing_more() -> None:
    channel = with_keys("peers/chromium156").channel
    assert channel_depths(channel, (4.0, 3.5)) == (4.0, 4.5)
    assert channel_depths(channel._replace(bundled=(True, False)), (4.0, 3.5)) == (4.0, 3.5)
    lost = channel._replace(opens=(None, None))
    assert channel_depths(lost, (4.0, 3.5)) == (None, None)
