"""Which section a packet belongs to (RFC 8843 section 9.2), read in place."""

from __future__ import annotations

import pytest

from warp.errors import InvalidConfig
from warp.rtp import (
    AudioReceiver,
    ExtensionMap,
    PayloadKind,
    ReceiverConfig,
    RtpDiscard,
    RtpPacket,
    RtpRouter,
    SourceBegan,
    SourceEnded,
    build_extensions,
)

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)


def section(mid: str, *payload_types: int) -> AudioReceiver:
    kinds = dict.fromkeys(payload_types or (111,), PayloadKind.AUDIO)
    return AudioReceiver(ReceiverConfig(mid=mid, payload_kinds=kinds))


def router(*receivers: AudioReceiver, ids: ExtensionMap = IDS, max_sources: int = 16) -> RtpRouter:
    out = RtpRouter(ids, max_sources=max_sources)
    for receiver in receivers:
        out.add_receiver(receiver)
    return out


def packet(
    sequence: int,
    ssrc: int,
    *,
    mid: str | None = None,
    level: int | None = None,
    number: int | None = None,
    payload_type: int = 111,
    payload: bytes = b"voice",
    csrcs: tuple[int, ...] = (),
    padding: int = 0,
) -> bytes:
    elements = {}
    if number is not None:
        elements[3] = number.to_bytes(2, "big")
    if mid is not None:
        elements[4] = mid.encode()
    if level is not None:
        elements[1] = bytes([level])
    profile, block = build_extensions(elements) if elements else (None, b"")
    return RtpPacket(
        payload_type, sequence, 960 * sequence, ssrc, payload, False, csrcs, profile, block, padding
    ).serialize()


def payloads(receiver: AudioReceiver) -> list[bytes | None]:
    return [frame.payload for frame in receiver.frames()]


def test_the_mid_decides_and_is_remembered() -> None:
    a, b = section("a"), section("b")
    r = router(a, b)
    r.receive(packet(1, 7, mid="b"), 0.0)
    r.receive(packet(2, 7), 0.02)
    assert payloads(a) == [] and payloads(b) == [b"voice"] * 2
    assert b.events() == [SourceBegan("b", 7, None)]
    assert r.receiver_of(7) is b and r.sections == (a, b)


@pytest.mark.parametrize("mids", ["a", "ab"])
def test_what_was_drained_stays_as_it_was(mids: str) -> None:
    """Whoever adds up what came has each frame once, also when there was none at first."""
    r = router(*map(section, mids))
    heard = r.frames()
    for number in range(3):
        r.receive(packet(number, 7, mid="a", payload=b"%d" % number), 0.02 * number)
        heard += r.frames()
    assert [frame.payload for frame in heard] == [b"0", b"1", b"2"]


def test_the_payload_type_decides_if_it_is_unique() -> None:
    a, b = section("a", 111, 0), section("b", 111, 8)
    r = router(a, b)
    r.receive(packet(1, 7, payload_type=8), 0.0)
    r.receive(packet(2, 7, payload_type=111), 0.02)  # the SSRC is known by now
    assert payloads(a) == [] and len(payloads(b)) == 2
    r.receive(packet(1, 9, payload_type=111), 0.0)
    r.receive(packet(1, 9, payload_type=55), 0.0)
    assert r.discards == {RtpDiscard.UNKNOWN_SOURCE: 2}


def test_a_hint_decides_where_there_is_no_mid() -> None:
    a, b = section("a"), section("b")
    r = router(a, b)
    r.hint(7, "b")
    r.hint(8, "nowhere")
    r.receive(packet(1, 7), 0.0)
    r.receive(packet(1, 8), 0.0)
    assert payloads(b) == [b"voice"] and r.discards == {RtpDiscard.UNKNOWN_SOURCE: 1}


def test_hints_are_bounded() -> None:
    r = router(section("a"), max_sources=4)
    for ssrc in range(100):
        r.hint(ssrc, "a")
    assert len(r._hints) == 4


def test_an_unknown_mid_is_discarded_though_the_payload_type_would_fit() -> None:
    a = section("a")
    r = router(a)
    r.receive(packet(1, 7, mid="z"), 0.0)
    assert payloads(a) == [] and r.discards == {RtpDiscard.UNKNOWN_MID: 1}
    r.receive(packet(1, 7, mid="a"), 0.0)
    r.receive(packet(2, 7, mid="z"), 0.0)
    assert payloads(a) == [b"voice"] and r.discards == {RtpDiscard.UNKNOWN_MID: 2}


def test_a_new_mid_moves_the_source() -> None:
    a, b = section("a"), section("b")
    r = router(a, b)
    r.receive(packet(1, 7, mid="a"), 0.0)
    r.receive(packet(2, 7, mid="b"), 0.02)
    r.receive(packet(3, 7), 0.04)
    assert len(payloads(a)) == 2  # the frame, and the mark that nothing continues it
    assert len(payloads(b)) == 2
    assert [type(e) for e in a.events()] == [SourceBegan, SourceEnded]
    assert b.events() == [SourceBegan("b", 7, None)]


def test_a_new_source_takes_over_and_the_old_one_is_retired() -> None:
    a = section("a")
    r = router(a)
    r.receive(packet(1, 7, mid="a"), 0.0)
    r.receive(packet(1, 8, mid="a"), 0.02)
    for i in range(2, 20):  # both go on: only the new one is heard
        r.receive(packet(i, 7, mid="a"), 0.02 * i)
        r.receive(packet(i, 8, mid="a"), 0.02 * i)
    assert a.ssrc == 8
    assert payloads(a) == [b"voice", None] + [b"voice"] * 19
    assert r.discards == {RtpDiscard.RETIRED_SOURCE: 18}
    assert [type(e) for e in a.events()] == [SourceBegan, SourceBegan]
    r.receive(packet(30, 7), 5.0)  # its successor has been silent
    assert a.ssrc == 7


def test_extensions_are_read_on_the_fast_and_on_the_slow_way() -> None:
    a = section("a")
    r = router(a)
    now = 0.0
    for i, shape in enumerate(
        [
            {"level": 0x80 | 30, "number": 0}, {"level": 31, "number": 1},
            {"level": 32, "number": 2, "mid": "a"}, {"number": 3}, {},
            {"level": 35, "number": 5, "padding": 3}, {"level": 36, "number": 6, "csrcs": (1, 2)},
            {"csrcs": (1,)}, {"level": 38, "number": 8},
        ]
    ):  # fmt: skip
        r.receive(packet(i, 7, **shape), now)
    frames = a.frames()
    assert [f.payload for f in frames] == [b"voice"] * 9
    assert [f.audio_level for f in frames] == [30, 31, 32, None, None, 35, 36, None, 38]
    assert [f.voice for f in frames] == [True] + [False] * 8
    assert r.feedback is not None
    (feedback,) = r.feedback.take()
    assert [offset for offset, _ in feedback.arrivals] == [0, 1, 2, 3, 5, 6, 8]


def test_without_negotiation_no_transport_numbers_are_kept() -> None:
    a = section("a")
    r = router(a, ids=ExtensionMap(audio_level=1))
    r.receive(packet(1, 7, level=3, number=9), 0.0)
    assert r.feedback is None
    assert a.frames()[0].audio_level == 3


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", RtpDiscard.TOO_SHORT),
        (b"\x80\x6f\0\1\0\0\0\0\0\0\0", RtpDiscard.TOO_SHORT),
        (b"\x40" + packet(1, 7)[1:], RtpDiscard.VERSION),
        (b"\x90" + packet(1, 7)[1:12], RtpDiscard.TOO_SHORT),
        (b"\x90" + packet(1, 7)[1:12] + b"\xbe\xde\0\1\x1f\0\0\0", RtpDiscard.EXTENSION),
        (b"\xa0" + packet(1, 7)[1:12] + b"\x09", RtpDiscard.PADDING),
    ],
)
def test_bad_packets_are_counted_and_the_stream_goes_on(data: bytes, expected: RtpDiscard) -> None:
    a = section("a")
    r = router(a)
    for known in (False, True):
        r.receive(data, 0.0)
        assert r.discards[expected] == 1 + known
        r.receive(packet(1 + known, 7, level=9), 0.0)
    assert payloads(a) == [b"voice"] * 2


def test_our_own_source_is_not_accepted() -> None:
    a = section("a")
    r = router(a)
    r.own_sources.add(7)
    r.receive(packet(1, 7), 0.0)
    assert payloads(a) == [] and r.collision == 7
    assert r.discards == {RtpDiscard.OWN_SOURCE: 1}


def test_the_table_is_bounded() -> None:
    a = section("a")
    r = router(a, max_sources=4)
    for ssrc in range(1, 200):
        r.receive(packet(1, ssrc, mid="a"), float(ssrc))
    assert len(r._by_ssrc) == 4 and a.ssrc == 199


def test_sections_come_and_go() -> None:
    a = section("a")
    r = router(a)
    with pytest.raises(InvalidConfig):
        r.add_receiver(section("a"))
    r.receive(packet(1, 7), 0.0)
    r.remove_receiver("a")
    r.remove_receiver("a")
    r.receive(packet(2, 7), 0.0)
    assert payloads(a) == [b"voice"] and r.discards == {RtpDiscard.UNKNOWN_SOURCE: 1}
    assert r.receiver_of(7) is None


def test_a_forgotten_source_may_come_back() -> None:
    a = section("a")
    r = router(a)
    r.receive(packet(1, 7), 0.0)
    a.end_source("bye", 0.0)
    r.forget(7)
    r.receive(packet(2, 7), 0.1)
    assert payloads(a) == [b"voice", None, b"voice"]
