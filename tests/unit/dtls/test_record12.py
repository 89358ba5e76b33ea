"""DTLS 1.2 records: nonces, associated data, window (RFC 6347 section 4.1, RFC 5288, RFC 7905)."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from warp.crypto import AeadKind
from warp.dtls.faults import Alert, HandshakeFault
from warp.dtls.record12 import ReadKeys12, WriteKeys12, iv_length
from warp.dtls.records import APPLICATION_DATA, HANDSHAKE, MAX_SEQUENCE, DtlsDiscard
from warp.errors import Discard, InvalidState

KINDS = list(AeadKind)


def keys(kind=AeadKind.AES_128_GCM) -> tuple[WriteKeys12, ReadKeys12]:
    key, iv = bytes(range(kind.key_length)), bytes(range(0x40, 0x40 + iv_length(kind)))
    return WriteKeys12(kind, key, iv), ReadKeys12(kind, key, iv)


def refused(read: ReadKeys12, record: bytes) -> DtlsDiscard:
    with pytest.raises(Discard) as caught:
        read.open(record, 0, len(record))
    return caught.value.reason


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_inside_a_datagram(kind):
    write, read = keys(kind)
    for number, content in enumerate((b"", b"x", b"y" * 1100)):
        record = write.seal(APPLICATION_DATA, content)
        assert len(record) == len(content) + write.overhead
        assert int.from_bytes(record[11:13], "big") == len(record) - 13
        data = b"before" + record + b"after"
        opened = read.open(data, 6, 6 + len(record))
        assert opened == (APPLICATION_DATA, number, content)


def test_gcm_shows_epoch_and_sequence_as_its_nonce():
    """RFC 5288 section 3; a random nonce may repeat, a counter cannot."""
    write, _ = keys()
    write.next_sequence = 0x0102030405
    record = write.seal(HANDSHAKE, b"hello")
    number = bytes.fromhex("0001000102030405".zfill(12))
    assert record[:13] == b"\x16\xfe\xfd" + number + (5 + 8 + 16).to_bytes(2, "big")
    assert record[13:21] == number
    aad = number + b"\x16\xfe\xfd\x00\x05"
    cipher = AESGCM(bytes(range(16)))
    assert cipher.decrypt(b"\x40\x41\x42\x43" + number, record[21:], aad) == b"hello"


def test_chacha_hides_its_nonce():
    """RFC 7905 section 2: the padded epoch and sequence, XORed onto the IV."""
    write, _ = keys(AeadKind.CHACHA20_POLY1305)
    write.next_sequence = 7
    record = write.seal(HANDSHAKE, b"hello")
    number = (1 << 48 | 7).to_bytes(8, "big")
    iv = bytes(range(0x40, 0x4C))
    nonce = bytes(a ^ b for a, b in zip(iv, b"\0\0\0\0" + number, strict=True))
    cipher = ChaCha20Poly1305(bytes(range(32)))
    assert cipher.decrypt(nonce, record[13:], number + b"\x16\xfe\xfd\x00\x05") == b"hello"


def test_any_nonce_of_a_gcm_peer_opens():
    _, read = keys()
    number = (1 << 48 | 3).to_bytes(8, "big")
    nonce, aad = b"explicit", number + b"\x17\xfe\xfd\x00\x02"
    sealed = AESGCM(bytes(range(16))).encrypt(b"\x40\x41\x42\x43" + nonce, b"hi", aad)
    record = b"\x17\xfe\xfd" + number + (8 + 18).to_bytes(2, "big") + nonce + sealed
    assert read.open(record, 0, len(record)) == (APPLICATION_DATA, 3, b"hi")


def test_sequence_numbers_rise_and_end():
    write, _ = keys()
    numbers = [int.from_bytes(write.seal(23, b"")[5:11], "big") for _ in range(5)]
    assert numbers == [0, 1, 2, 3, 4]
    write.next_sequence = MAX_SEQUENCE
    assert write.seal(23, b"")[5:11] == b"\xff" * 6
    with pytest.raises(InvalidState):
        write.seal(23, b"")


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_is_noticed(kind):
    write, read = keys(kind)
    record = write.seal(APPLICATION_DATA, b"content")
    for position in range(len(record)):
        if 11 <= position < 13:
            continue  # the length: the splitter has used it up
        bad = bytearray(record)
        bad[position] ^= 0x10
        assert refused(read, bytes(bad)) is DtlsDiscard.DECRYPTION
    assert read.failures == len(record) - 2
    assert read.open(record, 0, len(record))[2] == b"content"


@pytest.mark.parametrize("kind", KINDS)
def test_short_records(kind):
    write, read = keys(kind)
    record = write.seal(APPLICATION_DATA, b"")
    for end in range(13, len(record)):
        assert refused(read, record[:end]) is DtlsDiscard.TRUNCATED
    assert read.failures == 0


def test_replay_window():
    write, read = keys()
    records = [write.seal(23, b"") for _ in range(600)]

    def opens(number: int) -> bool:
        try:
            read.open(records[number], 0, len(records[number]))
        except Discard as discard:
            assert discard.reason is DtlsDiscard.REPLAY
            return False
        return True

    assert opens(5) and not opens(5)
    assert opens(0) and not opens(0)  # late, but for the first time
    assert opens(300)
    assert not opens(44)  # 256 behind: too old to tell
    assert opens(45) and not opens(45)
    assert opens(599) and not opens(300)
    assert opens(598) and not opens(598)


def test_a_forged_number_does_not_move_the_window():
    write, read = keys()
    first = write.seal(23, b"one")
    forged = bytearray(first)
    forged[5:11] = b"\xff" * 6
    assert refused(read, bytes(forged)) is DtlsDiscard.DECRYPTION
    assert read.open(first, 0, len(first))[2] == b"one"


def test_overflow():
    """RFC 5246 section 6.2.3: only the real peer can have sealed it, so it is fatal."""
    write, read = keys()
    record = write.seal(23, bytes(1 << 14))
    assert len(read.open(record, 0, len(record))[2]) == 1 << 14
    record = write.seal(23, bytes((1 << 14) + 1))
    with pytest.raises(HandshakeFault) as caught:
        read.open(record, 0, len(record))
    assert caught.value.alert is Alert.RECORD_OVERFLOW
