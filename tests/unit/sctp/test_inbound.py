"""Admission, order, windows and skips (RFC 9260 6.2, 6.5, 6.6; RFC 3758 3.6; RFC 8260 2)."""

from __future__ import annotations

import pytest

from tests.unit.sctp.support import WHOLE, Script, chunk, init_chunk, kinds
from tests.vectors.sctp import TAG_A
from warp.sctp import SctpConfig, SctpDiscard, SctpRule, State, Terminated
from warp.sctp.chunks import (
    BEGIN,
    END,
    UNORDERED,
    ChunkType,
    ForwardTsn,
    Skip,
    encode_forward_tsn,
    encode_i_forward_tsn,
)
from warp.sctp.parameters import parse_causes

SMALL = SctpConfig(a_rwnd=20_000, heartbeat_interval_s=None)


def interleaving() -> Script:
    extensions = (0x82, 0xC0, 0x40, 0xC2)
    return Script(
        local=init_chunk(tag=TAG_A, tsn=1000, extensions=extensions),
        remote=init_chunk(extensions=extensions),
    )


def texts(script: Script) -> list[bytes]:
    return [payload for _, _, payload in script.us.messages()]


def end_of(script: Script) -> Terminated:
    [ended] = [event for event in script.us.events() if isinstance(event, Terminated)]
    return ended


# -- order


def test_ordered_messages_wait_for_each_other() -> None:
    script = Script()
    script.says(script.data(b"two", ssn=2), script.data(b"one", ssn=1))
    assert texts(script) == []
    script.says(script.data(b"zero", ssn=0))
    assert texts(script) == [b"zero", b"one", b"two"]


def test_streams_do_not_wait_for_each_other() -> None:
    script = Script()
    script.says(script.data(b"late", ssn=1, stream=1), script.data(b"other", stream=2))
    assert script.us.messages() == [(2, 53, b"other")]


def test_unordered_overtakes() -> None:
    script = Script()
    script.says(
        script.data(b"half", flags=BEGIN | UNORDERED), script.data(b"wait", ssn=1, stream=1)
    )
    script.tsn += 1
    script.says(script.data(b"now", flags=WHOLE | UNORDERED, ssn=9))
    assert texts(script) == [b"now"]
    assert script.us.discards == {}


@pytest.mark.slow
def test_ssn_wraps() -> None:
    script = Script()
    for ssn in range(70_000):
        script.says(script.data(ssn.to_bytes(4, "big"), ssn=ssn & 0xFFFF))
        if ssn % 1000 == 0:
            script.hears()
            script.us.messages()
    assert texts(script)[-1] == (69_999).to_bytes(4, "big")


def test_an_old_ssn_is_not_delivered_again() -> None:
    script = Script()
    for ssn in (0, 1, 0):
        script.says(script.data(b"%d" % ssn, ssn=ssn))
    assert texts(script) == [b"0", b"1"]
    assert script.us.discards == {SctpDiscard.OLD_SEQUENCE: 1}
    assert script.hears_sacks()[-1].cumulative_tsn == 3


def test_mid_wraps_and_takes_extremes() -> None:
    script = interleaving()
    script.says(script.i_data(b"0", mid=0))
    for target in (0x7FFFFFFF, 0xFFFFFFFD):
        forward = ForwardTsn(script.tsn & 0xFFFFFFFF, (Skip(0, False, target),))
        script.tsn += 1
        script.says(encode_i_forward_tsn(forward))
    script.says(script.i_data(b"wrapped", mid=0))
    for mid, text in ((0xFFFFFFFF, b"b"), (0xFFFFFFFE, b"a")):
        script.says(script.i_data(text, mid=mid))
    assert texts(script) == [b"0", b"a", b"b", b"wrapped"]


def test_tsn_wraps_on_the_way_in() -> None:
    script = Script(remote=init_chunk(tsn=0xFFFFFFFE))
    for ssn in range(7):
        script.says(script.data(b"%d" % ssn, ssn=ssn))
    assert texts(script) == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    assert script.hears_sacks()[-1].cumulative_tsn == 4


# -- what is not accepted


def test_data_without_user_data_is_reported_and_not_delivered() -> None:
    script = Script()
    script.says(script.data(b""))
    assert texts(script) == []
    [(kind, _, body), *_] = script.hears()
    assert kind == ChunkType.ERROR
    assert parse_causes(body) == [(9, b"\0\0\0\x01")]
    assert script.us.discards == {SctpDiscard.NO_USER_DATA: 1}
    script.says(chunk(ChunkType.DATA, b"ab"))
    assert script.us.discards == {SctpDiscard.NO_USER_DATA: 2}


def test_a_stream_beyond_the_agreed_is_reported_and_acknowledged() -> None:
    script = Script(remote=init_chunk(streams=10))
    assert script.us.agreement is not None
    assert script.us.agreement.inbound_streams == 10
    script.says(script.data(stream=10))
    heard = script.hears()
    assert kinds(heard) == [ChunkType.ERROR, ChunkType.SACK]
    assert parse_causes(heard[0][2]) == [(1, b"\0\x0a\0\0")]
    assert texts(script) == []
    script.says(script.data(stream=9))
    assert texts(script) == [b"x"]


@pytest.mark.parametrize("mixed", [False, True])
def test_the_other_family_of_chunks_aborts(mixed: bool) -> None:
    script = interleaving() if mixed else Script()
    script.says(script.data() if mixed else script.i_data())
    assert script.us.state is State.CLOSED
    error = end_of(script).error
    assert getattr(error, "rule", None) is SctpRule.WRONG_CHUNK_FAMILY
    [(kind, _, body)] = script.hears()
    assert kind == ChunkType.ABORT
    assert parse_causes(body)[0][0] == 13


@pytest.mark.parametrize("mixed", [False, True])
def test_the_other_family_of_forward_tsn_aborts(mixed: bool) -> None:
    script = interleaving() if mixed else Script()
    forward = ForwardTsn(1, ())
    script.says(encode_forward_tsn(forward) if mixed else encode_i_forward_tsn(forward))
    assert kinds(script.hears()) == [ChunkType.ABORT]


def test_forward_tsn_that_was_not_agreed_aborts() -> None:
    script = Script(remote=init_chunk(forward=False, extensions=(0x82,)))
    script.says(encode_forward_tsn(ForwardTsn(1, ())))
    error = end_of(script).error
    assert getattr(error, "rule", None) is SctpRule.NOT_NEGOTIATED


def test_impossible_fragments_abort() -> None:
    script = Script()
    script.says(script.data(flags=BEGIN), script.data(flags=BEGIN, ssn=1))
    error = end_of(script).error
    assert getattr(error, "rule", None) is SctpRule.FRAGMENTS_OUT_OF_ORDER
    assert kinds(script.hears()) == [ChunkType.ABORT]


# -- the window


def test_the_window_counts_what_is_not_read() -> None:
    script = Script(SMALL)
    seen = []
    for ssn in range(8):
        script.says(script.data(bytes(1000), ssn=ssn))
        seen += [s.a_rwnd for s in script.hears_sacks()]
    assert seen == [20_000 - 1128, 20_000 - 3 * 1128, 20_000 - 5 * 1128, 20_000 - 7 * 1128]
    script.us.messages()
    for ssn in (8, 9):
        script.says(script.data(bytes(1000), ssn=ssn))
    assert script.hears_sacks()[-1].a_rwnd >= 20_000 - 2 * 1128


def test_unfinished_messages_count_too() -> None:
    script = Script(SMALL)
    script.says(script.data(bytes(1000), flags=BEGIN))
    assert script.hears_sacks()[0].a_rwnd == 20_000 - 1000 - 48 - 320


def fill(script: Script, until: int = 0) -> int:
    """Unread messages until the announced window is shut; returns how many."""
    for ssn in range(1000):
        script.says(script.data(bytes(1000), ssn=ssn))
        if any(sack.a_rwnd == until for sack in script.hears_sacks()):
            return ssn + 1
    raise AssertionError("the window never shut")


def test_a_slow_reader_shuts_the_window_and_reading_opens_it() -> None:
    script = Script(SMALL)
    count = fill(script)
    assert 16 <= count <= 18
    assert len(texts(script)) == count
    [opened] = script.hears_sacks()
    assert opened.a_rwnd > 18_000


def test_when_full_of_unread_messages_nothing_more_is_taken() -> None:
    script = Script(SMALL)
    count = fill(script) + 1
    script.says(script.data(bytes(1000), ssn=count - 1))
    script.hears()
    for tsn in (script.tsn, script.tsn + 1):
        script.says(script.data(bytes(1000), ssn=count, tsn=tsn))
        [sack] = script.hears_sacks()  # told at once: silence about a tail would wedge
        assert (sack.cumulative_tsn, sack.gaps, sack.a_rwnd) == (script.tsn - 1, (), 0)
    assert script.us.discards == {SctpDiscard.NO_ROOM: 2}
    assert len(texts(script)) == count
    assert script.hears_sacks()[-1].a_rwnd > 18_000
    script.says(script.data(bytes(1000), ssn=count))
    assert len(texts(script)) == 1


def test_when_full_of_unfinished_messages_only_what_can_finish_one_is_taken() -> None:
    script = Script(SMALL)
    script.says(script.data(bytes(1000), flags=BEGIN))
    hole = script.tsn
    script.tsn += 1
    for _ in range(18):
        script.says(script.data(bytes(1000), flags=0))
    script.hears()
    script.says(script.data(bytes(1000), flags=0))
    assert script.us.discards == {SctpDiscard.NO_ROOM: 1}
    [sack] = script.hears_sacks()
    assert (sack.cumulative_tsn, sack.gaps, sack.a_rwnd) == (1, ((2, 19),), 0)
    script.says(script.data(bytes(1000), flags=0, tsn=hole))
    script.tsn -= 1
    script.says(script.data(bytes(1000), flags=END))
    assert [len(text) for text in texts(script)] == [21_000]
    assert script.hears_sacks()[-1].a_rwnd == 20_000


def test_a_reader_that_never_reads_is_not_buried() -> None:
    script = Script(SMALL)
    for _ in range(500):
        before = script.us.discards.get(SctpDiscard.NO_ROOM, 0)
        script.says(script.data(bytes(1000), flags=WHOLE | UNORDERED))
        script.hears()
        if script.us.discards.get(SctpDiscard.NO_ROOM, 0) > before:
            script.tsn -= 1  # refused: the peer will send it again
    assert script.us.state is State.ESTABLISHED
    assert sum(map(len, texts(script))) <= 21_000


def test_a_peer_that_ignores_the_window_with_what_cannot_be_read_is_cut_off() -> None:
    script = Script(SMALL)
    script.says(script.data(bytes(1000), flags=BEGIN))
    for _ in range(100):
        script.says(script.data(bytes(1000), flags=0))
        script.hears()
        if script.us.state is State.CLOSED:
            break
    error = end_of(script).error
    assert getattr(error, "rule", None) is SctpRule.RECEIVE_WINDOW_IGNORED


@pytest.mark.parametrize("kind", ["begins", "waits", "streams", "holes"])
def test_tiny_hostile_chunks_cannot_exhaust_memory(kind: str) -> None:
    script = Script(SMALL)
    for n in range(3000):
        if kind == "begins":
            script.says(script.data(flags=BEGIN, ssn=n, tsn=1 + 2 * n))
        elif kind == "waits":
            script.says(script.data(ssn=n + 1))
        elif kind == "streams":
            script.says(script.data(ssn=1, stream=n))
        else:
            script.says(script.data(flags=0, tsn=2 + 2 * n))
        if script.us.state is State.CLOSED:
            break
    inbound = script.us._inbound
    assert inbound is not None
    assert inbound.charge <= 2 * 20_000 + 1000


def test_tsn_jumps_cost_nothing() -> None:
    script = Script()
    for jump in (70_000, 1 << 30, (1 << 31) - 1):
        script.says(script.data(tsn=jump))
    assert script.us.discards == {SctpDiscard.TSN_TOO_FAR: 3}
    assert script.us._inbound is not None
    assert script.us._inbound.charge == 0


# -- FORWARD-TSN


def test_forward_tsn_skips_and_delivers_what_waited() -> None:
    script = Script()
    script.says(script.data(b"0", ssn=0))
    script.tsn += 1
    script.says(script.data(b"2", ssn=2), script.data(b"3", ssn=3))
    assert texts(script) == [b"0"]
    script.says(encode_forward_tsn(ForwardTsn(2, (Skip(0, False, 1),))))
    assert texts(script) == [b"2", b"3"]
    assert script.hears_sacks()[-1].cumulative_tsn == 4


def test_the_example_of_rfc_3758() -> None:
    """Section 3.6: TSNs 103 and 105 are here, 102 and 104 never come; the new point is 106."""
    script = Script(remote=init_chunk(tsn=101))
    for tsn, ssn in ((101, 0), (103, 2), (105, 4)):
        script.says(script.data(b"%d" % tsn, ssn=ssn, tsn=tsn))
    script.hears()
    script.says(encode_forward_tsn(ForwardTsn(106, (Skip(0, False, 5),))))
    assert texts(script) == [b"101", b"103", b"105"]
    [sack] = script.hears_sacks()
    assert (sack.cumulative_tsn, sack.gaps) == (106, ())


def test_forward_tsn_far_ahead_takes_no_time() -> None:
    script = Script()
    script.says(script.data(b"w", ssn=5, tsn=30))
    script.says(encode_forward_tsn(ForwardTsn(0x7FFFFFF0, (Skip(0, False, 4),))))
    assert texts(script) == [b"w"]
    assert script.hears_sacks()[-1].cumulative_tsn == 0x7FFFFFF0
    script.tsn = 0x7FFFFFF1
    script.says(script.data(b"x", ssn=6))
    assert texts(script) == [b"x"]


def test_forward_tsn_purges_fragments_without_naming_the_stream() -> None:
    script = Script()
    script.says(script.data(bytes(1000), flags=BEGIN | UNORDERED))
    script.tsn += 1
    script.says(script.data(bytes(1000), flags=END | UNORDERED))
    inbound = script.us._inbound
    assert inbound is not None
    assert inbound.charge > 2000
    script.says(encode_forward_tsn(ForwardTsn(3, ())))
    assert inbound.charge == 0
    assert script.hears_sacks()[-1].a_rwnd == script.config.a_rwnd


def test_forward_tsn_leaves_other_messages_alone() -> None:
    script = Script()
    script.tsn += 1
    script.says(script.data(b"a", flags=BEGIN | UNORDERED, stream=1))
    script.says(encode_forward_tsn(ForwardTsn(1, (Skip(0, False, 0),))))
    script.says(script.data(b"b", flags=END | UNORDERED, stream=1))
    assert texts(script) == [b"ab"]


def test_a_duplicate_skip_does_no_harm() -> None:
    script = Script()
    forward = encode_forward_tsn(ForwardTsn(2, (Skip(0, False, 1),)))
    script.says(forward)
    script.tsn = 3
    script.says(script.data(b"2", ssn=2))
    script.says(forward)
    script.says(script.data(b"3", ssn=3))
    assert texts(script) == [b"2", b"3"]


def test_i_forward_tsn_goes_by_message_id() -> None:
    script = interleaving()
    script.says(script.i_data(b"a", flags=BEGIN, mid=0), script.i_data(b"b", flags=BEGIN, mid=1))
    script.says(script.i_data(b"u", flags=BEGIN | UNORDERED, mid=0))
    forward = ForwardTsn(4, (Skip(0, False, 0), Skip(0, False, 0)))
    script.says(encode_i_forward_tsn(forward))
    script.tsn = 5
    script.says(script.i_data(b"B", flags=END, mid=1, word=1))
    script.says(script.i_data(b"U", flags=END | UNORDERED, mid=0, word=1))
    assert texts(script) == [b"bB", b"uU"]


def test_i_forward_tsn_of_an_unordered_message() -> None:
    script = interleaving()
    script.says(script.i_data(b"u", flags=BEGIN | UNORDERED, mid=0))
    script.says(encode_i_forward_tsn(ForwardTsn(2, (Skip(0, True, 0),))))
    script.tsn = 3
    script.says(script.i_data(b"o", mid=0))
    assert texts(script) == [b"o"]
    assert script.us._inbound is not None
    assert script.us._inbound.charge == 0


def test_late_fragments_of_a_skipped_message_are_of_no_use() -> None:
    script = interleaving()
    for flags in (0, UNORDERED):
        late = script.i_data(b"a", flags=BEGIN | flags, stream=1)
        forward = ForwardTsn(script.tsn, (Skip(1, bool(flags), 0),))
        end = script.i_data(b"b", flags=END | flags, stream=1, word=1, tsn=script.tsn + 1)
        script.says(encode_i_forward_tsn(forward))
        script.says(late)
        script.says(end)
        script.tsn += 2
    assert texts(script) == []
    assert script.us.discards == {SctpDiscard.OLD_SEQUENCE: 2}
    assert script.us._inbound is not None
    assert script.us._inbound.charge == 0
    script.says(script.i_data(b"next", mid=1, stream=1))
    script.says(script.i_data(b"too", mid=1, stream=1, flags=WHOLE | UNORDERED))
    assert texts(script) == [b"next", b"too"]
