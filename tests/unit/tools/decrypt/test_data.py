"""Messages out of SCTP packets that an onlooker sees: lost, repeated, overtaken, abandoned."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.datachannel import DcepOpen, Ppid
from warp.datachannel.dcep import ACK
from warp.dtls import DtlsRole
from warp.entropy import SeededEntropy
from warp.sctp import SctpConfig, local_init
from warp.sctp.chunks import (
    BEGIN,
    END,
    UNORDERED,
    ChunkType,
    Data,
    ForwardTsn,
    IData,
    Skip,
    encode_chunk,
    encode_data,
    encode_forward_tsn,
    encode_i_data,
    encode_i_forward_tsn,
)
from warp.sctp.packet import build_packet
from warp_tools.decrypt import data as module
from warp_tools.decrypt.data import DataReader, Message

C, S = DtlsRole.CLIENT, DtlsRole.SERVER


def packet(*chunks: bytes) -> bytes:
    return build_packet(5000, 5000, 1, b"".join(chunks))


def data(
    tsn: int, payload: bytes, flags: int = BEGIN | END, *, sid: int = 0, ppid: int = 51
) -> bytes:
    return encode_data(Data(flags, tsn & 0xFFFF_FFFF, sid, 0, ppid, payload))


def texts(messages: list[Message]) -> list[object]:
    return [message.content for message in messages]


def read(reader: DataReader, *packets: bytes, role: DtlsRole = C) -> list[object]:
    return [content for one in packets for content in texts(reader.receive(one, role))]


def test_a_message_in_pieces_that_overtake_each_other() -> None:
    parts = [
        packet(data(0xFFFF_FFFE, b"one ", BEGIN)),
        packet(data(0xFFFF_FFFF, b"two ", 0)),
        packet(data(0, b"three", END)),
    ]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        reader = DataReader()
        assert read(reader, *(parts[at] for at in order)) == ["one two three"]
        assert reader.broken == 0


def test_what_is_sent_again_is_one_message() -> None:
    reader = DataReader()
    both = packet(data(7, b"a"), data(8, b"b"))
    assert read(reader, both, packet(data(8, b"b")), both, packet(data(9, b"c"))) == ["a", "b", "c"]


def test_both_ends_count_for_themselves() -> None:
    reader = DataReader()
    assert read(reader, packet(data(7, b"a"))) == ["a"]
    assert read(reader, packet(data(7, b"b")), role=S) == ["b"]


def test_an_init_says_where_counting_begins() -> None:
    """A second association on one connection may use any TSN, also one that was seen."""
    reader = DataReader()
    assert read(reader, packet(data(7, b"a"))) == ["a"]
    init = local_init(SctpConfig(), SeededEntropy(1))
    again = build_packet(5000, 5000, 0, init.to_chunk(ChunkType.INIT) + bytes(2))
    tsn = init.initial_tsn
    assert read(reader, again, packet(data(tsn, b"b")), packet(data(tsn, b"b"))) == ["b"]
    assert read(reader, packet(data(tsn - 1, b"before the first"))) == []


def test_what_the_capture_lacks_is_not_waited_for() -> None:
    reader = DataReader()
    tsns = list(range(0, 120_000, 9))
    found = read(reader, *(packet(data(tsn, b"%d" % tsn)) for tsn in tsns))
    assert found == [str(tsn) for tsn in tsns]


def test_labels_come_from_dcep() -> None:
    reader = DataReader()
    channel = DcepOpen("talk", "p")
    opening = packet(data(1, channel.to_bytes(), sid=4, ppid=Ppid.DCEP))
    (said,) = reader.receive(opening, C)
    assert (said.label, said.content) == ("talk", channel)
    (ack,) = reader.receive(packet(data(1, ACK, sid=4, ppid=Ppid.DCEP)), S)
    assert (ack.label, ack.content) == ("talk", None)
    (text,) = reader.receive(packet(data(2, b"hi", sid=4)), S)
    assert (text.label, text.content, text.stream_id, text.ordered) == ("talk", "hi", 4, True)
    (other,) = reader.receive(packet(data(3, b"hi", BEGIN | END | UNORDERED, sid=5)), S)
    assert (other.label, other.ordered) == (None, False)


@pytest.mark.parametrize(
    ("ppid", "payload", "content"),
    [
        (51, b"caf\xc3\xa9", "café"),
        (53, b"\0\1", b"\0\1"),
        (56, b"\0", ""),
        (57, b"\0", b""),
        (51, b"\xff\xfe", b"\xff\xfe"),
    ],
)
def test_payloads(ppid: int, payload: bytes, content: object) -> None:
    assert read(DataReader(), packet(data(1, payload, ppid=ppid))) == [content]


def test_a_ppid_without_a_meaning_is_counted() -> None:
    reader = DataReader()
    assert read(reader, packet(data(1, b"x", ppid=0), data(2, b"y"))) == ["y"]
    assert reader.broken == 1


def i_data(tsn: int, mid: int, word: int, payload: bytes, flags: int) -> bytes:
    return encode_i_data(IData(flags, tsn, 0, mid, word, payload))


def test_interleaved_messages() -> None:
    reader = DataReader()
    found = read(
        reader,
        packet(i_data(1, 0, 51, b"a1 ", BEGIN), i_data(2, 1, 51, b"b1 ", BEGIN)),
        packet(i_data(4, 1, 1, b"b2", END), i_data(3, 0, 1, b"a2", END)),
        packet(i_data(5, 2, 53, b"whole", BEGIN | END)),
    )
    assert found == ["b1 b2", "a1 a2", b"whole"]


def test_abandoned_messages_are_forgotten() -> None:
    reader = DataReader()
    read(reader, packet(data(1, b"first ", BEGIN)))
    read(reader, packet(encode_forward_tsn(ForwardTsn(2, ()))))
    assert read(reader, packet(data(2, b"second", END)), packet(data(3, b"next"))) == ["next"]
    read(reader, packet(i_data(4, 0, 51, b"a1 ", BEGIN)))
    skip = encode_i_forward_tsn(ForwardTsn(5, (Skip(0, False, 0),)))
    assert read(reader, packet(skip), packet(i_data(6, 0, 1, b"a2", END))) == []


def test_unfinished_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 10_000)
    reader = DataReader()
    for tsn in range(0, 400, 2):
        read(reader, packet(data(tsn, bytes(100), BEGIN)))
    assert reader.given_up > 2
    assert sum(d.by_tsn.charge for d in reader._directions.values()) <= 10_600


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LABELS", 3)
    reader = DataReader()
    for sid in range(9):
        read(reader, packet(data(sid, DcepOpen("x").to_bytes(), sid=sid, ppid=Ppid.DCEP)))
    assert len(reader._labels) == 3


@pytest.mark.parametrize(
    "bad",
    [
        b"short",
        packet(b"\0\3\0\2"),
        packet(encode_chunk(0, 3, b"\0\0")),
        packet(encode_chunk(1, 0, bytes(16))),
        packet(encode_chunk(0xC0, 0, b"\0")),
        packet(data(9, b"\x99", ppid=50)),
    ],
)
def test_broken_packets_are_counted(bad: bytes) -> None:
    reader = DataReader()
    assert reader.receive(bad, C) == []
    assert reader.broken == 1
    assert read(reader, packet(data(1, b"after"))) == ["after"]


def test_fragments_that_contradict_each_other_are_dropped() -> None:
    reader = DataReader()
    read(reader, packet(data(1, b"a", BEGIN)), packet(data(2, b"b", BEGIN)))
    assert reader.broken == 1
    assert read(reader, packet(data(3, b"after"))) == ["after"]


@given(
    st.integers(0, 1 << 32), st.lists(st.binary(min_size=1, max_size=4000), min_size=1, max_size=6)
)
def test_any_order_with_repetitions_gives_each_message_once(seed: int, bodies: list[bytes]) -> None:
    chance = random.Random(seed)
    tsn, parts = chance.randrange(1 << 32), []
    for body in bodies:
        pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
        for number, piece in enumerate(pieces):
            flags = BEGIN * (number == 0) | END * (number == len(pieces) - 1)
            parts.append(packet(data(tsn, piece, flags, ppid=53)))
            tsn += 1
    parts += chance.sample(parts, len(parts) // 2)
    chance.shuffle(parts)
    found = read(DataReader(), *parts)
    assert sorted(found) == sorted(bodies)


@given(st.lists(st.binary(max_size=100)))
def test_noise_is_survived(packets: list[bytes]) -> None:
    reader = DataReader()
    for one in packets:
        reader.receive(one, C)
        reader.receive(packet(one), S)
