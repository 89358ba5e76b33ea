from __future__ import annotations

import weakref

import pytest

from warp.crypto import AeadKind
from warp.dtls.faults import Alert, DtlsRule, HandshakeFault
from warp.dtls.record13 import (
    HEADER_LENGTH,
    MAX_FAILURES,
    OVERHEAD,
    WINDOW,
    ReadKeys13,
    WriteKeys13,
)
from warp.dtls.records import HANDSHAKE, MAX_CONTENT, MAX_SEQUENCE, DtlsDiscard
from warp.errors import Discard, InvalidState

KINDS = list(AeadKind)


def keys(kind: AeadKind = AeadKind.AES_128_GCM, epoch: int = 3):
    material = (
        bytes(range(kind.key_length)),
        bytes(range(12)),
        bytes(range(1, kind.key_length + 1)),
    )
    return WriteKeys13(epoch, kind, lambda: material), ReadKeys13(epoch, kind, lambda: material)


def open_(read: ReadKeys13, record: bytes):
    return read.open(record, 0, len(record))


def reason(read: ReadKeys13, record: bytes) -> DtlsDiscard:
    with pytest.raises(Discard) as caught:
        open_(read, record)
    return caught.value.reason


def reseal(write: WriteKeys13, first: int, sequence: int, inner: bytes) -> bytes:
    """A record with any of the header forms, built here from RFC 9147 section 4.2.2."""
    wide, long = bool(first & 8), bool(first & 4)
    number = sequence.to_bytes(8, "big")[-2 if wide else -1 :]
    length = (len(inner) + 16).to_bytes(2, "big") if long else b""
    encrypt, mask_of, iv = write._ciphers or write._make_ciphers()
    nonce = (iv ^ sequence).to_bytes(12, "big")
    body = encrypt(nonce, inner, bytes((first,)) + number + length)
    mask = mask_of(body[:16])
    hidden = bytes(a ^ b for a, b in zip(number, mask, strict=False))
    return bytes((first,)) + hidden + length + body


@pytest.mark.parametrize("kind", KINDS)
def test_seal_and_open(kind):
    write, read = keys(kind)
    for sequence in range(3):
        record = write.seal(23, b"hello")
        assert len(record) == 5 + OVERHEAD
        assert record[0] == 0x2F  # epoch 3: the first byte that all other stacks send
        assert open_(read, record) == (23, sequence, b"hello")


def test_first_bytes_of_the_epochs():
    assert [keys(epoch=n)[0].seal(22, b"")[0] for n in (2, 3, 4)] == [0x2E, 0x2F, 0x2C]


@pytest.mark.parametrize("first", [0x20, 0x24, 0x28, 0x2C])
@pytest.mark.parametrize("kind", KINDS)
def test_all_four_header_forms(first, kind):
    write, read = keys(kind)
    record = reseal(write, first | 3, 5, b"data\x17")
    assert open_(read, record) == (23, 5, b"data")


def test_aad_is_the_bare_header_and_the_nonce_has_no_epoch():
    write, read = keys()
    record = write.seal(23, b"x")
    assert record == reseal(write, 0x2F, 0, b"x\x17")
    assert open_(read, record)[2] == b"x"


def test_the_sequence_number_is_hidden():
    write, _ = keys()
    numbers = {write.seal(23, bytes([n]))[1:3] for n in range(50)}
    assert len(numbers) > 45


@pytest.mark.parametrize("padding", [1, 2, 300])
def test_padding_is_stripped(padding):
    write, read = keys()
    assert open_(read, reseal(write, 0x2F, 0, b"data\x17" + bytes(padding)))[2] == b"data"


@pytest.mark.parametrize("inner", [b"", bytes(1), bytes(40)])
def test_nothing_but_padding_is_fatal(inner):
    write, read = keys()
    with pytest.raises(HandshakeFault) as caught:
        open_(read, reseal(write, 0x2F, 0, inner))
    assert caught.value.alert is Alert.UNEXPECTED_MESSAGE
    assert caught.value.error.rule is DtlsRule.NO_CONTENT_TYPE


def test_too_much_content_is_fatal():
    write, read = keys()
    assert len(open_(read, reseal(write, 0x2F, 0, bytes(MAX_CONTENT) + b"\x17"))[2]) == MAX_CONTENT
    with pytest.raises(HandshakeFault) as caught:
        open_(read, reseal(write, 0x2F, 1, bytes(MAX_CONTENT + 1) + b"\x17"))
    assert caught.value.alert is Alert.RECORD_OVERFLOW


def test_too_short_for_a_mask():
    _, read = keys()
    assert reason(read, b"\x2f\0\0\0\x0f" + bytes(15)) is DtlsDiscard.TRUNCATED
    assert reason(read, b"\x23") is DtlsDiscard.TRUNCATED
    assert read.failures == 0


@pytest.mark.parametrize("start", [250, 65_530, 0xFF_FFF0])
def test_sequence_numbers_across_the_edges(start):
    write, read = keys()
    write.next_sequence = start
    read._top = start - 1
    for sequence in range(start, start + 20):
        assert open_(read, write.seal(23, b"x"))[1] == sequence


def test_short_sequence_numbers_across_256():
    write, read = keys()
    for sequence in range(600):
        assert open_(read, reseal(write, 0x27, sequence, b"x\x17"))[1] == sequence


def test_thirty_thousand_lost_records():
    write, read = keys()
    open_(read, write.seal(23, b"x"))
    write.next_sequence = 30_000
    assert open_(read, write.seal(23, b"x"))[1] == 30_000
    write.next_sequence = 62_000
    assert open_(read, write.seal(23, b"x"))[1] == 62_000


def test_the_last_sequence_number():
    write, read = keys()
    write.next_sequence = read._top = MAX_SEQUENCE
    read._top -= 1
    assert open_(read, write.seal(23, b"x"))[1] == MAX_SEQUENCE
    with pytest.raises(InvalidState):
        write.seal(23, b"x")


def test_replay_window():
    write, read = keys()
    records = [write.seal(23, bytes([n & 255])) for n in range(WINDOW + 50)]
    open_(read, records[10])
    assert reason(read, records[10]) is DtlsDiscard.REPLAY
    assert open_(read, records[3])[1] == 3  # late, once
    assert reason(read, records[3]) is DtlsDiscard.REPLAY
    open_(read, records[WINDOW + 10])
    assert reason(read, records[10]) is DtlsDiscard.REPLAY  # just outside
    assert open_(read, records[11])[1] == 11  # just inside
    assert reason(read, records[0]) is DtlsDiscard.REPLAY


def test_a_jump_over_the_whole_window():
    write, read = keys()
    first = write.seal(23, b"x")
    write.next_sequence = 1000
    open_(read, write.seal(23, b"x"))
    assert reason(read, first) is DtlsDiscard.REPLAY


@pytest.mark.parametrize("position", [0, 1, 2, 5, 10, -1])
def test_forgery_moves_nothing(position):
    write, read = keys()
    record = write.seal(23, b"hello")
    forged = bytearray(record)
    forged[position] ^= 0x01 if position else 0x08
    with pytest.raises(Discard):
        open_(read, bytes(forged))
    assert not read.used
    assert open_(read, record)[2] == b"hello"


def test_failures_are_counted_for_each_key_and_end_it():
    write, read = keys()
    forged = write.seal(23, b"hello")[:-1] + b"\0"
    assert reason(read, forged) is DtlsDiscard.DECRYPTION
    assert read.failures == 1
    read.failures = MAX_FAILURES - 1
    with pytest.raises(HandshakeFault) as caught:
        open_(read, forged)
    assert caught.value.alert is Alert.BAD_RECORD_MAC


def test_a_record_inside_a_datagram():
    write, read = keys()
    one, two = write.seal(23, b"one"), write.seal(23, b"two")
    data = one + two
    assert read.open(data, 0, len(one))[2] == b"one"
    assert read.open(data, len(one), len(data))[2] == b"two"
    assert HEADER_LENGTH == 5


def test_keys_are_derived_for_the_first_record():
    derived = []

    def derive():
        derived.append(1)
        return bytes(16), bytes(12), bytes(range(16))

    write = WriteKeys13(3, AeadKind.AES_128_GCM, derive)
    assert (write.epoch, write.overhead, write.next_sequence) == (3, OVERHEAD, 0)
    read = ReadKeys13(3, AeadKind.AES_128_GCM, derive)
    assert (read.epoch, read.failures, read.used) == (3, 0, False)
    assert reason(read, b"\x2f\0\0\0\x0f" + bytes(15)) is DtlsDiscard.TRUNCATED
    assert not derived
    records = [write.seal(23, b"one"), write.seal(23, b"two")]
    assert len(derived) == 1
    assert [open_(read, record)[2] for record in records] == [b"one", b"two"]
    assert len(derived) == 2


def test_parked_keys_open_what_comes_late_and_nothing_twice():
    write, read = keys(epoch=2)
    records = [write.seal(HANDSHAKE, bytes((n,))) for n in range(4)]
    open_(read, records[1])
    read.park()
    assert read._ciphers is None
    assert (read.epoch, read.failures, read.used) == (2, 0, True)
    assert reason(read, records[1]) is DtlsDiscard.REPLAY
    assert open_(read, records[0]) == (HANDSHAKE, 0, b"\0")
    assert open_(read, records[3]) == (HANDSHAKE, 3, b"\3")
    assert reason(read, records[3]) is DtlsDiscard.REPLAY
    assert reason(read, records[2][:-1] + b"!") is DtlsDiscard.DECRYPTION
    assert read.failures == 1


def test_a_secret_goes_with_its_use():
    """RFC 8446 section 7.2: of a traffic secret nothing is kept but what is made of it."""

    class Secret:
        def derive(self) -> tuple[bytes, bytes, bytes]:
            return bytes(16), bytes(12), bytes(range(16))

    written, read_ = Secret(), Secret()
    gone = [weakref.ref(written), weakref.ref(read_)]
    write = WriteKeys13(3, AeadKind.AES_128_GCM, written.derive)
    read = ReadKeys13(3, AeadKind.AES_128_GCM, read_.derive)
    del written, read_
    assert all(ref() is not None for ref in gone)
    open_(read, write.seal(23, b"one"))
    assert [ref() for ref in gone] == [None, None]
