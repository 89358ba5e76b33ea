"""What is tried, and what is left out because it is known already."""

from __future__ import annotations

import itertools

import pytest

from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.errors import InvalidConfig
from warp_tools.probe.plan import (
    DTLS12,
    EVERYTHING,
    HYBRID,
    INSTANT,
    LOST_OURS,
    LOST_THEIRS,
    MAX_SESSIONS,
    PLAIN,
    X25519,
    ProbeConfig,
    further_trials,
)

LOSSES = [LOST_OURS, LOST_THEIRS]


def test_the_group_that_was_chosen_is_not_tried_again() -> None:
    chosen = DtlsVersion.DTLS13, NamedGroup.X25519MLKEM768
    assert further_trials(*chosen, loss=True) == [PLAIN, DTLS12, X25519, *LOSSES]
    chosen = DtlsVersion.DTLS13, NamedGroup.X25519
    assert further_trials(*chosen, loss=False) == [PLAIN, DTLS12, HYBRID]


def test_after_dtls12_nothing_newer_is_tried() -> None:
    chosen = DtlsVersion.DTLS12, NamedGroup.X25519
    assert further_trials(*chosen, loss=True) == [PLAIN, *LOSSES]


def test_after_a_failure_everything_is_tried() -> None:
    assert further_trials(None, None, loss=True) == [PLAIN, DTLS12, X25519, HYBRID, *LOSSES]


@pytest.mark.parametrize(
    ("version", "group"), [*itertools.product([None, *DtlsVersion], [None, *NamedGroup])]
)
def test_never_more_calls_than_promised(version, group) -> None:
    for instant in (False, True):
        assert 1 + len(further_trials(version, group, loss=True, instant=instant)) <= MAX_SESSIONS


def test_a_ticket_is_used_first() -> None:
    trials = further_trials(DtlsVersion.DTLS13, NamedGroup.X25519, loss=False, instant=True)
    assert trials == [INSTANT, PLAIN, DTLS12, HYBRID]


def test_trials_differ_in_what_they_say() -> None:
    config = ProbeConfig(url="http://x")
    assert EVERYTHING.peer(config).sped
    assert not PLAIN.peer(config).sped
    assert not PLAIN.peer(config).snap
    assert DTLS12.peer(config).versions == (DtlsVersion.DTLS12,)
    assert X25519.peer(config).groups == (NamedGroup.X25519,)


@pytest.mark.parametrize(
    "wrong", [{"delay_s": -0.1}, {"delay_s": 2}, {"patience_s": 0}, {"settle_s": 0}]
)
def test_impossible_configurations(wrong) -> None:
    with pytest.raises(InvalidConfig):
        ProbeConfig(url="http://x", **wrong)


def test_a_token_is_not_shown() -> None:
    assert "hush" not in repr(ProbeConfig(url="http://x", token="hush"))
