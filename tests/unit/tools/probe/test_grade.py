"""Features and grades from the facts of calls, good ones and bad ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.tools.probe.support import simulated
from warp.dtls import DtlsVersion
from warp.peer import PeerConfig
from warp.sdp import SessionDescription
from warp_tools.probe.features import (
    IN_BAND,
    NO_COOKIE,
    RETRY_REQUEST,
    VERIFY_REQUEST,
    Features,
    Recovery,
    features_of,
)
from warp_tools.probe.grade import Grade, grade
from warp_tools.probe.observe import RESPONSE, Facts, observe
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
from warp_tools.probe.view import _rows, _waited


def facts(trial: Trial = EVERYTHING, **changes: object) -> Facts:
    """Return the facts of a perfect call, but for the changes."""
    perfect = Facts(
        name=trial.name,
        what=trial.what,
        rtt_s=0.1,
        connected_s=0.104,
        channel_s=0.104,
        channel_acked_s=0.2,
        media_s=0.11,
        finished_s=0.104,
        version=DtlsVersion.DTLS12 if trial is DTLS12 else DtlsVersion.DTLS13,
        group="x25519" if trial in (X25519, DTLS12) else "x25519mlkem768",
        sped_in_band=True,
        flight=RESPONSE,
        snap=True,
        early_media=True,
        checks_sent=2,
        checks_answered=2,
    )
    return replace(perfect, **changes)


def failed(trial: Trial, error: str = "no group in common") -> Facts:
    return Facts(trial.name, trial.what, error)


def answer(server: PeerConfig | None = None) -> SessionDescription:
    description = simulated(EVERYTHING, server, hold_s=0.0).description
    assert description is not None
    return description


PERFECT = [facts(t) for t in (EVERYTHING, PLAIN, DTLS12, X25519, LOST_OURS, LOST_THEIRS)]


def features(calls: list[Facts], server: PeerConfig | None = None) -> Features:
    return features_of(calls, answer(server or PeerConfig(lite=True)))


def graded(calls: list[Facts]) -> Grade:
    return grade(calls, features(calls))


def ids(calls: list[Facts]) -> dict[str, int]:
    return {reason.id: reason.points for reason in graded(calls).reasons}


def test_a_perfect_server() -> None:
    found = features(PERFECT)
    assert found == Features(
        setup="passive",
        lite=True,
        candidates=1,
        dtls13=True,
        dtls12=True,
        groups={"x25519": True, "x25519mlkem768": True},
        chosen_group="x25519mlkem768",
        cookie=NO_COOKIE,
        sped="sped",
        flight=RESPONSE,
        snap_answered=True,
        snap_used=True,
        channel=True,
        channel_acknowledged=True,
        early_media=True,
        media=True,
        consent_answered=True,
        consent_asked=2,
        consent_replies=2,
        consent_checks=0,
        lost_request=Recovery(True, 0.0, 0.0),
        lost_response=Recovery(True, 0.0, 0.0),
    )
    assert grade(PERFECT, found) == Grade("A", 100, ())
    assert found.to_json()["sped"] == {"dialect": "sped", "first_flight": "response"}


def test_what_a_full_active_server_describes() -> None:
    found = features([facts()], PeerConfig(passive=False))
    assert (found.setup, found.lite) == ("active", False)


def test_sped_without_a_word_in_the_answer() -> None:
    found = features([facts()], PeerConfig(lite=True, sped=False))
    assert found.sped == IN_BAND
    assert features([facts(sped_in_band=False)]).sped is None


def test_groups_that_were_refused() -> None:
    calls = [facts(group="x25519"), failed(HYBRID), facts(DTLS12)]
    found = features(calls)
    assert found.groups == {"x25519": True, "x25519mlkem768": False}
    assert ids(calls) == {"no_hybrid": 5}


def test_dtls12_alone() -> None:
    calls = [facts(version=DtlsVersion.DTLS12, group="x25519")]
    found = features(calls)
    assert (found.dtls13, found.dtls12) == (False, True)
    assert found.groups == {"x25519": True, "x25519mlkem768": False}
    assert ids(calls) == {"no_dtls13": 10, "no_hybrid": 5}


def test_dtls13_alone() -> None:
    found = features([facts(), failed(DTLS12)])
    assert (found.dtls13, found.dtls12) == (True, False)


def test_what_was_not_settled() -> None:
    found = features([failed(EVERYTHING), failed(PLAIN)])
    assert (found.dtls13, found.dtls12, found.early_media) == (None, None, None)
    assert found.channel is False
    assert found.groups == {"x25519": None, "x25519mlkem768": None}
    assert found.consent_answered is None


def test_a_server_that_nobody_reaches() -> None:
    verdict = graded([failed(EVERYTHING, "not connected after 5 s"), failed(PLAIN)])
    assert (verdict.letter, verdict.points) == ("F", 0)
    assert verdict.reasons[0].text == "no call connected: not connected after 5 s"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"connected_s": 0.144, "channel_s": 0.144}, {}),
        ({"connected_s": 0.21, "channel_s": 0.21}, {"round_trips": 15}),
        (
            {"connected_s": 0.32, "channel_s": 0.53},
            {"round_trips": 30, "channel_round_trips": 10},
        ),
        ({"verify_request": True}, {"cookie": 5}),
        ({"retry_request": True}, {}),
        ({"retry_request": True, "retry_cookie": True}, {"cookie": 5}),
        ({"checks_answered": 0}, {"no_consent": 10}),
        ({"checks_sent": 0, "checks_answered": 0}, {}),
        ({"media_s": None, "early_media": False}, {}),
    ],
)
def test_what_costs_points(changes: dict, expected: dict) -> None:
    assert ids([facts(**changes)]) == expected


def test_cookies_by_name() -> None:
    assert features([facts(verify_request=True)]).cookie == VERIFY_REQUEST
    assert features([facts(retry_cookie=True)]).cookie == RETRY_REQUEST


@pytest.mark.parametrize("trial", [LOST_OURS, LOST_THEIRS])
def test_losses(trial: Trial) -> None:
    slow, name = facts(trial, connected_s=1.2), trial.name
    assert ids([facts(), slow]) == {f"{name}_slow": 5}
    assert ids([facts(), failed(trial)]) == {f"{name}_fatal": 15}
    assert ids([facts(), facts(trial, connected_s=0.6)]) == {}


def row(name: str, *calls: Facts) -> list[str]:
    """Return what the report says under a name."""
    said = list(_rows(features_of(list(calls), None)))
    at = next(at for at, (one, _) in enumerate(said) if one == name)
    more = 1 + (name == "loss")
    return [text for _, text in said[at : at + more]]


def test_a_loss_names_what_was_lost_of_how_many_and_what_it_did() -> None:
    ours = facts(LOST_OURS, lost=2, lost_of=9, connected_s=0.304)
    theirs = facts(LOST_THEIRS, lost=1, lost_of=7, connected_s=1.304)
    to, of = "2 of 9 datagrams to the server, the first of each path", "from the server"
    hello = "the one with its hello"
    assert row("loss", facts(), ours, theirs) == [
        f"dropped on purpose: {to}; connected 200 ms later",
        f"dropped on purpose: 1 of 7 datagrams {of}, {hello}; connected 1200 ms later, "
        "which a caller notices",
    ]
    ours = facts(LOST_OURS, lost=1, lost_of=9)
    assert row("loss", facts(), ours, replace(failed(LOST_THEIRS), lost=1, lost_of=1)) == [
        "dropped on purpose: 1 of 9 datagrams to the server, the first; connected no later",
        f"dropped on purpose: 1 of 1 datagram {of}, {hello}; not connected, "
        "it was never made up for",
    ]
    theirs = facts(LOST_THEIRS, lost=1, lost_of=7)
    assert row("loss", failed(EVERYTHING), failed(LOST_OURS), theirs) == [
        "dropped on purpose: no datagram to the server, there was none; not connected",
        f"dropped on purpose: 1 of 7 datagrams {of}, {hello}; connected, "
        "and no call without a loss to compare with",
    ]
    assert row("loss", facts(), ours)[1] == "of datagrams from the server: not tried"


@pytest.mark.parametrize(
    ("asked", "answered", "says"),
    [
        (2, 2, "answers checks in a call (2 of 2)"),
        (
            3,
            1,
            "answers checks in a call (1 of 3; 2 not, lost perhaps: it takes 30 s without any to "
            "end a call)",
        ),
        (2, 0, "answers no check in a call (0 of 2): clients give up after 30 s"),
        (0, 0, "none of ours was due"),
    ],
)
def test_consent_says_how_many_answers_were_missing(asked: int, answered: int, says: str) -> None:
    (said,) = row("consent", facts(checks_sent=asked, checks_answered=answered))
    assert said == f"{says}; sends its own (0 seen)"


def test_letters_go_down_with_points() -> None:
    seen = [
        graded([facts(connected_s=at, channel_s=at)]).letter
        for at in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
    ]
    assert seen == ["A", "B", "C", "D", "E", "F"]


def test_another_call_speaks_where_the_first_failed() -> None:
    calls = [failed(EVERYTHING), facts(PLAIN, connected_s=0.2, channel_s=0.4)]
    verdict = graded(calls)
    assert (verdict.letter, verdict.points) == ("B", 75)


def test_simulated_servers_end_to_end() -> None:
    server = PeerConfig(lite=True, early_data=True)
    calls = [
        observe(simulated(trial, server))
        for trial in (EVERYTHING, PLAIN, DTLS12, X25519, LOST_OURS, LOST_THEIRS)
    ]
    verdict = grade(calls, features(calls, server))
    assert verdict == Grade("A", 100, ())


def test_a_slow_machine_adds_no_round_trips() -> None:
    """The clock says 1.6, the messages say one."""
    slow = facts(connected_s=0.16, channel_s=0.23, connected_trips=1.0, channel_trips=1.0)
    verdict = grade([slow], features_of([slow], None))
    ids = {reason.id for reason in verdict.reasons}
    assert not ids & {"round_trips", "channel_round_trips"}
    plain = facts(connected_s=0.26, channel_s=0.5, connected_trips=2.0, channel_trips=4.0)
    verdict = grade([plain], features_of([plain], None))
    assert {"round_trips", "channel_round_trips"} <= {reason.id for reason in verdict.reasons}


def test_a_call_that_was_slow_for_another_reason_is_no_measure_of_a_loss() -> None:
    """The first call of a fresh server took three round trips, one of them by messages."""
    first = facts(connected_s=0.304, connected_trips=1.0)
    found = features_of([first, facts(LOST_OURS, connected_s=0.31)], None).lost_request
    assert found is not None and found.extra_s == pytest.approx(0.185)
    assert _waited(first) == " (1 by messages: the rest it waited)"
    assert _waited(facts(connected_s=0.17, connected_trips=1.0)) == ""
    assert _waited(facts(LOST_OURS, connected_s=0.304, connected_trips=1.0)) == ""
    assert _waited(facts(connected_s=0.304)) == ""
