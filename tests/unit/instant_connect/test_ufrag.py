"""The ufrag as text: what is composed opens, and nothing else does."""

from __future__ import annotations

import base64

import pytest

from instant_connect.attempt import Attempt, decode_attempt, encode_attempt, make_attempt
from instant_connect.keyring import Epoch, Keyring
from instant_connect.reasons import InstantDiscard
from instant_connect.ticket import TICKET_BYTES, Grant, Route, seal_ticket
from instant_connect.ufrag import (
    MAX_CHARACTERS,
    attach_proof,
    compose_ufrag,
    open_ufrag,
    peek_ufrag_route,
    routed_credentials,
    server_sctp,
)
from tests.vectors.instant_connect import CERTIFICATE, FINGERPRINT
from warp.entropy import SeededEntropy
from warp.errors import Discard, InvalidConfig
from warp.ice import IceCredentials

NOW = 1_790_000_000.0
RING = Keyring(9, Epoch(1, b"m" * 32, CERTIFICATE))
TICKET = seal_ticket(RING.current, Route(9, 4), Grant(int(NOW) + 60), SeededEntropy(1))
PLAIN = make_attempt(FINGERPRINT, 111, SeededEntropy(2))
WITH_SNAP = PLAIN._replace(sctp=(1, 0))
FULL = WITH_SNAP._replace(password="p" * 24)


def refused(ufrag: str) -> InstantDiscard:
    with pytest.raises(Discard) as caught:
        open_ufrag(ufrag, RING, NOW)
    assert isinstance(caught.value.reason, InstantDiscard)
    return caught.value.reason


@pytest.mark.parametrize(
    ("attempt", "characters"),
    [
        (PLAIN, 140),
        (WITH_SNAP, 151),
        (FULL, 184),
        (WITH_SNAP._replace(password="p" * 32), 195),
    ],
)
def test_every_variant_opens_and_has_the_size_it_should(attempt: Attempt, characters: int) -> None:
    ufrag = compose_ufrag(TICKET, attempt)
    assert len(ufrag) == characters
    opened = open_ufrag(ufrag, RING, NOW)
    assert opened.attempt == attempt
    assert opened.password == RING.current.password(TICKET)
    # ICE takes both as they are
    assert IceCredentials(ufrag, opened.password)


def test_what_would_be_too_long_is_never_composed() -> None:
    with pytest.raises(InvalidConfig, match=f"at most {MAX_CHARACTERS}"):
        compose_ufrag(TICKET, PLAIN._replace(password="p" * 200))


@pytest.mark.parametrize("length", [0, 1, 4, 8, 16, 24, 32, 64, 139])
def test_a_ufrag_that_the_client_cut_is_too_short(length: int) -> None:
    assert refused(compose_ufrag(TICKET, PLAIN)[:length]) is InstantDiscard.UFRAG_LENGTH


def test_a_ufrag_of_any_other_length_comes_to_nothing() -> None:
    whole = compose_ufrag(TICKET, FULL)
    for length in range(len(whole)):
        assert refused(whole[:length]) in (
            InstantDiscard.UFRAG_LENGTH,
            InstantDiscard.BASE64,
            InstantDiscard.ATTEMPT,
        )
    assert refused(whole + "AAAA") is InstantDiscard.ATTEMPT
    assert refused(whole + "A" * 40) is InstantDiscard.UFRAG_LENGTH


@pytest.mark.parametrize("character", ["=", "-", "_", "#", " ", "\n", "\0", "é", "☃"])
def test_characters_that_are_not_of_the_alphabet(character: str) -> None:
    ufrag = compose_ufrag(TICKET, PLAIN)
    for at in (0, 70, 139):
        assert refused(ufrag[:at] + character + ufrag[at + 1 :]) is InstantDiscard.BASE64


def test_spare_bits_make_no_second_name() -> None:
    ufrag = compose_ufrag(TICKET, WITH_SNAP)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    others = [ufrag[:-1] + last for last in alphabet if last != ufrag[-1]]
    same_bytes = [u for u in others if base64.b64decode(u + "=") == base64.b64decode(ufrag + "=")]
    assert len(same_bytes) == 3
    assert {refused(u) for u in same_bytes} == {InstantDiscard.BASE64}


def rewritten(offset: int, value: int) -> str:
    raw = bytearray(TICKET + encode_attempt(FULL))
    raw[offset] = value
    return base64.b64encode(raw).decode().rstrip("=")


def test_the_clients_part_is_read_strictly() -> None:
    assert refused(rewritten(TICKET_BYTES, 0x07)) is InstantDiscard.ATTEMPT  # an unknown flag
    assert refused(rewritten(TICKET_BYTES, 0x00)) is InstantDiscard.ATTEMPT  # more than it says
    assert refused(rewritten(TICKET_BYTES + 50, 23)) is InstantDiscard.ATTEMPT  # password's length
    assert refused(rewritten(TICKET_BYTES + 50, 25)) is InstantDiscard.ATTEMPT
    assert refused(rewritten(TICKET_BYTES + 51, 0xFF)) is InstantDiscard.ATTEMPT  # not ASCII
    for payload_type in (0, 8, 95, 128, 255):
        changed = rewritten(TICKET_BYTES + 1, payload_type)
        assert refused(changed) is InstantDiscard.PAYLOAD_TYPE


@pytest.mark.parametrize(
    "data",
    [
        encode_attempt(WITH_SNAP)[:-1],
        encode_attempt(WITH_SNAP._replace(sctp=(0, 5))),
        encode_attempt(FULL)[:51],
        encode_attempt(FULL)[:50],
        encode_attempt(FULL)[:42],
    ],
)
def test_a_part_that_ends_early_or_says_the_impossible(data: bytes) -> None:
    with pytest.raises(Discard, match=InstantDiscard.ATTEMPT.value):
        decode_attempt(data)


@pytest.mark.parametrize(
    "attempt",
    [
        PLAIN._replace(fingerprint=b""),
        PLAIN._replace(nonce=bytes(7)),
        PLAIN._replace(payload_type=8),
        PLAIN._replace(payload_type=128),
    ],
)
def test_what_no_server_would_read_is_not_written(attempt: Attempt) -> None:
    with pytest.raises(InvalidConfig):
        encode_attempt(attempt)


def test_attempts_of_one_client_differ() -> None:
    entropy = SeededEntropy(8)
    made = {compose_ufrag(TICKET, make_attempt(FINGERPRINT, 111, entropy)) for _ in range(20)}
    assert len(made) == 20


def test_a_relay_needs_24_characters() -> None:
    ufrag = compose_ufrag(TICKET, PLAIN)
    relay = RING.relay_keys()
    expected = (Route(9, 4), TICKET[1:17])
    assert peek_ufrag_route(ufrag[:24], relay) == peek_ufrag_route(ufrag, relay) == expected
    padded = ufrag[:21] + "A==", ufrag[:22] + "==", ufrag[:20] + "AAA="
    for bad in ("", ufrag[:23], "=" * 24, "é" * 24, *padded):
        with pytest.raises(Discard):
            peek_ufrag_route(bad, relay)
    with pytest.raises(Discard, match=InstantDiscard.OTHER_CELL.value):
        peek_ufrag_route(ufrag, Keyring(10, RING.current).relay_keys())


def test_credentials_of_a_restart_lead_home_and_open_nothing() -> None:
    made = [routed_credentials(RING.current, Route(9, 4), SeededEntropy(n)) for n in range(20)]
    assert len({credentials.ufrag for credentials in made}) == 20
    for credentials in made:
        assert len(credentials.ufrag) == 24
        assert peek_ufrag_route(credentials.ufrag, RING.relay_keys())[0] == Route(9, 4)
        assert refused(credentials.ufrag) is InstantDiscard.UFRAG_LENGTH


def test_the_servers_tag_is_never_zero_and_hard_to_guess() -> None:
    ufrag = compose_ufrag(TICKET, PLAIN)
    numbers = {server_sctp("p" * 32, ufrag), server_sctp("q" * 32, ufrag)}
    numbers.add(server_sctp("p" * 32, compose_ufrag(TICKET, WITH_SNAP)))
    assert len(numbers) == 3
    assert all(tag for tag, _ in numbers)


def test_the_proof_of_the_password_is_another_number_than_all_else() -> None:
    ufrag = compose_ufrag(TICKET, PLAIN)
    proof = attach_proof("p" * 32, ufrag)
    assert len(proof) == 32
    assert proof != attach_proof("q" * 32, ufrag)
    tag, tsn = server_sctp("p" * 32, ufrag)
    assert base64.b64decode(proof)[:8] != tag.to_bytes(4, "big") + tsn.to_bytes(4, "big")


def test_nothing_secret_is_printed() -> None:
    shown = repr(open_ufrag(compose_ufrag(TICKET, FULL), RING, NOW))
    for secret in (FULL.password, FINGERPRINT.hex(), str(FINGERPRINT), str(TICKET)):
        assert secret not in shown
