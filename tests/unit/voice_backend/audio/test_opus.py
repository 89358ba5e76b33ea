from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from voice_backend.audio import (
    EncoderConfig,
    OpusDecoder,
    OpusEncoder,
    OpusError,
    OpusMissing,
    opus,
)
from voice_backend.audio.resample import resampled
from voice_backend.frames import RATES
from warp.errors import InvalidConfig
from warp.rtp import has_fec, packet_samples
from warp_tools.audio import packaged_sound

SECOND = packaged_sound("speech")[:48_000]
FRAMES = [SECOND[i : i + 960] for i in range(0, 48_000, 960)]


def test_the_library_comes_from_a_wheel() -> None:
    assert "site-packages" in str(opus.find_library())
    assert opus.version().startswith("libopus")


@pytest.mark.slow
def test_the_wheel_that_brings_it_is_not_imported() -> None:
    code = "import sys, voice_backend.audio as a; a.OpusDecoder(16000); print('av' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_missing_codec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opus, "_package_folder", lambda name: None)
    with pytest.raises(OpusMissing, match=r"pip install 'warp-rtc\[voice\]'"):
        opus.find_library()


def test_a_codec_that_cannot_be_loaded_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "libopus.so"
    broken.write_text("no library")
    monkeypatch.setattr(opus, "find_library", lambda: broken)
    opus._library.cache_clear()
    try:
        with pytest.raises(OpusMissing, match=r"cannot load .*libopus.so.*pip install"):
            OpusDecoder(16_000)
    finally:
        opus._library.cache_clear()


def test_the_bundled_library_is_the_second_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "_native").mkdir()
    (tmp_path / "_native" / "libopus.so").touch()
    folders = {"av": tmp_path / "nothing" / "av", "opuslib_next": tmp_path}
    monkeypatch.setattr(opus, "_package_folder", folders.get)
    assert opus.find_library() == tmp_path / "_native" / "libopus.so"


def test_speech_survives() -> None:
    encoder, decoder = OpusEncoder(), OpusDecoder()
    payloads = [encoder.encode(frame) for frame in FRAMES]
    out = np.concatenate([decoder.decode(payload) for payload in payloads])
    assert len(out) == len(SECOND)
    assert 0 < encoder.lookahead_samples <= 960
    assert 40 < np.mean([len(p) for p in payloads]) < 120
    # RFC 6716 section 3.1: one frame a packet, mono
    assert {payload[0] & 7 for payload in payloads} == {0}


@pytest.mark.parametrize("rate", RATES)
def test_both_ends_have_any_of_its_rates(rate: int) -> None:
    speech = resampled(SECOND, 48_000, rate)
    encoder, decoder = OpusEncoder(rate), OpusDecoder(rate)
    n = encoder.frame_samples
    assert n == rate // 50
    out = np.concatenate(
        [decoder.decode(encoder.encode(speech[at : at + n])) for at in range(0, rate, n)]
    )
    assert len(out) == rate
    shift = encoder.lookahead_samples
    alike = np.corrcoef(speech[: len(out) - shift], out[shift:])[0, 1]
    assert alike > 0.7
    assert decoder.conceal(n).shape == (n,)
    assert decoder.recover(encoder.encode(speech[:n]), n).shape == (n,)


@pytest.mark.parametrize("frame_ms", opus.FRAME_MS)
def test_packets_of_other_lengths(frame_ms: int) -> None:
    encoder, decoder = OpusEncoder(16_000, frame_ms=frame_ms), OpusDecoder(24_000)
    payload = encoder.encode(np.zeros(16 * frame_ms, np.int16))
    assert packet_samples(payload) == 48 * frame_ms
    assert decoder.decode(payload).shape == (24 * frame_ms,)


def test_stereo_is_mixed_down() -> None:
    # the stereo bit of the TOC (RFC 6716 section 3.1)
    payload = OpusEncoder().encode(FRAMES[20])
    assert OpusDecoder(16_000).decode(bytes([payload[0] | 4]) + payload[1:]).shape == (320,)


def test_a_lost_frame_is_concealed_at_its_length() -> None:
    encoder, decoder = OpusEncoder(), OpusDecoder()
    decoder.decode(encoder.encode(FRAMES[20]))
    concealed = decoder.conceal(960)
    assert concealed.shape == (960,)
    assert np.abs(concealed).max() > 100
    assert decoder.conceal(1920).shape == (1920,)
    assert decoder.recover(b"", 960).shape == (960,)
    for samples in (0, -1, 48_000, 7):
        with pytest.raises(OpusError):
            decoder.conceal(samples)


def test_fec_restores_better_than_concealment_does() -> None:
    config = EncoderConfig(bitrate_bit_s=24_000, expected_loss_percent=30)
    encoder, whole = OpusEncoder(config=config), OpusDecoder()
    payloads = [encoder.encode(frame) for frame in FRAMES]
    plain, fec = OpusDecoder(), OpusDecoder()
    errors = {"plain": 0.0, "fec": 0.0}
    for at, payload in enumerate(payloads):
        truth = whole.decode(payload).astype(np.float64)
        if at % 8 == 5 and at + 1 < len(payloads):
            lost = {"plain": plain.conceal(960), "fec": fec.recover(payloads[at + 1], 960)}
            for name, frame in lost.items():
                assert frame.shape == (960,)
                errors[name] += float(np.sum((frame - truth) ** 2))
        else:
            plain.decode(payload)
            fec.decode(payload)
    assert errors["fec"] < errors["plain"] * 0.7


def test_part_of_a_lost_frame_is_the_end_of_it() -> None:
    """Some of it has been concealed already: the rest comes out of the redundancy as well."""
    encoder = OpusEncoder(config=EncoderConfig(bitrate_bit_s=24_000, expected_loss_percent=30))
    payloads = [encoder.encode(frame) for frame in FRAMES]
    at = next(i for i in range(20, 40) if has_fec(payloads[i + 1]))
    whole, part = OpusDecoder(16_000), OpusDecoder(16_000)
    for decoder in (whole, part):
        for payload in payloads[:at]:
            decoder.decode(payload)
    wanted = whole.recover(payloads[at + 1], 320)
    assert np.array_equal(part.recover(payloads[at + 1], 120), wanted[-120:])


def test_what_the_peer_loses_decides_about_redundancy() -> None:
    encoder = OpusEncoder(16_000, EncoderConfig(expected_loss_percent=0, bitrate_bit_s=24_000))
    speech = resampled(SECOND, 48_000, 16_000)
    frames = [speech[at : at + 320] for at in range(0, 16_000, 320)]
    before = sum(has_fec(encoder.encode(frame)) for frame in frames)
    encoder.set_expected_loss(20)
    after = sum(has_fec(encoder.encode(frame)) for frame in frames)
    assert before == 0 and after > 20


def test_the_bit_rate_may_change() -> None:
    encoder = OpusEncoder(48_000, EncoderConfig(fec=False))
    high = sum(len(encoder.encode(frame)) for frame in FRAMES)
    encoder.set_bitrate(12_000)
    low = sum(len(encoder.encode(frame)) for frame in FRAMES)
    assert low < high / 2
    with pytest.raises(OpusError, match="invalid argument"):
        encoder.set_bitrate(-7)


def test_dtx_makes_silence_cheap() -> None:
    encoder = OpusEncoder(config=EncoderConfig(dtx=True))
    silence = np.zeros(960, np.int16)
    sizes = [len(encoder.encode(silence)) for _ in range(50)]
    assert min(sizes) <= 2


def test_perfect_silence_costs_no_more_than_speech() -> None:
    encoder, given = OpusEncoder(), list[bytes]()
    encode = encoder._encode

    def noted(state: int, sound: int, *rest: int) -> int:
        given.append(ctypes.string_at(sound, 2 * encoder.frame_samples))
        return int(encode(state, sound, *rest))

    encoder._encode = noted
    decoder = OpusDecoder()
    heard = [decoder.decode(encoder.encode(np.zeros(960, np.int16))) for _ in range(20)]
    # libopus never sees the zeros in which its filters decay to denormal numbers
    assert {sound.count(b"\x01") for sound in given} == {1}
    # and nobody hears what it sees in their place
    assert max(int(np.abs(sound).max()) for sound in heard) < 4
    encoder.encode(FRAMES[0])
    assert given[-1] == FRAMES[0].tobytes()


def test_long_payloads_are_decoded_whole() -> None:
    # RFC 6716 section 3.2.5: code 3, six frames of 20 ms, constant rate
    encoder, decoder = OpusEncoder(), OpusDecoder()
    toc = encoder.encode(FRAMES[0])[0] & 0xFC
    assert decoder.decode(bytes([toc | 3, 6]) + bytes(6 * 20)).shape == (5760,)


def test_a_reset_forgets() -> None:
    encoder, decoder = OpusEncoder(), OpusDecoder()
    for frame in FRAMES[15:20]:
        decoder.decode(encoder.encode(frame))
    decoder.reset()
    assert np.abs(decoder.conceal(960)).max() == 0


def test_rubbish_raises_one_kind_of_error() -> None:
    with pytest.raises(OpusError, match="corrupted"):
        OpusDecoder().decode(b"\xff\xff\xff")
    with pytest.raises(OpusError, match="empty"):
        OpusDecoder().decode(b"")
    for wrong in (np.zeros(480, np.int16), np.zeros(960, np.float32)):
        with pytest.raises(OpusError, match="960 int16"):
            OpusEncoder().encode(wrong)
    with pytest.raises(OpusError, match="invalid argument"):
        OpusEncoder(config=EncoderConfig(complexity=99))
    with pytest.raises(InvalidConfig, match="not 44100: resample"):
        OpusDecoder(44_100)
    with pytest.raises(InvalidConfig, match="not 30"):
        OpusEncoder(frame_ms=30)
