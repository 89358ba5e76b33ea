"""Frames of any shape into payloads of 20 ms, and payloads into stereo frames in their place."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.unit.compat.sound import samples_of, share_of, tone_frame
from warp.compat.aiortc.codec import OpusDecoder, OpusEncoder, load_av, silence
from warp.errors import UsageError
from warp.rtp import AudioFrame


def heard(payload: bytes | None, timestamp: int, lost: int = 0) -> AudioFrame:
    return AudioFrame(payload, timestamp, timestamp // 960, False, 111, None, 0.0, lost)


@pytest.mark.parametrize(
    ("rate", "samples", "layout"),
    [
        (48_000, 960, "mono"),
        (8_000, 160, "mono"),
        (44_100, 1024, "stereo"),
        (48_000, 480, "stereo"),
    ],
)
def test_a_tone_of_any_shape_comes_out_as_stereo(rate: int, samples: int, layout: str) -> None:
    encoder, decoder = OpusEncoder(), OpusDecoder()
    frames, at = [], 0
    for index in range(rate // 2 // samples):
        frame = tone_frame(440, index * samples, rate=rate, samples=samples, layout=layout)
        for payload in encoder.encode(frame):
            frames += decoder.decode(heard(payload, 5000 + at))
            at += 960
    assert {(f.samples, f.sample_rate, f.layout.name, f.format.name) for f in frames} == {
        (960, 48_000, "stereo", "s16")
    }
    assert [frame.pts for frame in frames] == list(range(0, 960 * len(frames), 960))
    assert len(frames) >= 22
    assert share_of(440, samples_of(frames[2:])) > 0.95


def test_a_track_may_change_its_shape() -> None:
    encoder = OpusEncoder()
    count = sum(len(encoder.encode(tone_frame(440, 960 * i))) for i in range(10))
    count += sum(
        len(encoder.encode(tone_frame(440, 160 * i, rate=8_000, samples=160, layout="stereo")))
        for i in range(10)
    )
    assert count >= 17


def test_what_was_lost_comes_back_as_silence_up_to_100_ms() -> None:
    payload = OpusEncoder().encode(tone_frame(440, 0))[0]
    decoder = OpusDecoder()
    assert [f.pts for f in decoder.decode(heard(payload, 0))] == [0]
    assert decoder.decode(heard(None, 960, lost=2)) == []
    filled = decoder.decode(heard(payload, 2880))
    assert [frame.pts for frame in filled] == [960, 1920, 2880]
    assert not samples_of(filled[:2]).any()
    # a pause of the peer's is no loss, and a long one is not filled
    assert [f.pts for f in decoder.decode(heard(payload, 9600))] == [9600]
    decoder.decode(heard(None, 10560, lost=100))
    assert [f.pts for f in decoder.decode(heard(payload, 960_000))] == [960_000]


@pytest.mark.parametrize("payload", [b"\xff\x00\x13", b"\x03"])
def test_what_is_no_opus_is_silence(payload: bytes) -> None:
    decoder = OpusDecoder()
    [frame] = decoder.decode(heard(payload, 0))
    assert not samples_of([frame]).any()
    assert decoder.refused == 1


def test_silence_is_silent() -> None:
    frame = silence(160, layout="mono", rate=8_000)
    assert (frame.samples, frame.sample_rate) == (160, 8_000)
    assert not samples_of([frame]).any()


def test_without_pyav_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UsageError, match=r"pip install 'warp-rtc\[compat\]'"):
        load_av()


@pytest.mark.slow
def test_nothing_is_imported_that_an_extra_brings() -> None:
    program = (
        "import sys; sys.modules['av'] = sys.modules['pyee'] = None; import warp.compat.aiortc"
    )
    program += ".contrib.media; sys.exit(any(name.startswith('numpy') for name in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=False).returncode == 0
    )
