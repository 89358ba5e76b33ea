"""Envelopes between relays and servers: the client's address, and who vouches for it."""

from __future__ import annotations

import hashlib

import pytest

from instant_connect.envelope import (
    FIRST_BYTE,
    OVERHEAD_BYTES,
    Envelope,
    decode_envelope,
    seal_envelope,
)
from instant_connect.keyring import Epoch, RelayKeys
from instant_connect.reasons import InstantDiscard
from tests.unit.instant_connect.door import CELL, RING
from tests.vectors.instant_connect import CERTIFICATE
from warp.crypto import hkdf_expand
from warp.errors import Discard
from warp.peer import Kind, classify

KEYS = RING.relay_keys()
V4 = Envelope(("192.0.2.1", 50_000), b"a datagram", 2)
V6 = Envelope(("2001:db8::1", 7), b"another", 2, is_back=True)
QUESTION = Envelope(("0.0.0.0", 12), b"", 2)


def reason(raw: bytes) -> object:
    with pytest.raises(Discard) as caught:
        decode_envelope(raw, KEYS)
    return caught.value.reason


@pytest.mark.parametrize("envelope", [V4, V6, QUESTION])
def test_relay_and_server_read_each_other(envelope: Envelope) -> None:
    assert decode_envelope(seal_envelope(envelope, KEYS), RING) == envelope
    assert decode_envelope(seal_envelope(envelope, RING), KEYS) == envelope


def test_the_bytes_by_another_way() -> None:
    raw = seal_envelope(V4, KEYS)
    head = bytes((0x0C, 0x02)) + (50_000).to_bytes(2, "big") + bytes((192, 0, 2, 1))
    key = hkdf_expand(RING.current.route_key, b"IC1 relay", 32, "sha256")
    tag = hashlib.blake2b(head + b"a datagram", key=key, digest_size=8).digest()
    assert raw == head + tag + b"a datagram"
    assert len(seal_envelope(V6, KEYS)) == OVERHEAD_BYTES + len(V6.data)


def test_its_first_byte_is_nobodys() -> None:
    assert 4 <= FIRST_BYTE <= 15
    assert classify(seal_envelope(V4, KEYS)) not in (Kind.STUN, Kind.DTLS, Kind.RTP)


@pytest.mark.parametrize("envelope", [V4, V6])
def test_a_bit_that_is_changed_is_noticed_wherever_it_is(envelope: Envelope) -> None:
    raw = bytearray(seal_envelope(envelope, KEYS))
    for at in range(len(raw)):
        raw[at] ^= 0x40
        assert reason(bytes(raw)) is InstantDiscard.BAD_ENVELOPE
        raw[at] ^= 0x40
    for size in range(len(raw) - len(envelope.data)):
        assert reason(bytes(raw[:size])) is InstantDiscard.BAD_ENVELOPE


def test_keys_that_are_not_there_read_and_write_nothing() -> None:
    with pytest.raises(Discard) as caught:
        seal_envelope(V4._replace(key_id=3), KEYS)
    assert caught.value.reason is InstantDiscard.KEY_ID
    other = RelayKeys(CELL, {3: bytes(16)})
    assert reason(seal_envelope(V4._replace(key_id=3), other)) is InstantDiscard.KEY_ID
    stranger = RelayKeys(CELL, {2: bytes(16)})
    assert reason(seal_envelope(V4, stranger)) is InstantDiscard.BAD_ENVELOPE


def test_an_epoch_that_is_over_goes_on_to_be_read_by_servers() -> None:
    ring = RING
    for key_id in (3, 4):
        ring = ring.rotate(Epoch(key_id, bytes([key_id]) * 32, CERTIFICATE))
    assert decode_envelope(seal_envelope(V4, KEYS), ring) == V4
    assert ring.relay_keys().current == 4
