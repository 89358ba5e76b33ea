"""Which packets are Opus, in which order, and what is made of gaps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tools.decrypt.support import CALLS, call, keys, opened
from tests.unit.tools.decrypt.test_ogg import heard, pages
from warp.dtls import DtlsRole
from warp.rtp import RedBlock, build_red
from warp.rtp.packet import RtpPacket
from warp_tools.audio import likeness, packaged_sound
from warp_tools.capture import Datagram
from warp_tools.decrypt import audio
from warp_tools.decrypt.audio import AudioFiles, Coding, PayloadType
from warp_tools.decrypt.plain import Plain
from warp_tools.failure import ToolFailure
from warp_tools.opus import encoded

SPEECH = packaged_sound("speech")[:48_000]
PAYLOADS = encoded(SPEECH)
TICK_NS = 20_000_000


def plain(packet: RtpPacket, time_ns: int, role: DtlsRole = DtlsRole.CLIENT) -> Plain:
    datagram = Datagram(1, time_ns, ("10.0.0.1", 1), ("10.0.0.2", 2), b"", 0, "udp", 0, 64)
    return Plain(datagram, "rtp", packet.serialize(), 1, role)


def voice(payloads: list[bytes], *, first: int = 65_530, kind: int = 111) -> list[Plain]:
    """Return a stream whose sequence numbers and timestamps wrap."""
    return [
        plain(
            RtpPacket(
                kind, first + n & 0xFFFF, 0xFFFF_F000 + 960 * n & 0xFFFF_FFFF, 0xABCD, payload
            ),
            n * TICK_NS,
        )
        for n, payload in enumerate(payloads)
    ]


def files(tmp_path: Path, items: list[Plain]) -> AudioFiles:
    result = AudioFiles(tmp_path / "out.ogg")
    for item in items:
        result.receive(item)
    result.close()
    return result


def written(path: Path) -> list[bytes]:
    return [packet for page in pages(path)[2:] for packet in page.packets]


@pytest.mark.parametrize("name", CALLS)
def test_the_voices_of_a_recorded_call(tmp_path: Path, name: str) -> None:
    """Both directions say the packaged recording; what is heard is that, from either file."""
    result = opened(call(name), keys(name))
    out = files(tmp_path, [one for one in result.plain if one.dissector == "rtp"])
    assert sorted(side for _, side, _ in out.streams) == ["client", "server"]
    speech = packaged_sound("speech")
    for (_, side, ssrc), stream in out.streams.items():
        assert stream.writer is not None
        path = tmp_path / f"out-1-{side}-{ssrc:08x}.ogg"
        assert stream.writer.path == path
        assert 1.4 <= stream.writer.samples / 48_000 <= 2.5
        # aiortc's end speaks the recording from its start, the others from its second second on
        start = 0 if "aiortc" in name and side == "client" else 48_000
        spoken = speech[start + 4_800 : start + 52_800]
        assert likeness(spoken, heard(path)).correlation > 0.8
        assert (stream.concealed, stream.late) == (0, 0)


def test_numbers_that_wrap(tmp_path: Path) -> None:
    out = files(tmp_path, voice(PAYLOADS))
    assert written(tmp_path / "out-1-client-0000abcd.ogg") == PAYLOADS
    (stream,) = out.streams.values()
    assert stream.concealed == 0


@given(st.data())
def test_what_was_overtaken_is_put_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    items = voice(PAYLOADS)
    for at in data.draw(st.lists(st.integers(5, len(items) - 5), max_size=6)):
        items.insert(at + 3, items.pop(at))
    items += [items[at] for at in data.draw(st.lists(st.integers(0, 10), max_size=3))]
    folder = tmp_path_factory.mktemp("audio")
    files(folder, items)
    assert written(folder / "out-1-client-0000abcd.ogg") == PAYLOADS


def test_lost_packets_are_concealed(tmp_path: Path) -> None:
    items = voice(PAYLOADS)
    del items[20:25]
    out = files(tmp_path, items)
    (stream,) = out.streams.values()
    assert (stream.concealed, stream.paused) == (5 * 960, 0)
    assert stream.writer is not None
    assert stream.writer.samples == len(SPEECH)


def test_a_jump_of_the_clock_is_no_hour_of_silence(tmp_path: Path) -> None:
    items = voice(PAYLOADS)
    jumped = [
        plain(RtpPacket(111, (65_530 + n) & 0xFFFF, 960 * n + 0x4000_0000, 0xABCD, p), n * TICK_NS)
        for n, p in enumerate(PAYLOADS)
    ]
    out = files(tmp_path, items[:25] + jumped[25:])
    (stream,) = out.streams.values()
    assert stream.concealed == 0
    assert stream.paused <= 48_000 + 960


def test_a_pause_that_took_its_time_is_kept(tmp_path: Path) -> None:
    """A muted microphone: as long in the timestamps as in the capture."""
    rest = [
        plain(
            RtpPacket(
                111, (65_530 + n) & 0xFFFF, 0xFFFF_F000 + 960 * (n + 500) & 0xFFFF_FFFF, 0xABCD, p
            ),
            (n + 500) * TICK_NS,
        )
        for n, p in enumerate(PAYLOADS)
    ]
    out = files(tmp_path, voice(PAYLOADS)[:25] + rest[25:])
    (stream,) = out.streams.values()
    assert (stream.paused, stream.concealed) == (500 * 960, 0)


def test_redundant_audio_is_unpacked(tmp_path: Path) -> None:
    """RFC 2198 around Opus: the primary of each packet."""
    packed = [
        build_red(
            [*([RedBlock(111, 960, PAYLOADS[n - 1])] if n else []), RedBlock(111, 0, payload)]
        )
        for n, payload in enumerate(PAYLOADS)
    ]
    files(tmp_path, voice(packed, kind=63))
    assert written(tmp_path / "out-1-client-0000abcd.ogg") == PAYLOADS


def test_a_stream_may_mix_opus_and_redundant_audio(tmp_path: Path) -> None:
    packed = [build_red([RedBlock(111, 0, payload)]) for payload in PAYLOADS[25:]]
    items = voice(PAYLOADS)[:25] + voice([b""] * 25 + packed, kind=63)[25:]
    files(tmp_path, items)
    assert written(tmp_path / "out-1-client-0000abcd.ogg") == PAYLOADS


@pytest.mark.parametrize(("size", "step"), [(160, 160), (1100, 0), (1100, 3000), (320, 160)])
def test_other_media_makes_no_file(tmp_path: Path, size: int, step: int) -> None:
    """G.711, G.722, video: their timestamps do not go as their bytes would say."""
    items = [
        plain(RtpPacket(96, n, n * step, 5, bytes((n * 37 & 0xFF,)) * size), n * TICK_NS)
        for n in range(100)
    ]
    out = files(tmp_path, items)
    assert list(tmp_path.iterdir()) == []
    (stream,) = out.streams.values()
    assert stream.writer is None


def test_few_packets_are_enough(tmp_path: Path) -> None:
    files(tmp_path, voice(PAYLOADS[:2]))
    assert written(tmp_path / "out-1-client-0000abcd.ogg") == PAYLOADS[:2]


def test_one_packet_says_nothing(tmp_path: Path) -> None:
    files(tmp_path, voice(PAYLOADS[:1]))
    assert list(tmp_path.iterdir()) == []


def test_a_payload_type_is_decided_in_bounded_time() -> None:
    kind = PayloadType()
    for number in range(1000):
        kind.weigh(RtpPacket(96, number, number * 3000, 5, b"\xff" * 50))
        if kind.coding is not Coding.UNDECIDED:
            break
    assert (kind.coding, number) == (Coding.OTHER, 16)


def test_sources_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "MAX_STREAMS", 4)
    items = [plain(RtpPacket(96, 1, 1, ssrc, b"\xf8"), 0) for ssrc in range(10)]
    out = files(tmp_path, items)
    assert (len(out.streams), out.overflow) == (4, 6)


def test_undecided_packets_are_bounded(tmp_path: Path) -> None:
    """A source whose numbers are never neighbours is given up."""
    items = [plain(RtpPacket(96, 2 * n, 960 * n, 5, b"\xf8"), n) for n in range(1000)]
    out = files(tmp_path, items)
    (stream,) = out.streams.values()
    assert len(stream._early) == 0


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "out.ogg", tmp_path):
        with pytest.raises(ToolFailure, match="cannot write"):
            AudioFiles(path)


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 1 << 32), st.binary(max_size=30))))
def test_any_stream_is_survived(
    tmp_path_factory: pytest.TempPathFactory, packets: list[tuple[int, int, bytes]]
) -> None:
    out = AudioFiles(tmp_path_factory.mktemp("audio") / "out.ogg")
    for number, (sequence, timestamp, payload) in enumerate(packets):
        packet = RtpPacket(111, sequence, timestamp & 0xFFFF_FFFF, 1, payload)
        out.receive(plain(packet, number * TICK_NS))
    out.close()
