"""Ogg Opus as RFC 7845 and RFC 3533 want it, read again by FFmpeg's own demuxer."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.rtp.opus import packet_samples, parse_opus
from warp_tools.audio import likeness, packaged_sound
from warp_tools.decrypt.ogg import PRE_SKIP, OggOpusWriter, concealment, page_checksum
from warp_tools.opus import encoded

SPEECH = packaged_sound("speech")[:96_000]


class Page(NamedTuple):
    flags: int
    granule: int
    serial: int
    sequence: int
    checksum_fits: bool
    packets: list[bytes]
    complete: bool


def pages(path: Path) -> list[Page]:
    """Read a file by the letter of RFC 3533 section 6."""
    blob, at, found = path.read_bytes(), 0, []
    while at < len(blob):
        magic, version, flags, granule, serial, sequence, checksum, count = struct.unpack_from(
            "<4sBBqIIIB", blob, at
        )
        assert (magic, version) == (b"OggS", 0)
        lacing = blob[at + 27 : at + 27 + count]
        end = at + 27 + count + sum(lacing)
        page = blob[at:end]
        packets, current, position = [], b"", at + 27 + count
        for size in lacing:
            current += blob[position : position + size]
            position += size
            if size < 255:
                packets.append(current)
                current = b""
        fits = page_checksum(page[:22] + bytes(4) + page[26:]) == checksum
        found.append(Page(flags, granule, serial, sequence, fits, packets, not current))
        at = end
    return found


def write(path: Path, payloads: list[bytes], **options: object) -> OggOpusWriter:
    writer = OggOpusWriter(path, channels=1, serial=7, title="a title")
    for payload in payloads:
        writer.write(payload)
    writer.close()
    return writer


def heard(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        left = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    return (np.concatenate(left) * 32767).astype(np.int16)


def test_checksum_of_a_page_that_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "theirs.ogg"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libopus", rate=48_000)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(SPEECH[None, :4800], "s16", "mono")
        frame.sample_rate = 48_000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    found = pages(path)
    assert len(found) >= 3
    assert all(page.checksum_fits for page in found)


def test_head_tags_and_pages(tmp_path: Path) -> None:
    payloads = encoded(SPEECH)
    writer = write(tmp_path / "a.ogg", payloads)
    found = pages(tmp_path / "a.ogg")
    assert all(page.checksum_fits and page.complete for page in found)
    assert [page.sequence for page in found] == list(range(len(found)))
    assert {page.serial for page in found} == {7}
    # RFC 7845 section 3: each header on a page of its own, the first marked, granule 0
    head, tags, *audio = found
    assert (head.flags, tags.flags, head.granule, tags.granule) == (2, 0, 0, 0)
    assert head.packets == [b"OpusHead" + struct.pack("<BBHIhB", 1, 1, PRE_SKIP, 48_000, 0, 0)]
    assert tags.packets[0].startswith(b"OpusTags\x08\0\0\0warp-rtc\x01\0\0\0")
    assert tags.packets[0].endswith(b"TITLE=a title")
    assert [packet for page in audio for packet in page.packets] == payloads
    assert [page.flags for page in audio] == [0] * (len(audio) - 1) + [4]
    total = 0
    for page in audio:
        total += sum(map(packet_samples, page.packets))
        assert page.granule == total
    assert writer.samples == total == 96_000


def test_ffmpeg_hears_the_speech(tmp_path: Path) -> None:
    write(tmp_path / "a.ogg", encoded(SPEECH))
    sound = heard(tmp_path / "a.ogg")
    assert len(sound) == 96_000 - PRE_SKIP
    assert likeness(SPEECH, sound).correlation > 0.9


def test_large_packets_are_laced(tmp_path: Path) -> None:
    payloads = [bytes((0xF8,)) + bytes(size) for size in (254, 253, 0, 509, 1274, 255)] * 20
    write(tmp_path / "a.ogg", payloads)
    found = pages(tmp_path / "a.ogg")
    assert [packet for page in found[2:] for packet in page.packets] == payloads
    assert all(page.checksum_fits for page in found)


def test_nothing_written_is_still_a_file(tmp_path: Path) -> None:
    write(tmp_path / "a.ogg", [])
    assert [page.flags for page in pages(tmp_path / "a.ogg")] == [2, 0, 4]


@given(st.integers(0, 255), st.integers(0, 500_000))
def test_concealment_lasts_as_long_as_its_mode_allows(toc: int, samples: int) -> None:
    packets = concealment(toc, samples)
    lasted = sum(map(packet_samples, packets))
    frame = packet_samples(bytes((toc & 0xFC,)))
    assert samples - frame < lasted <= samples
    for packet in packets:
        shape = parse_opus(packet)
        assert all(start == end for start, end in shape.frames)
        assert packet[0] & 0xFC == toc & 0xFC


def test_a_gap_is_concealed_and_keeps_the_time(tmp_path: Path) -> None:
    payloads = encoded(SPEECH)
    writer = OggOpusWriter(tmp_path / "a.ogg", channels=1, serial=1, title="")
    for number, payload in enumerate(payloads):
        if number == 50:
            assert writer.conceal(payload[0], 10 * 960) == 9600
        if not 50 <= number < 60:
            writer.write(payload)
    writer.close()
    assert (writer.packets, writer.samples) == (90, 96_000)
    sound = heard(tmp_path / "a.ogg")
    assert len(sound) == 96_000 - PRE_SKIP
    assert likeness(SPEECH[60_000:], sound[60_000:]).correlation > 0.9


def test_a_disk_that_is_full_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        OggOpusWriter(tmp_path / "no" / "a.ogg", channels=1, serial=1, title="")
