"""Facts out of the datagrams of whole calls, whose truth is known from how they were made."""

from __future__ import annotations

import pytest

from tests.unit.tools.probe.support import WAY_S, simulated
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.peer import PeerConfig
from warp_tools.probe.observe import BARE, REQUEST, RESPONSE, Facts, observe
from warp_tools.probe.plan import (
    DTLS12,
    EVERYTHING,
    HYBRID,
    LOST_OURS,
    LOST_THEIRS,
    PLAIN,
    X25519,
    Trial,
)

RTT_S = 2 * WAY_S
LITE = PeerConfig(lite=True)
EARLY = PeerConfig(lite=True, early_data=True)


def trips(facts: Facts) -> list[float | None]:
    moments = (facts.connected_s, facts.channel_s, facts.media_s)
    return [facts.round_trips(at) for at in moments]


def test_a_start_in_one_round_trip() -> None:
    facts = observe(simulated(EVERYTHING, EARLY))
    assert facts.rtt_s == pytest.approx(RTT_S)
    assert trips(facts) == [1.0, 1.0, 1.0]
    assert facts.version is DtlsVersion.DTLS13
    assert facts.group == "x25519mlkem768"
    assert (facts.sped_in_band, facts.flight, facts.snap) == (True, RESPONSE, True)
    assert facts.early_media
    assert facts.channel_acked_s == pytest.approx(2 * RTT_S, abs=0.02)
    assert not (facts.verify_request or facts.retry_request or facts.retry_cookie)
    assert facts.notes == []


def test_a_plain_start() -> None:
    facts = observe(simulated(PLAIN, LITE))
    assert (facts.sped_in_band, facts.flight, facts.snap) == (False, BARE, False)
    assert trips(facts)[0] == 2.0
    assert facts.channel_s is not None
    assert facts.channel_s > (facts.connected_s or 0)
    assert not facts.early_media


def test_media_that_waits_for_our_finished_is_not_early() -> None:
    facts = observe(simulated(EVERYTHING, LITE))
    assert trips(facts) == [1.0, 1.0, 2.0]
    assert not facts.early_media


def test_dtls12() -> None:
    """The server's Finished is the last message, and so its media is not early."""
    facts = observe(simulated(DTLS12, EARLY))
    assert facts.version is DtlsVersion.DTLS12
    assert trips(facts)[0] == 2.0
    assert facts.finished_s == pytest.approx(RTT_S, abs=0.01)
    assert not facts.early_media


def test_a_server_that_begins_dtls_itself() -> None:
    facts = observe(simulated(EVERYTHING, PeerConfig(passive=False)))
    assert facts.flight == REQUEST
    assert facts.connected
    assert facts.checks_received >= 0


@pytest.mark.parametrize("trial", [X25519, HYBRID])
def test_one_group(trial: Trial) -> None:
    facts = observe(simulated(trial, EARLY))
    assert facts.group == trial.name


def test_a_group_that_has_to_be_asked_for() -> None:
    """A server without our shares asks for another: a HelloRetryRequest, without a cookie."""
    server = PeerConfig(lite=True, groups=(NamedGroup.SECP256R1,))
    facts = observe(simulated(EVERYTHING, server))
    assert facts.connected
    assert (facts.retry_request, facts.retry_cookie) == (True, False)
    assert facts.group == "secp256r1"
    assert trips(facts)[0] == 2.0


@pytest.mark.parametrize("trial", [LOST_OURS, LOST_THEIRS])
def test_a_lost_datagram_costs_time(trial: Trial) -> None:
    facts, whole = observe(simulated(trial, LITE)), observe(simulated(EVERYTHING, LITE))
    assert facts.connected
    assert (facts.connected_s or 0) >= (whole.connected_s or 0)
    assert any(note.lost for note in simulated(LOST_OURS, LITE).notes)


def test_a_server_that_is_silent() -> None:
    facts = observe(simulated(EVERYTHING, LITE, silent_after=-1.0))
    assert not facts.connected
    assert (facts.flight, facts.rtt_s, facts.media_s) == (None, None, None)
    assert facts.datagrams_received == 0
    assert facts.round_trips(1.0) is None


def test_a_server_that_says_nothing() -> None:
    facts = observe(simulated(EVERYTHING, LITE, speaks=False))
    assert facts.connected
    assert facts.media_s is None
    assert not facts.early_media


@pytest.mark.parametrize(("trial", "sent"), [(LOST_OURS, True), (LOST_THEIRS, False)])
def test_what_was_lost_is_counted_in_its_direction(trial: Trial, sent: bool) -> None:
    done = simulated(trial)
    facts = observe(done)
    assert facts.lost == 1
    assert facts.lost_of == sum(
        note.sent is sent and note.time <= (done.connected_at or 0.0) for note in done.notes
    )
    assert (observe(simulated(EVERYTHING)).lost, observe(simulated(EVERYTHING)).lost_of) == (0, 0)


def test_consent_is_counted_both_ways() -> None:
    facts = observe(simulated(EVERYTHING, PeerConfig(), hold_s=14.0))
    assert facts.checks_sent == facts.checks_answered >= 2
    assert facts.checks_received >= 2


def test_a_server_that_stops_answering_checks() -> None:
    facts = observe(simulated(EVERYTHING, LITE, hold_s=14.0, silent_after=0.5))
    assert facts.connected
    assert facts.checks_sent >= 1
    assert facts.checks_answered < facts.checks_sent


def test_plain_values() -> None:
    call = observe(simulated(EVERYTHING, EARLY)).to_json()
    assert call["connected"] is True
    assert call["round_trips"] == {
        "connected": 1.0,
        "channel_open": 1.0,
        "channel_acknowledged": 2.0,
        "first_media": 1.0,
    }
    assert call["ms"]["connected"] == pytest.approx(100, abs=5)
    assert call["dtls_version"] == "1.3"
    assert observe(simulated(DTLS12, LITE)).to_json()["dtls_version"] == "1.2"
