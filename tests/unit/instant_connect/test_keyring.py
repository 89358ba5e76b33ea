"""Epochs come and go; what is shared between servers is one text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from instant_connect.keyring import (
    Epoch,
    Keyring,
    RelayKeys,
    parse_keyring,
    parse_relay_keys,
)
from instant_connect.reasons import InstantDiscard
from instant_connect.ticket import Grant, Route, open_ticket, peek_route, seal_ticket
from tests.vectors.instant_connect import CERTIFICATE
from warp.entropy import SeededEntropy
from warp.errors import Discard, InvalidConfig

NOW = 1_790_000_000.0


def epoch(key_id: int) -> Epoch:
    return Epoch(key_id, bytes([key_id]) * 32, CERTIFICATE)


def sealed(ring: Keyring) -> bytes:
    grant = Grant(int(NOW) + 600)
    return seal_ticket(ring.current, Route(ring.cell), grant, SeededEntropy(1))


def opens(raw: bytes, ring: Keyring) -> bool:
    try:
        open_ticket(raw, ring, NOW)
    except Discard as discard:
        assert discard.reason is InstantDiscard.KEY_ID
        return False
    return True


def test_a_ticket_outlives_one_rotation_and_not_two() -> None:
    first = Keyring(1, epoch(0))
    second = first.rotate(epoch(1))
    third = second.rotate(epoch(2))
    assert [opens(sealed(first), ring) for ring in (first, second, third)] == [True, True, False]
    assert [opens(sealed(third), ring) for ring in (first, second, third)] == [False, False, True]


def test_a_staged_epoch_opens_before_anybody_seals_with_it() -> None:
    """Servers hear of a rotation at different times: none of them may seal what others refuse."""
    ring = Keyring(1, epoch(0)).stage(epoch(1))
    rotated = ring.rotate()
    assert ring.current.key_id == 0
    assert rotated.current.key_id == 1
    assert opens(sealed(rotated), ring)
    assert opens(sealed(ring), rotated)
    with pytest.raises(InvalidConfig, match="no epoch to come"):
        rotated.rotate()


def test_rotation_keeps_what_is_staged_beyond_it() -> None:
    ring = Keyring(1, epoch(0)).stage(epoch(2)).rotate(epoch(1))
    assert [e.key_id for e in (ring.current, ring.previous, ring.upcoming) if e] == [1, 0, 2]


def test_the_routes_of_epochs_that_are_over_are_still_read() -> None:
    """A session that moves has to be found, however old its ticket."""
    ring = Keyring(1, epoch(0))
    raw = sealed(ring)
    for number in (*range(1, 15),):
        ring = ring.rotate(epoch(number))
    assert not opens(raw, ring)
    for keys in (ring, parse_keyring(ring.to_text()), ring.relay_keys()):
        assert peek_route(raw, keys) == Route(1)
    # until its key id comes round again
    ring = ring.rotate(epoch(15)).rotate(Epoch(0, b"another" + bytes(25), CERTIFICATE))
    try:
        assert peek_route(raw, ring) != Route(1)
    except Discard as discard:
        assert discard.reason is InstantDiscard.KEY_ID
    assert parse_keyring(ring.to_text()).to_text() == ring.to_text()


def test_key_ids_go_round() -> None:
    ring = Keyring(1, epoch(15))
    assert ring.next_key_id() == 0
    assert ring.stage(epoch(0)).next_key_id() == 1
    with pytest.raises(InvalidConfig, match="same key id"):
        ring.rotate(epoch(15))


def test_generated_epochs_differ() -> None:
    entropy = SeededEntropy(3)
    ring = Keyring.generate(entropy, NOW)
    following = Epoch.generate(ring.next_key_id(), entropy, NOW)
    assert following.key_id == 1
    assert following.route_key != ring.current.route_key
    assert following.certificate.der != ring.current.certificate.der
    assert following.password(b"") != ring.current.password(b"")


def test_the_text_is_all_that_another_server_needs() -> None:
    entropy = SeededEntropy(4)
    ring = Keyring.generate(entropy, NOW, cell=500)
    ring = ring.rotate(Epoch.generate(1, entropy, NOW)).stage(Epoch.generate(2, entropy, NOW))
    read = parse_keyring(ring.to_text())
    raw = sealed(ring)
    opened = open_ticket(raw, read, NOW)
    assert opened.epoch.password(raw) == ring.current.password(raw)
    assert opened.epoch.certificate.der == ring.current.certificate.der
    assert opened.epoch.certificate.schemes  # its key came along
    assert read.to_text() == ring.to_text()
    assert read.previous and read.upcoming and read.upcoming.key_id == 2


def test_what_a_relay_is_given_opens_nothing() -> None:
    ring = Keyring.generate(SeededEntropy(5), NOW, cell=3)
    keys = parse_relay_keys(ring.relay_keys().to_text())
    assert keys.cell == 3
    assert peek_route(sealed(ring), keys) == Route(3)
    text = keys.to_text()
    assert "master" not in text
    assert "PRIVATE" not in text


def test_a_relay_knows_which_epoch_every_server_has() -> None:
    entropy = SeededEntropy(5)
    ring = Keyring.generate(entropy, NOW).stage(Epoch.generate(1, entropy, NOW))
    assert parse_relay_keys(ring.relay_keys().to_text()).current == 0
    assert parse_relay_keys(ring.rotate().relay_keys().to_text()).current == 1
    # a text without that has one key, or its first one is meant
    assert RelayKeys(1, {3: bytes(16), 2: bytes(16)}).current == 3
    for keys, current in (({}, None), ({3: bytes(16)}, 2)):
        with pytest.raises(InvalidConfig, match="current epoch"):
            RelayKeys(1, keys, current)


def test_nothing_secret_is_printed() -> None:
    ring = Keyring.generate(SeededEntropy(6), NOW)
    secrets = json.loads(ring.to_text())["current"]
    for thing in (ring, ring.current, ring.relay_keys(), ring.current.certificate):
        for shown in (repr(thing), str(thing)):
            assert secrets["master"][:12] not in shown
            assert "PRIVATE" not in shown


def damage(change: dict[str, Any]) -> str:
    value = json.loads(Keyring.generate(SeededEntropy(7), NOW).to_text())
    for path, new in change.items():
        where = value
        *outer, last = path.split(".")
        for name in outer:
            where = where[name]
        where[last] = new
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "JSON"),
        ("[]", '"v": 1'),
        ("{" * 100_000, "JSON"),
        ('{"v": 2}', '"v": 1'),
        ('{"v": 1}', "cell"),
        ('{"v": 1, "cell": 1}', "current"),
        ('{"v": 1, "cell": true, "current": {}}', "cell"),
        ('{"v": 1, "cell": 1, "current": 5}', "current has to be an object"),
        (damage({"cell": 65_536}), "cell"),
        (damage({"current.key_id": "1"}), "key_id"),
        (damage({"current.key_id": 16}), "key id is 0..15"),
        (damage({"current.master": "?"}), "master is not base64"),
        (damage({"current.master": "é"}), "master is not base64"),
        (damage({"current.master": 5}), "master is not base64"),
        (damage({"current.master": "AAAA"}), "32 bytes, not 3"),
        (damage({"current.private_key": "-----BEGIN"}), "PEM"),
        (damage({"current.certificate": None}), "PEM"),
        (damage({"retired": []}), "retired has to be an object"),
        (damage({"retired": {"5": "AAAA"}}), "16 bytes"),
        (damage({"retired": {"99": "AAAA"}}), "key id"),
    ],
)
def test_a_text_that_is_no_keyring_is_refused_by_name(text: str, names: str) -> None:
    with pytest.raises(InvalidConfig, match=names) as caught:
        parse_keyring(text)
    assert "PRIVATE KEY" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"v": 1, "cell": 1}', "route_keys"),
        ('{"v": 1, "cell": 1, "route_keys": {}}', "route_keys"),
        ('{"v": 1, "cell": 1, "route_keys": {"x": ""}}', "key id"),
        ('{"v": 1, "cell": 1, "route_keys": {"16": ""}}', "key id"),
        ('{"v": 1, "cell": 1, "route_keys": {"1": "AAAA"}}', "16 bytes"),
        ('{"v": 1, "cell": 1, "route_keys": {"1": 1}}', "base64"),
        ('{"v": 1, "cell": -1, "route_keys": {"1": 1}}', "cell"),
        (f'{{"v": 1, "cell": 1, "route_keys": {{"1": "{"A" * 22}=="}}, "current": 2}}', "current"),
    ],
)
def test_a_text_that_is_no_relays_is_refused_by_name(text: str, names: str) -> None:
    with pytest.raises(InvalidConfig, match=names):
        parse_relay_keys(text)


@pytest.mark.parametrize(("key_id", "master"), [(-1, 32), (16, 32), (0, 31), (0, 33)])
def test_an_epoch_that_cannot_be_is_refused(key_id: int, master: int) -> None:
    with pytest.raises(InvalidConfig):
        Epoch(key_id, bytes(master), CERTIFICATE)


def test_a_cell_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="16 bits"):
        Keyring(65_536, epoch(0))
