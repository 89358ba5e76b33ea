from __future__ import annotations

import pytest

from tests.unit.dtls.ends import plain
from warp.crypto import AeadKind
from warp.dtls.config import DtlsConfig, DtlsRole
from warp.dtls.context import Context
from warp.dtls.epochs import EpochTable
from warp.dtls.faults import Alert, DtlsRule, HandshakeFault
from warp.dtls.intake import HELD_BYTES, HELD_RECORDS, MAX_RECORD, Intake
from warp.dtls.record13 import ReadKeys13, WriteKeys13
from warp.dtls.records import DtlsDiscard, PlainWriteKeys
from warp.dtls.suites import DtlsVersion

MATERIAL = (AeadKind.AES_128_GCM, lambda: (bytes(16), bytes(12), bytes(range(16))))


class Bench:
    def __init__(self, version=DtlsVersion.DTLS13, epochs=(2,), **config) -> None:
        self.context = Context(DtlsRole.CLIENT, DtlsConfig(**config), None)
        self.epochs = EpochTable()
        self.intake = Intake(self.context, self.epochs)
        self.intake.version = version
        self.write = {}
        for epoch in epochs:
            self.add(epoch)

    def add(self, epoch: int) -> None:
        self.epochs.install_read(ReadKeys13(epoch, *MATERIAL))
        self.write[epoch] = WriteKeys13(epoch, *MATERIAL)

    def open(self, data: bytes) -> list[bytes]:
        return [record.content for record in self.intake.receive(data, 0.0)]

    def only(self) -> DtlsDiscard:
        (reason,) = self.context.discards
        return reason


@pytest.mark.parametrize("first", [*range(0, 20), *range(64, 256)])
def test_bytes_of_other_protocols(first):
    bench = Bench()
    assert bench.open(bytes([first]) + bytes(40)) == []
    assert bench.only() is DtlsDiscard.NOT_DTLS


def test_short_datagrams():
    bench = Bench()
    assert bench.open(bytes([22]) * 12) == []
    assert bench.open(b"") == []
    assert bench.only() is DtlsDiscard.NOT_DTLS


def test_several_records_and_one_bad_one_between():
    bench = Bench()
    one, two, three = (bench.write[2].seal(22, text) for text in (b"one", b"two", b"three"))
    spoilt = two[:-1] + bytes([two[-1] ^ 1])
    assert bench.open(one + spoilt + three) == [b"one", b"three"]
    assert bench.open(plain(22, b"zero") + two) == [b"zero", b"two"]
    assert bench.only() is DtlsDiscard.DECRYPTION


def test_length_beyond_the_datagram_keeps_what_was_before():
    bench = Bench()
    one, two = bench.write[2].seal(22, b"one"), bench.write[2].seal(22, b"two")
    assert bench.open(one + two[:-1]) == [b"one"]
    assert bench.only() is DtlsDiscard.TRUNCATED
    assert bench.open(plain(22, b"zero" * 4)[:-1]) == []
    assert bench.open(b"\x2e\0\0" + bytes(1) + b"\xff" + bytes(12)) == []


def test_record_without_length_takes_the_rest():
    from tests.unit.dtls.test_record13 import reseal

    bench = Bench()
    short = reseal(bench.write[2], 0x22, 0, b"short\x16")
    assert bench.open(short) == [b"short"]
    # what follows is part of it, and so it does not decrypt
    long = reseal(bench.write[2], 0x22, 1, b"more\x16")
    assert bench.open(long + bench.write[2].seal(22, b"next")) == []
    assert bench.only() is DtlsDiscard.DECRYPTION


def test_connection_id_is_dropped():
    bench = Bench()
    record = bytearray(bench.write[2].seal(22, b"one"))
    record[0] |= 0x10
    assert bench.open(bytes(record)) == []
    assert bench.only() is DtlsDiscard.CONNECTION_ID


@pytest.mark.parametrize("epoch", [1, 2, 3, 0xFFFF])
def test_plaintext_header_with_an_epoch_in_dtls13(epoch):
    bench = Bench()
    assert bench.open(plain(22, b"hello", epoch=epoch)) == []
    assert bench.only() is DtlsDiscard.PLAINTEXT


@pytest.mark.parametrize("version", [None, *DtlsVersion])
def test_plaintext_application_data(version):
    bench = Bench(version)
    assert bench.open(plain(23, b"attack")) == []
    assert bench.only() is DtlsDiscard.PLAINTEXT


@pytest.mark.parametrize("content", [b"attack", b""])
def test_plaintext_application_data_ends_a_strict_connection(content):
    bench = Bench(None, strict_plaintext=True)
    with pytest.raises(HandshakeFault) as caught:
        bench.open(plain(23, content))
    assert caught.value.error.rule is DtlsRule.UNEXPECTED_RECORD
    bench.intake.stop_holding()  # it is long over: a late copy of anything is dropped
    assert bench.open(plain(23, content)) == []


def test_change_cipher_spec_that_is_none_ends_a_strict_connection():
    bench = Bench(None, strict_plaintext=True)
    assert bench.open(plain(20, b"\1")) == [b"\1"]
    with pytest.raises(HandshakeFault) as caught:
        bench.open(plain(20, b"\1\1"))
    assert caught.value.alert is Alert.ILLEGAL_PARAMETER
    assert Bench(None).open(plain(20, b"\1\1")) == [b"\1\1"]  # whose content says nothing to us


def test_more_ciphertext_than_a_record_can_have_is_not_decrypted():
    """Above 2^14 + 256 bytes (RFC 8446 section 5.2), or 2^14 + 2048 (RFC 5246 section 6.2.3)."""
    bench = Bench()
    assert len(bench.open(bench.write[2].seal(23, bytes(1 << 14)))[0]) == 1 << 14
    padded = bench.write[2].seal(23, bytes(MAX_RECORD - 5 - 17))
    assert len(padded) == MAX_RECORD
    with pytest.raises(HandshakeFault):
        bench.open(padded)
    assert bench.open(bench.write[2].seal(23, bytes(MAX_RECORD - 5 - 16))) == []
    assert bench.only() is DtlsDiscard.TOO_LONG
    bench = Bench(DtlsVersion.DTLS12)
    for length, reason in (
        ((1 << 14) + 2048, DtlsDiscard.HELD),
        ((1 << 14) + 2049, DtlsDiscard.TOO_LONG),
    ):
        bench.context.discards.clear()
        assert bench.open(plain(23, bytes(length), epoch=1)) == []
        assert bench.only() is reason


@pytest.mark.parametrize("content_type", [24, 25, 27, 31])
def test_unknown_types(content_type):
    bench = Bench()
    assert bench.open(plain(content_type, b"x")) == []
    assert bench.only() is DtlsDiscard.UNKNOWN_TYPE


def test_any_record_version_is_accepted():
    bench = Bench(None)
    record = bytearray(plain(22, b"hello"))
    for sequence, version in enumerate(
        (b"\xfe\xff", b"\xfe\xfd", b"\xfe\xfc", b"\x03\x03", b"\0\0")
    ):
        record[1:3] = version
        record[10] = sequence
        assert bench.open(bytes(record)) == [b"hello"]


def test_the_same_plaintext_record_counts_once():
    bench = Bench()
    record = plain(22, b"hello", sequence=2**47)
    assert bench.open(record) == [b"hello"]
    assert bench.open(record) == []
    # no window: a forged number must not shut the real peer out
    assert bench.open(plain(22, b"hello", sequence=0)) == [b"hello"]
    assert bench.open(plain(22, b"other", sequence=0)) == [b"other"]


def test_epoch_bits_mean_the_newest_installed_epoch():
    bench = Bench(epochs=(2, 3, 4, 5, 6))
    assert bench.open(bench.write[6].seal(22, b"six")) == [b"six"]
    assert bench.open(bench.write[2].seal(22, b"two")) == []
    assert bench.open(bench.write[3].seal(22, b"three")) == [b"three"]
    future = WriteKeys13(7, *MATERIAL)  # its bits are those of epoch 3: never guessed
    bench.epochs.forget_read_below(4)
    bench.intake.stop_holding()
    assert bench.open(future.seal(22, b"seven")) == []
    assert bench.context.discards[DtlsDiscard.UNKNOWN_EPOCH] == 1


def test_early_records_are_held_and_released():
    bench = Bench(None, epochs=())
    two, three = WriteKeys13(2, *MATERIAL), WriteKeys13(3, *MATERIAL)
    assert bench.open(two.seal(22, b"two") + three.seal(23, b"three")) == []
    bench.add(2)
    assert [r.content for r in bench.intake.release(0.0)] == [b"two"]
    bench.add(3)
    assert [r.content for r in bench.intake.release(0.0)] == [b"three"]
    assert list(bench.intake.release(0.0)) == []


def test_what_is_held_is_bounded():
    bench = Bench(None, epochs=())
    keys = WriteKeys13(3, *MATERIAL)
    for _ in range(HELD_RECORDS + 10):
        bench.open(keys.seal(23, bytes(10)))
    assert bench.context.discards[DtlsDiscard.BUFFER_FULL] == 10
    bench = Bench(None, epochs=())
    for _ in range(10):
        bench.open(keys.seal(23, bytes(10_000)))
    assert bench.intake._held_bytes <= HELD_BYTES
    assert bench.context.discards[DtlsDiscard.BUFFER_FULL] == 4


def test_after_the_handshake_nothing_is_held_and_plaintext_is_dead():
    bench = Bench()
    bench.intake.stop_holding()
    assert bench.open(WriteKeys13(3, *MATERIAL).seal(23, b"x")) == []
    assert bench.open(plain(22, b"hello")) == []
    assert dict(bench.context.discards) == {
        DtlsDiscard.UNKNOWN_EPOCH: 1,
        DtlsDiscard.PLAINTEXT: 1,
    }


def test_unified_header_in_dtls12():
    bench = Bench(DtlsVersion.DTLS12)
    assert bench.open(bench.write[2].seal(22, b"x")) == []
    assert bench.only() is DtlsDiscard.UNKNOWN_TYPE


def test_plain_write_keys():
    keys = PlainWriteKeys()
    keys.next_sequence = 1 << 40
    assert keys.seal(22, b"x") == plain(22, b"x", sequence=1 << 40)
    keys.wire_version = 0xFEFF
    assert keys.seal(22, b"x")[1:3] == b"\xfe\xff"
