"""What seals, what opens, and what every damage comes to."""

from __future__ import annotations

import pytest

from instant_connect.keyring import Epoch, Keyring
from instant_connect.reasons import InstantDiscard
from instant_connect.ticket import (
    CLOCK_SKEW_S,
    OFFER_HELD,
    TICKET_BYTES,
    Grant,
    Route,
    open_ticket,
    peek_route,
    seal_ticket,
)
from tests.vectors.instant_connect import CERTIFICATE
from warp.entropy import SeededEntropy
from warp.errors import Discard, InvalidConfig

CELL = 77
NOW = 1_790_000_000.0
EPOCH = Epoch(5, bytes(range(32)), CERTIFICATE)
KEYRING = Keyring(CELL, EPOCH)
GRANT = Grant(int(NOW) + 600, policy=9, max_uses=2)


def ticket(grant: Grant = GRANT, route: Route | None = None, seed: int = 1) -> bytes:
    return seal_ticket(EPOCH, route or Route(CELL, 3), grant, SeededEntropy(seed))


def refused(raw: bytes, now: float = NOW, keyring: Keyring = KEYRING) -> InstantDiscard:
    with pytest.raises(Discard) as caught:
        open_ticket(raw, keyring, now)
    assert isinstance(caught.value.reason, InstantDiscard)
    return caught.value.reason


def test_a_ticket_opens_to_what_was_sealed() -> None:
    raw = ticket()
    assert len(raw) == TICKET_BYTES
    opened = open_ticket(raw, KEYRING, NOW)
    assert (opened.grant, opened.route, opened.epoch) == (GRANT, Route(CELL, 3), EPOCH)
    assert opened.raw == raw
    assert not opened.offer_is_held


def test_no_two_tickets_are_alike() -> None:
    tickets = [ticket(seed=seed) for seed in range(50)]
    assert len({open_ticket(raw, KEYRING, NOW).id for raw in tickets}) == 50
    # nothing of two tickets for the same server looks the same but version and key id
    assert len({raw[1:17] for raw in tickets}) == 50
    assert {raw[0] for raw in tickets} == {0x15}


@pytest.mark.parametrize("late", [-600.0, 0.0, float(CLOCK_SKEW_S)])
def test_expiry_allows_for_clocks_that_differ(late: float) -> None:
    assert open_ticket(ticket(), KEYRING, GRANT.expiry + late)
    assert refused(ticket(), GRANT.expiry + CLOCK_SKEW_S + 0.5) is InstantDiscard.EXPIRED


def test_versions_key_ids_and_cells_that_are_not_ours() -> None:
    raw = ticket()
    assert refused(bytes([0x25]) + raw[1:]) is InstantDiscard.VERSION
    assert refused(bytes([0x16]) + raw[1:]) is InstantDiscard.KEY_ID
    assert refused(ticket(route=Route(CELL + 1, 3))) is InstantDiscard.OTHER_CELL


def test_any_bit_that_is_not_as_sealed_is_found() -> None:
    raw = ticket()
    for at in range(8 * TICKET_BYTES):
        damaged = bytearray(raw)
        damaged[at // 8] ^= 1 << at % 8
        reason = refused(bytes(damaged))
        if at >= 8 * 17:
            assert reason is InstantDiscard.FORGED
        elif at >= 8:  # a damaged block decrypts to some other cell
            assert reason in (InstantDiscard.OTHER_CELL, InstantDiscard.FORGED)
        else:
            assert reason in (InstantDiscard.VERSION, InstantDiscard.KEY_ID)


def test_flags_of_a_later_design_are_not_guessed_at() -> None:
    assert open_ticket(ticket(Grant(GRANT.expiry, flags=OFFER_HELD)), KEYRING, NOW).offer_is_held
    for flags in (1, 2, 0x40, OFFER_HELD | 1):
        assert refused(ticket(Grant(GRANT.expiry, flags=flags))) is InstantDiscard.PROFILE


@pytest.mark.parametrize(
    ("grant", "route"),
    [
        (Grant(-1), Route(CELL)),
        (Grant(2**32), Route(CELL)),
        (Grant(1, policy=2**32), Route(CELL)),
        (Grant(1, max_uses=256), Route(CELL)),
        (Grant(1, flags=256), Route(CELL)),
        (Grant(1), Route(70_000)),
        (Grant(1), Route(CELL, 70_000)),
        (Grant(1), Route(CELL, region=256)),
        (Grant(1, max_uses=0), Route(CELL)),
    ],
)
def test_numbers_that_do_not_fit_are_refused_when_sealing(grant: Grant, route: Route) -> None:
    with pytest.raises(InvalidConfig):
        ticket(grant, route)


def test_a_relay_reads_the_route_and_nothing_else() -> None:
    relay = KEYRING.relay_keys()
    assert peek_route(ticket()[:17], relay) == Route(CELL, 3)
    assert not any(hasattr(relay.find_route(5), name) for name in ("aead", "password", "_master"))
    with pytest.raises(Discard, match=InstantDiscard.KEY_ID.value):
        peek_route(bytes([0x14]) + bytes(16), relay)
    with pytest.raises(Discard, match=InstantDiscard.VERSION.value):
        peek_route(bytes(17), relay)


def test_a_printed_ticket_gives_nothing_away() -> None:
    raw = ticket()
    opened = open_ticket(raw, KEYRING, NOW)
    for shown in (repr(opened), str(opened), f"{opened}"):
        assert raw.hex()[2:20] not in shown
        assert str(raw) not in shown
        assert str(opened.id) not in shown
