"""Real speech as Opus, over paths that lose, delay, reorder, stand still: a frame each 20 ms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.rtp.test_against_chromium import packets
from tests.unit.voice_backend.audio.support import (
    RATE,
    Arrival,
    decoded,
    hear,
    likenesses,
    path,
    payloads,
    speech,
)
from voice_backend.audio import (
    AudioReceiver,
    EncoderConfig,
    OpusDecoder,
    OpusEncoder,
    OpusError,
)
from voice_backend.audio.opus import _check, _library
from voice_backend.audio.resample import resampled
from voice_backend.frames import Frame
from warp.errors import InvalidConfig
from warp.rtp import AudioFrame, JitterConfig, Placing, parse_rtp


def rms(pcm: Frame) -> float:
    return float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2)))


def test_a_calm_path_changes_nothing() -> None:
    sent = payloads()
    heard = hear(path(sent), seconds=len(sent) * 0.02)
    assert likenesses(decoded(sent), heard.pcm).min() > 0.97
    counts = heard.receiver.counts
    assert (counts.frames, counts.concealed, counts.recovered) == (len(heard.frames), 0, 0)
    # 20 ms wanted, and no more than 10 ms from it
    assert max(heard.delays_ms[100:]) <= 31
    assert heard.receiver.target_ms == pytest.approx(20, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "jitter", "wanted", "worst", "delay_ms"),
    [
        (0.01, 0.01, 0.98, 0.9, 48),
        (0.05, 0.02, 0.93, 0.8, 70),
        (0.10, 0.02, 0.90, 0.7, 75),
        (0.0, 0.06, 0.98, 0.95, 85),
        (0.01, 0.12, 0.95, 0.85, 145),
    ],
)
def test_speech_through_loss_and_jitter(
    loss: float, jitter: float, wanted: float, worst: float, delay_ms: float
) -> None:
    sent = payloads(loss=20 if loss else 0)
    heard = hear(path(sent, loss=loss, jitter=jitter, seed=5))
    alike = likenesses(decoded(sent), heard.pcm)
    assert alike.mean() > wanted
    assert np.quantile(alike, 0.2) > worst
    assert max(heard.delays_ms[20:-10]) < delay_ms
    if loss >= 0.05:
        assert heard.receiver.counts.recovered > 5


@pytest.mark.parametrize("end", ["a", "b"])
def test_when_and_how_chromium_sends(end: str) -> None:
    """Numbers and times are those of its packets; what they carried is not known any more."""
    sent = payloads()
    captured = packets(end)
    start = captured[0][0]
    arrivals = []
    for payload, (when, raw) in zip(sent[30:], captured, strict=False):
        packet = parse_rtp(raw)
        arrivals.append((when - start, payload, packet.sequence, packet.timestamp))
    heard = hear(arrivals, seconds=arrivals[-1][0] + 0.01)
    counts = heard.receiver.packets
    assert (counts.lost, counts.late, counts.refused, counts.leapt) == (0, 0, 0, 0)
    assert heard.receiver.counts.concealed == 0
    assert heard.delays_ms[-1] < 60
    wanted = decoded(sent[30 : 30 + len(arrivals) - 3])
    assert likenesses(wanted, heard.pcm).min() > 0.97


@pytest.mark.slow
def test_redundancy_is_better_than_guessing() -> None:
    """The same packets are lost; only one encoder was told that some will be."""
    plain, told = (
        likenesses(decoded(payloads(loss=p)), hear(path(payloads(loss=p), loss=0.08, seed=9)).pcm)
        for p in (0, 25)
    )
    assert told.mean() > plain.mean() + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("ms", [10, 40, 60])
def test_packets_of_other_lengths(ms: int) -> None:
    sent = payloads(ms=ms, loss=20)
    heard = hear(path(sent, ms=ms, loss=0.02, jitter=0.01, seed=3))
    assert likenesses(decoded(sent), heard.pcm).mean() > 0.95
    assert max(heard.delays_ms[20:-15]) < 60 + 2 * ms


@pytest.mark.slow
def test_stereo_comes_out_as_one_channel() -> None:
    """A peer may send stereo whatever was agreed on (RFC 7587 section 7.1)."""
    library, state = _library(), None
    state = library.opus_encoder_create(48_000, 2, 2049, None)
    buffer = np.empty(1275, np.uint8)
    pcm = speech(48_000)
    both = np.ascontiguousarray(np.stack([pcm, pcm // 2], axis=1))
    sent = []
    for at in range(0, len(pcm) - 960, 960):
        block = both[at : at + 960]
        size = library.opus_encode(state, block.ctypes.data, 960, buffer.ctypes.data, 1275)
        sent.append(buffer[: _check(size)].tobytes())
    library.opus_encoder_destroy(state)
    heard = hear(path(tuple(sent), jitter=0.01))
    assert all(payload[0] & 4 for payload in sent[10:20])
    # what went in, mixed: the codec changes the waveform little at its own rate
    assert likenesses(speech(), heard.pcm).mean() > 0.85
    assert rms(heard.pcm) == pytest.approx(0.75 * rms(speech()), rel=0.1)


def test_reordered_and_doubled_packets_are_heard_once() -> None:
    sent = payloads()
    arrivals = [
        (t + (0.018 if i % 7 == 0 else 0.0), *rest) for i, (t, *rest) in enumerate(path(sent))
    ]
    doubled = sorted([*arrivals, *[(t + 0.003, *rest) for t, *rest in arrivals[::3]]])
    heard = hear(doubled)
    assert likenesses(decoded(sent), heard.pcm).min() > 0.95
    assert heard.receiver.packets.duplicates == len(arrivals[::3])


def gap(arrivals: list[Arrival], begin: float, end: float, *, lost: bool) -> list[Arrival]:
    """Nothing comes between two times; then everything at once, unless it is lost."""
    if lost:
        return [a for a in arrivals if not begin <= a[0] < end]
    return sorted((end if begin <= t < end else t, *rest) for t, *rest in arrivals)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "late"])
def test_a_second_without_packets(lost: bool) -> None:
    sent = payloads(repeat=2)
    heard = hear(gap(path(sent), 2.0, 3.0, lost=lost))
    frames = heard.frames
    # three frames of what the voice might have done, then its background: no hum, no dead line
    silent = np.concatenate([f.pcm for f in frames[110:145]])
    assert rms(silent) < 0.1 * rms(speech())
    assert sum(f.concealed for f in frames[100:152]) <= 16
    assert all(f.comfort for f in frames[120:140])
    # what is too old is not played, and what is left is caught up with
    assert max(heard.delays_ms) <= 325
    assert max(heard.delays_ms[330:-10]) < 80
    rest = decoded(sent)[int(3.4 * RATE) :]
    assert np.median(likenesses(rest, heard.pcm[int(3.4 * RATE) :])) > 0.97


def test_a_pause_of_the_senders_is_comfort() -> None:
    """DTX (RFC 6716 section 2.1.9), with a background that the decoder goes on with."""
    background = np.random.default_rng(4).normal(0, 25, 3 * RATE)
    voice = np.concatenate([speech()[: 2 * RATE], np.zeros(3 * RATE), speech()[: 2 * RATE]])
    voice[2 * RATE : 5 * RATE] += background
    pcm = np.clip(voice, -32768, 32767).astype(np.int16)
    encoder = OpusEncoder(RATE, EncoderConfig(dtx=True))
    sent = [encoder.encode(pcm[at : at + 320]) for at in range(0, len(pcm), 320)]
    arrivals = [
        (0.02 * i, payload, number, 960 * i)
        for number, (i, payload) in enumerate(
            (i, p) for i, p in enumerate(sent) if len(p) > 2 or len(sent[i - 1]) > 2
        )
    ]
    assert len(arrivals) < len(sent) - 100
    heard = hear(arrivals, seconds=arrivals[-1][0])
    counts = heard.receiver.packets
    assert (counts.lost, counts.late, counts.concealed_ms) == (0, 0, 0)
    pause = heard.frames[170:240]
    assert sum(f.comfort for f in pause) > 50
    assert not any(f.concealed for f in heard.frames)
    assert 5 < rms(np.concatenate([f.pcm for f in pause])) < 60
    again = likenesses(decoded(tuple(sent))[5 * RATE :], heard.pcm[5 * RATE :])
    assert np.median(again) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("ppm", [-200, 200])
def test_clocks_that_differ_for_a_minute(ppm: int) -> None:
    sent = payloads(repeat=12)[:3000]
    heard = hear(path(sent, speed=1 + ppm / 1e6, jitter=0.004), seconds=59.9)
    counts = heard.receiver.counts
    assert counts.concealed == 0
    # 12 ms in a minute, in a handful of seams
    changed = counts.shortened_ms - counts.lengthened_ms
    assert 0 < counts.stretched < 20
    assert abs(changed - (12 if ppm > 0 else -12) - 20) < 25
    assert 15 < min(heard.delays_ms[150:]) <= max(heard.delays_ms[150:]) < 40
    assert heard.receiver.drift_ppm == pytest.approx(ppm, abs=40)
    assert np.quantile(likenesses(decoded(sent), heard.pcm), 0.05) > 0.95


@pytest.mark.slow
def test_the_delay_follows_the_jitter_and_comes_back() -> None:
    sent = payloads(repeat=4)
    calm, storm = path(sent), path(sent, jitter=0.08)
    arrivals = sorted([*calm[:200], *storm[200:500], *calm[500:]])
    heard = hear(arrivals, seconds=arrivals[-1][0])
    assert np.mean(heard.delays_ms[350:480]) > 70
    assert max(heard.delays_ms) < 125
    assert max(heard.delays_ms[850:]) <= 32
    longest = max(abs(f.stretched_ms) for f in heard.frames)
    assert 0 < longest <= 12.6
    # over any second no faster and no slower than a quarter
    changes = np.cumsum([f.stretched_ms for f in heard.frames])
    assert np.abs(changes[50:] - changes[:-50]).max() <= 260
    assert np.median(likenesses(decoded(sent), heard.pcm)) > 0.98


@pytest.mark.parametrize("level", [0, 32767])
def test_silence_and_clipping_go_through(level: int) -> None:
    square = np.where(np.arange(RATE) // 40 % 2, level, -level).astype(np.int16)
    encoder = OpusEncoder(RATE)
    sent = tuple(encoder.encode(square[at : at + 320]) for at in range(0, RATE, 320))
    heard = hear(path(sent, loss=0.1, jitter=0.03))
    loud = rms(heard.pcm[RATE // 4 : RATE * 3 // 4])
    assert loud < 5 if level == 0 else loud > 8000


@pytest.mark.parametrize("rate", [8_000, 22_050, 24_000, 44_100, 48_000])
def test_any_rate_of_a_models(rate: int) -> None:
    sent = payloads()
    heard = hear(path(sent, jitter=0.01), rate=rate)
    assert len(heard.frames[0].pcm) == rate // 50
    wanted = resampled(decoded(sent), RATE, 8_000)
    alike = likenesses(wanted, resampled(heard.pcm, rate, 8_000), rate=8_000)
    assert alike[2:-2].mean() > 0.9


def test_before_anybody_speaks_it_is_silent() -> None:
    receiver = AudioReceiver(RATE)
    frames = [receiver.frame(0.02 * i) for i in range(100)]
    assert all(f.comfort and not f.concealed and not f.pcm.any() for f in frames)
    assert receiver.counts.comfort == 100


def test_frames_of_a_session() -> None:
    """What `session.audio_in` yields: extended numbers, gaps, and breaks."""
    receiver = AudioReceiver(RATE)
    sent = payloads()
    for i, payload in enumerate(sent[:100]):
        if i == 50:
            receiver.receive_frame(AudioFrame(None, 960 * i, 70_000 + i, False, 111, None, 0.0, 1))
        else:
            receiver.receive_frame(
                AudioFrame(payload, 960 * i, 70_000 + i, False, 111, None, 0.02 * i)
            )
        receiver.frame(0.02 * i + 0.004)
    assert receiver.packets.lost == 1 and receiver.packets.restarts == 0
    receiver.receive_frame(AudioFrame(None, 0, 70_100, False, 111, None, 2.0))
    assert receiver.packets.restarts == 1
    receiver.receive_frame(AudioFrame(sent[100], 1 << 33, 135_000, False, 111, None, 2.0))
    assert receiver.packets.leapt == 0 and receiver.packets.played + 1 >= 97


def test_what_is_not_opus_is_concealed_and_counted() -> None:
    receiver = AudioReceiver(RATE)
    assert receiver.receive(b"", 1, 0, 0.0) is Placing.REFUSED
    assert receiver.receive(None, 1, 0, 0.0) is None
    # a length of its own, and a first frame that is longer than the packet
    broken = bytes((9 << 3 | 2, 251, 0))
    with pytest.raises(OpusError):
        OpusDecoder(RATE).decode(broken)
    for i in range(20):
        receiver.receive(broken if i > 5 else payloads()[40 + i], i, 960 * i, 0.02 * i)
        assert receiver.frame(0.02 * i + 0.001).pcm.shape == (320,)
    assert receiver.refused > 10


def test_a_flood_does_not_pile_up() -> None:
    receiver = AudioReceiver(RATE, config=JitterConfig(capacity=32))
    for i in range(5000):
        receiver.receive(payloads()[i % 200], i & 0xFFFF, 960 * i, 0.001 * i)
    assert receiver.packets.overflowed == 5000 - 32
    for i in range(100):
        receiver.frame(5 + 0.02 * i)
        assert len(receiver._held) < RATE // 10


def test_settings() -> None:
    for rate, frame_ms in ((0, 20), (500_000, 20), (16_000, 0)):
        with pytest.raises(InvalidConfig):
            AudioReceiver(rate, frame_ms)
