from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warp_tools import opus
from warp_tools.audio import packaged_sound
from warp_tools.failure import ToolFailure
from warp_tools.opus import Decoder, Encoder, EncoderConfig, OpusError

SECOND = packaged_sound("speech")[:48_000]
FRAMES = [SECOND[i : i + 960] for i in range(0, 48_000, 960)]


def test_the_library_comes_from_a_wheel() -> None:
    assert "site-packages" in str(opus.find_library())
    assert opus.version().startswith("libopus")


def test_a_missing_codec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opus, "_package_folder", lambda name: None)
    with pytest.raises(ToolFailure, match=r"pip install 'warp-rtc\[tools\]'"):
        opus.find_library()


def test_the_bundled_library_is_the_second_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "_native").mkdir()
    (tmp_path / "_native" / "libopus.so").touch()
    folders = {"av": tmp_path / "nothing" / "av", "opuslib_next": tmp_path}
    monkeypatch.setattr(opus, "_package_folder", folders.get)
    assert opus.find_library() == tmp_path / "_native" / "libopus.so"


def test_speech_survives() -> None:
    encoder, decoder = Encoder(), Decoder()
    payloads = [encoder.encode(frame) for frame in FRAMES]
    out = np.concatenate([decoder.decode(payload) for payload in payloads])
    assert len(out) == len(SECOND)
    assert 0 < encoder.lookahead_samples <= 960
    assert 40 < np.mean([len(p) for p in payloads]) < 120
    # RFC 6716 section 3.1: one frame a packet, mono
    assert {payload[0] & 7 for payload in payloads} == {0}


def test_a_lost_frame_is_concealed_at_its_length() -> None:
    encoder, decoder = Encoder(), Decoder()
    decoder.decode(encoder.encode(FRAMES[20]))
    concealed = decoder.decode(None)
    assert concealed.shape == (960,)
    assert np.abs(concealed).max() > 100
    assert decoder.decode(b"").shape == (960,)
    assert decoder.decode(None, samples=1920).shape == (1920,)


def test_fec_restores_better_than_concealment_does() -> None:
    config = EncoderConfig(bitrate_bit_s=24_000, expected_loss_percent=30)
    encoder, whole = Encoder(config), Decoder()
    payloads = [encoder.encode(frame) for frame in FRAMES]
    plain, fec = Decoder(), Decoder()
    errors = {"plain": 0.0, "fec": 0.0}
    for at, payload in enumerate(payloads):
        truth = whole.decode(payload).astype(np.float64)
        if at % 8 == 5 and at + 1 < len(payloads):
            lost = {"plain": plain.decode(None), "fec": fec.decode(payloads[at + 1], fec=True)}
            for name, frame in lost.items():
                assert frame.shape == (960,)
                errors[name] += float(np.sum((frame - truth) ** 2))
        else:
            plain.decode(payload)
            fec.decode(payload)
    assert errors["fec"] < errors["plain"] * 0.7


def test_dtx_makes_silence_cheap() -> None:
    encoder = Encoder(EncoderConfig(dtx=True))
    silence = np.zeros(960, np.int16)
    sizes = [len(encoder.encode(silence)) for _ in range(50)]
    assert min(sizes) <= 2


def test_long_payloads_are_decoded_whole() -> None:
    # RFC 6716 section 3.2.5: code 3, six frames of 20 ms, constant rate
    encoder, decoder = Encoder(), Decoder()
    toc = encoder.encode(FRAMES[0])[0] & 0xFC
    assert decoder.decode(bytes([toc | 3, 6]) + bytes(6 * 20)).shape == (5760,)


def test_rubbish_raises_one_kind_of_error() -> None:
    with pytest.raises(OpusError, match="corrupted"):
        Decoder().decode(b"\xff\xff\xff")
    with pytest.raises(OpusError, match="960 int16"):
        Encoder().encode(np.zeros(480, np.int16))
    with pytest.raises(OpusError, match="invalid argument"):
        Encoder(EncoderConfig(complexity=99))
