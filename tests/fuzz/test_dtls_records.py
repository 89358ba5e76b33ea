"""DTLS datagrams, records, fragments and ACKs from any bytes: dropped or refused, never raised."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.captures.pcap import read_pcap
from tests.unit.dtls.ends import THIRTEEN, client, connected, server
from warp.crypto import AeadKind
from warp.dtls import DtlsConfig, DtlsConnection, DtlsRole, DtlsState
from warp.dtls.acks import decode_ack, encode_ack
from warp.dtls.context import Context
from warp.dtls.epochs import EpochTable
from warp.dtls.faults import HandshakeFault
from warp.dtls.intake import Intake
from warp.dtls.reassembly import MAX_BUFFERED, Fragment, Reassembler
from warp.dtls.record13 import ReadKeys13, WriteKeys13
from warp.errors import Discard

BYTES = st.binary(max_size=400)
MATERIAL = (bytes(16), bytes(12), bytes(range(16)))
KEYS = (AeadKind.AES_128_GCM, lambda: MATERIAL)
SEEDS = [packet.payload for packet in read_pcap("dtls/nssff153_basic.pcap")]


def fuzz_ack(data: bytes) -> None:
    try:
        numbers = decode_ack(data)
    except HandshakeFault:
        return
    assert sorted(decode_ack(encode_ack(numbers))) == sorted(numbers)


def fuzz_record13(data: bytes) -> None:
    """Nothing opens that the keys did not seal, and what they sealed still opens afterwards."""
    read, write = ReadKeys13(3, *KEYS), WriteKeys13(3, *KEYS)
    if data:
        try:
            read.open(data, 0, len(data))
        except Discard:
            pass
        else:
            raise AssertionError("opened what was never sealed")
    good = write.seal(23, data)
    assert read.open(good, 0, len(good)) == (23, 0, data)


def fuzz_intake(data: bytes) -> None:
    intake = Intake(Context(DtlsRole.SERVER, DtlsConfig(), None), EpochTable())
    for record in intake.receive(data, 0.0):
        assert record.epoch == 0
        assert record.content in data
    assert intake._held_bytes <= len(data)


def fuzz_reassembly(data: bytes) -> None:
    """Each eight bytes make one fragment."""
    reassembler = Reassembler()
    for at in range(0, len(data) - 7, 8):
        kind, length, seq, offset, size, epoch = (
            data[at] % 3,
            int.from_bytes(data[at + 1 : at + 4], "big") >> (data[at + 4] % 20),
            data[at + 5] % 12,
            data[at + 6] * 16,
            data[at + 7] * 4,
            data[at] >> 7,
        )
        try:
            reassembler.receive(Fragment(kind, length, seq, offset, bytes(size), epoch))
            while (message := reassembler.pop()) is not None:
                assert len(message.body) <= length or message.message_seq != seq
        except HandshakeFault:
            return
        kept = sum(partial.buffered() for partial in reassembler._partials.values())
        assert kept <= MAX_BUFFERED


def _fresh_ends() -> list[DtlsConnection]:
    waiting = client()
    waiting.start(0.0)
    waiting.datagrams_to_send(0.0)
    return [server(), waiting]


def fuzz_datagram_before_keys(data: bytes) -> None:
    """A waiting server and a waiting client: any datagram, twice, and they still run."""
    for end in _fresh_ends():
        end.receive_datagram(data, 0.0)
        end.receive_datagram(data, 0.1)
        end.datagrams_to_send(0.2)
        while (deadline := end.get_timer()) is not None and deadline < 100.0:
            end.handle_timer(deadline)
            end.datagrams_to_send(deadline)


LIVE = connected(**THIRTEEN)


def fuzz_datagram_after_keys(data: bytes) -> None:
    """Nothing that was not sealed changes anything on a live connection."""
    for end in LIVE:
        end.receive_datagram(data, 1.0)
        assert end.state is DtlsState.CONNECTED
        assert end.events() == []
        assert end.received_data() == []
        assert end.datagrams_to_send(1.0) == []


@given(BYTES)
def test_acks(data: bytes) -> None:
    fuzz_ack(data)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=40))
def test_acks_of_any_numbers(numbers: list[tuple[int, int]]) -> None:
    fuzz_ack(encode_ack(numbers))


@given(BYTES)
def test_records(data: bytes) -> None:
    fuzz_record13(data)


@given(BYTES)
def test_intake(data: bytes) -> None:
    fuzz_intake(data)
    fuzz_intake(b"\x16\xfe\xfd\0\0" + data)


@given(st.binary(max_size=800))
def test_reassembly(data: bytes) -> None:
    fuzz_reassembly(data)


@settings(deadline=None)
@given(
    st.sampled_from([b"", b"\x16\xfe\xfd\0\0", b"\x2e", b"\x15\xfe\xfd\0\0", b"\x1a\xfe\xfd\0\0"]),
    BYTES,
)
def test_datagrams_before_keys(head: bytes, data: bytes) -> None:
    fuzz_datagram_before_keys(head + data)


@given(st.sampled_from([b"", b"\x16\xfe\xfd\0\0", b"\x2f", b"\x2e", b"\x17\xfe\xfd"]), BYTES)
def test_datagrams_after_keys(head: bytes, data: bytes) -> None:
    fuzz_datagram_after_keys(head + data)
