from __future__ import annotations

import itertools
import random
import tracemalloc

import pytest

from warp.dtls.faults import Alert, DtlsRule, HandshakeFault
from warp.dtls.reassembly import (
    MAX_BUFFERED,
    MAX_CHUNKS,
    MAX_MESSAGE,
    WINDOW,
    Fragment,
    HandshakeMessage,
    Reassembler,
    Verdict,
    split_fragments,
)

BODY = bytes(range(200))


def piece(start=0, end=None, *, body=BODY, seq=0, kind=1, epoch=0, length=None) -> Fragment:
    data = body[start:end]
    return Fragment(kind, len(body) if length is None else length, seq, start, data, epoch)


def on_the_wire(fragment: Fragment) -> bytes:
    """The fragment in a record, built here from RFC 9147 section 5.2."""
    return (
        bytes((fragment.message_type,))
        + fragment.length.to_bytes(3, "big")
        + fragment.message_seq.to_bytes(2, "big")
        + fragment.offset.to_bytes(3, "big")
        + len(fragment.data).to_bytes(3, "big")
        + fragment.data
    )


def take(reassembler: Reassembler, fragment: Fragment) -> HandshakeMessage | None:
    return reassembler.take_whole(on_the_wire(fragment), 0, fragment.epoch)


def test_whole_message():
    reassembler = Reassembler()
    assert reassembler.receive(piece()) is Verdict.KEPT
    message = reassembler.pop()
    assert (message.message_type, message.message_seq, message.body) == (1, 0, BODY)
    assert reassembler.pop() is None
    assert reassembler.receive(piece()) is Verdict.KNOWN


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order(order):
    reassembler = Reassembler()
    parts = [piece(n * 50, n * 50 + 50) for n in range(4)]
    for index in order:
        assert reassembler.pop() is None
        reassembler.receive(parts[index])
        reassembler.receive(parts[index])
    assert reassembler.pop().body == BODY


def test_overlaps_and_changed_boundaries():
    """A retransmission may cut elsewhere (RFC 9147 section 5.5)."""
    generator = random.Random(1)
    for _ in range(200):
        reassembler = Reassembler()
        message = None
        while message is None:
            start = generator.randrange(200)
            reassembler.receive(piece(start, generator.randrange(start, 201)))
            message = reassembler.pop()
        assert message.body == BODY


def test_empty_message_and_empty_fragment():
    reassembler = Reassembler()
    assert reassembler.receive(piece(0, 0)) is Verdict.KEPT  # of a message that is not empty
    assert reassembler.pop() is None
    reassembler.receive(piece())
    assert reassembler.pop().body == BODY
    reassembler.receive(Fragment(14, 0, 1, 0, b"", 0))
    assert reassembler.pop().body == b""


def test_messages_come_out_in_order():
    reassembler = Reassembler()
    for seq in (2, 1):
        assert reassembler.receive(piece(seq=seq)) is Verdict.KEPT
        assert reassembler.pop() is None
    assert reassembler.has_gap
    reassembler.receive(piece())
    assert [reassembler.pop().message_seq for _ in range(3)] == [0, 1, 2]
    assert not reassembler.has_gap


def test_window():
    reassembler = Reassembler()
    assert reassembler.receive(piece(seq=WINDOW)) is Verdict.KEPT
    assert reassembler.receive(piece(seq=WINDOW + 1)) is Verdict.REFUSED


@pytest.mark.parametrize("change", [{"kind": 2}, {"length": 201}])
def test_contradiction_under_protection_is_fatal(change):
    reassembler = Reassembler()
    reassembler.receive(piece(0, 50, epoch=2))
    with pytest.raises(HandshakeFault) as caught:
        reassembler.receive(piece(50, 100, epoch=2, **change))
    assert caught.value.alert is Alert.ILLEGAL_PARAMETER
    assert caught.value.error.rule is DtlsRule.FRAGMENT_MISMATCH


def test_contradiction_in_plaintext_is_not():
    """Anyone can send it: the newest claim counts, and the real message still comes through."""
    reassembler = Reassembler()
    reassembler.receive(piece(0, 50, length=999))
    reassembler.receive(piece(0, 100))
    reassembler.receive(piece(100, 200))
    assert reassembler.pop().body == BODY
    strict = Reassembler(strict=True)
    strict.receive(piece(0, 50, length=999))
    with pytest.raises(HandshakeFault):
        strict.receive(piece(0, 100))


def test_protected_fragments_replace_plaintext_ones():
    reassembler = Reassembler()
    reassembler.receive(piece(0, 50))
    reassembler.receive(piece(0, 100, epoch=2))
    assert reassembler.receive(piece(100, 200)) is Verdict.REFUSED
    reassembler.receive(piece(100, 200, epoch=2))
    assert reassembler.pop().epoch == 2


def test_fragment_beyond_its_message():
    beyond = Fragment(1, 100, 0, 60, bytes(50), 0)
    assert Reassembler().receive(beyond) is Verdict.REFUSED
    with pytest.raises(HandshakeFault):
        Reassembler().receive(beyond._replace(epoch=2))


def test_absurd_length_allocates_nothing():
    """CVE-2014-3506: sixteen megabytes claimed by one fragment."""
    fragment = Fragment(1, 0xFFFFFF, 0, 0xFFFF00, bytes(64), 0)
    reassembler = Reassembler()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    assert reassembler.receive(fragment) is Verdict.REFUSED
    spent = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert spent < 64 * 1024
    with pytest.raises(HandshakeFault) as caught:
        reassembler.receive(fragment._replace(epoch=2))
    assert caught.value.error.rule is DtlsRule.MESSAGE_TOO_LARGE


def buffered(reassembler: Reassembler) -> int:
    return sum(partial.buffered() for partial in reassembler._partials.values())


def test_flood_is_bounded_and_the_awaited_message_still_fits():
    reassembler = Reassembler()
    for seq in range(1, WINDOW + 1):
        for start in range(0, MAX_MESSAGE, 1000):
            reassembler.receive(Fragment(1, MAX_MESSAGE, seq, start, bytes(900), 0))
    assert buffered(reassembler) <= MAX_BUFFERED - MAX_MESSAGE
    big = bytes(MAX_MESSAGE)
    for start in range(0, MAX_MESSAGE, 1000):
        assert reassembler.receive(piece(start, start + 1000, body=big)) is Verdict.KEPT
    assert buffered(reassembler) <= MAX_BUFFERED
    assert len(reassembler.pop().body) == MAX_MESSAGE


def test_crumbs_are_bounded():
    reassembler = Reassembler()
    body = bytes(1000)
    verdicts = [reassembler.receive(piece(n, n + 1, body=body)) for n in range(0, 1000, 2)]
    assert verdicts.count(Verdict.KEPT) == MAX_CHUNKS
    assert len(reassembler._partials[0].chunks) == MAX_CHUNKS


def test_gaps_can_be_filled_when_no_more_pieces_are_kept():
    """Else a message whose first pieces came in a bad order could never be completed."""
    reassembler = Reassembler()
    body = bytes(1000)
    for n in range(0, 1000, 2):
        reassembler.receive(piece(n, n + 1, body=body))
    for n in range(0, 1000, 10):  # a repetition, cut elsewhere
        assert reassembler.receive(piece(n, n + 10, body=body)) is Verdict.KEPT
    assert reassembler.pop().body == body


@pytest.mark.parametrize("seed", range(5))
def test_tiny_overlapping_fragments_in_any_order(seed):
    """Two bytes each, every byte twice: as small as peers that test us send them."""
    reassembler, body = Reassembler(), bytes(range(256)) * 4
    pieces = [piece(n, n + 2, body=body) for n in range(len(body))]
    random.Random(seed).shuffle(pieces)
    assert {reassembler.receive(part) for part in pieces} == {Verdict.KEPT}
    assert reassembler.pop().body == body


def test_key_change():
    reassembler = Reassembler()
    reassembler.receive(piece(0, 50))
    reassembler.enter_epoch(2)  # plaintext leftovers are forgotten
    assert not reassembler.has_gap
    reassembler.receive(piece(0, 50, epoch=2))
    with pytest.raises(HandshakeFault) as caught:
        reassembler.enter_epoch(3)
    assert caught.value.error.rule is DtlsRule.LEFTOVER_FRAGMENTS


def test_wait_again():
    reassembler = Reassembler()
    reassembler.receive(piece(kind=99))
    assert reassembler.pop().message_type == 99
    reassembler.wait_again()
    reassembler.receive(piece())
    assert reassembler.pop().body == BODY


def test_message_seq_never_wraps():
    reassembler = Reassembler()
    reassembler.next_seq = 0xFFFF
    reassembler.receive(piece(seq=0xFFFF, epoch=3))
    assert reassembler.pop().body == BODY
    for seq in (0, 1, 0xFFFF):
        assert take(reassembler, piece(seq=seq, epoch=3)) is None
        assert reassembler.receive(piece(seq=seq, epoch=3)) is Verdict.KNOWN


def test_a_message_in_one_fragment_is_taken_at_once():
    reassembler = Reassembler()
    one, two = piece(body=b"hello"), piece(body=b"", seq=1, epoch=2)
    record = on_the_wire(one) + on_the_wire(two)
    assert reassembler.take_whole(record, 0, 0) == HandshakeMessage(1, 0, b"hello", 0)
    assert reassembler.take_whole(record, 17, 2) == HandshakeMessage(1, 1, b"", 2)
    assert reassembler.take_whole(record, len(record), 2) is None
    assert reassembler.next_seq == 2


def test_whatever_is_not_the_whole_awaited_message_takes_the_long_way():
    for odd in (
        piece(body=b"known", seq=1),
        piece(body=b"early", seq=3),
        Fragment(1, 10, 2, 0, b"half", 0),
        Fragment(1, 4, 2, 4, b"past", 0),
        Fragment(1, 4, 2, 0x10000, b"past", 0),
        Fragment(1, 0, 2, 1, b"", 0),
        Fragment(1, 4, 2, 0, b"longer", 0),
        Fragment(1, MAX_MESSAGE + 1, 2, 0, bytes(MAX_MESSAGE + 1), 0),
    ):
        reassembler = Reassembler()
        reassembler.next_seq = 2
        assert take(reassembler, odd) is None
        assert reassembler.next_seq == 2
    whole = on_the_wire(piece(body=b"whole", seq=2))
    for cut in range(len(whole)):
        assert reassembler.take_whole(whole[:cut], 0, 0) is None
    reassembler.receive(piece(body=b"waits", seq=3))
    assert take(reassembler, piece(body=b"gap", seq=2)) is None


def test_fragments_of_a_record():
    one = bytes.fromhex("01000003 0000 000000 000003") + b"abc"
    two = bytes.fromhex("02123456 0a0b 0c0d0e 000001") + b"d"
    whole = (
        [Fragment(1, 3, 0, 0, b"abc", 2), Fragment(2, 0x123456, 0xA0B, 0xC0D0E, b"d", 2)],
        True,
    )
    assert split_fragments(one + two, 2, 9) == whole
    assert split_fragments(one + two[:-1], 2, 9) == (whole[0][:1], False)
    assert split_fragments(one + two[:5], 2, 9) == (whole[0][:1], False)
    assert split_fragments(one + two, 2, 1) == (whole[0][:1], False)
    assert split_fragments(b"", 2, 9) == ([], False)
    assert split_fragments(one + two, 2, 9, len(one)) == (whole[0][1:], True)
    assert split_fragments(one + two, 2, 0, len(one)) == ([], False)
    assert split_fragments(one, 2, 9, len(one)) == ([], True)
