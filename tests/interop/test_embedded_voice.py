"""The embedded voice with its real weights: what it hears, what it says, and when."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import wave
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from tests.interop.models import require_models
from voice_backend.model import (
    Cancelled,
    InText,
    ModelEvent,
    OutText,
    SessionConfig,
    SpeakingOff,
    SpeakingOn,
    StepIn,
)
from voice_backend.models.duplex_cpu import DuplexCpu, Networks
from voice_backend.models.jobs import InlineRunner, finish
from voice_backend.models.mouth import Utterance, first_sound
from voice_backend.models.store import default_root

pytestmark = [pytest.mark.interop, pytest.mark.slow]
NOW = datetime(2026, 11, 30, 16, 7)
HUMAN = "Unless to be rather cold-hearted, and rather selfish, is to be ill-disposed"
UNBROKEN = (
    "My sister and I would like to know that before the summer comes",
    "because we are going to travel through the country by train",
    "and somebody told us that the tickets are sold out very early",
    "so we have to look at all of our money before we order them",
    "and then we will call our friends who live by the sea",
    "and they will show us where the best places are for children",
)
PHRASES = (
    "What time is it?",
    "Please count from one to ten.",
    "The weather in Paris is sunny today.",
    "My name is Alexander, and I live in Berlin.",
    "How many people live in New York City?",
    "Okay, I found three flights for you.",
)


@pytest.fixture(scope="module")
def networks() -> Networks:
    return Networks.load(require_models(), 4)


def said(networks: Networks, text: str) -> Utterance:
    made = finish(networks.mouth.say(text))
    assert isinstance(made, Utterance)
    return made


def at_16k(utterance: Utterance) -> NDArray[np.int16]:
    return np.asarray(soxr.resample(utterance.pcm, 24_000, 16_000), np.int16)


def with_silence(sound: NDArray[np.int16], milliseconds: int = 200) -> NDArray[np.float32]:
    """As it would be heard: with a little silence at both ends."""
    return np.pad(sound.astype(np.float32) / 32768, 16 * milliseconds)


def human() -> NDArray[np.int16]:
    path = Path(__file__).parents[2] / "tools" / "data" / "speech.wav"
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(10**6), np.int16)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower().replace("-", " "))


def errors(meant: list[str], heard: list[str]) -> int:
    """Words to insert, delete or replace."""
    row = list(range(len(heard) + 1))
    for at, word in enumerate(meant, 1):
        before, row[0] = row[0], at
        for other, found in enumerate(heard, 1):
            cost = min(row[other] + 1, row[other - 1] + 1, before + (word != found))
            before, row[other] = row[other], cost
    return row[-1]


def test_the_ears_err_in_no_more_than_one_word_of_twenty(networks: Networks) -> None:
    wrong = total = 0
    told = []
    for phrase in PHRASES:
        heard = finish(networks.ears.hear(with_silence(at_16k(said(networks, phrase)))))
        for digits, word in ((r"\b10\b", "ten"), (r"\b1\b", "one"), (r"\bOk\b", "okay")):
            heard = re.sub(digits, word, heard)
        told.append(heard)
        wrong += errors(words(phrase), words(heard))
        total += len(words(phrase))
    heard = finish(networks.ears.hear(with_silence(human())))
    told.append(heard)
    wrong += errors(words(HUMAN), words(heard))
    total += len(words(HUMAN))
    assert wrong / total <= 0.05, told


def test_the_ears_hear_long_speech_at_one_go(networks: Networks) -> None:
    heard = finish(networks.ears.hear(np.tile(human().astype(np.float32) / 32768, 3)))
    assert errors(words(HUMAN) * 3, words(heard)) <= 1, heard


@pytest.mark.parametrize("parts", [3, 6])
def test_speech_without_a_pause_is_answered(networks: Networks, parts: int) -> None:
    """About 11 and 20 seconds, and what is asked is at the beginning of it."""
    spoken = ("What is seven times eight?", *UNBROKEN[:parts])
    sounds = [at_16k(said(networks, text)) for text in spoken]
    loud = [np.flatnonzero(np.abs(sound.astype(np.int32)) > 600) for sound in sounds]
    unbroken = np.concatenate(
        [sound[at[0] : at[-1]] for sound, at in zip(sounds, loud, strict=True)]
    )
    assert len(unbroken) > 16_000 * (9.3 if parts == 3 else 17)
    call = Call(networks)
    call.feed(unbroken)
    call.wait_for(SpeakingOff)
    heard = " ".join(e.delta for e in call.of(InText) if e.final)
    meant = [word for text in spoken for word in words(text)]
    assert errors(meant, words(heard)) <= len(meant) // 10, heard
    assert "fifty-six" in "".join(event.delta for event in call.of(OutText)), heard


def test_its_networks_leave_no_record_of_their_use(tmp_path: Path) -> None:
    require_models()
    code = (
        "from voice_backend.models.ears import Ears\n"
        "from voice_backend.models.store import Store\n"
        "Ears.load(Store())\n"
    )
    # the store is where it always is: only the library's files would be here
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "WARP_MODELS": str(default_root())}
    environ.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", code], env=environ, check=True, timeout=60)
    assert list(tmp_path.rglob("*")) == []


def test_the_detector_knows_speech_from_noise(networks: Networks) -> None:
    rng = np.random.default_rng(3)
    sounds = np.stack(
        [
            human()[: 320 * 200].astype(np.float32) / 32768,
            rng.standard_normal(320 * 200).astype(np.float32) * 0.003,
            np.zeros(320 * 200, np.float32),
        ]
    )
    for index in range(3):
        networks.vad.reset(index)
    likely: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for frame in range(200):
        part = sounds[:, frame * 320 : frame * 320 + 320]
        for found in networks.vad.receive_frames([0, 1, 2], part):
            likely[found.index].append(found.value)
    assert np.mean(np.array(likely[0]) > 0.5) > 0.75
    assert max(likely[1] + likely[2]) < 0.5


def test_the_turn_model_knows_an_end(networks: Networks) -> None:
    whole = with_silence(at_16k(said(networks, "Okay, I found three flights for you.")))
    cut = np.pad(whole[: int(len(whole) * 0.5)], (0, 3200))
    assert finish(networks.turns.judge(whole)) > 0.9
    assert finish(networks.turns.judge(cut)) < 0.4
    assert finish(networks.turns.judge(with_silence(human()))) > 0.5


def test_the_mouth_begins_at_once_and_knows_when_its_words_sound(networks: Networks) -> None:
    made = said(networks, "Okay, I found three flights for you.")
    begin = first_sound(made.pcm.astype(np.float32) / 32768)
    assert begin is not None
    assert begin <= 0.06 * 24_000
    assert " ".join(word.text for word in made.words) == made.text
    assert all(a.end_ms <= b.start_ms for a, b in zip(made.words, made.words[1:], strict=False))
    assert made.words[-1].end_ms <= len(made.pcm) // 24
    # each word by itself is loud, and is heard as itself where it is long enough
    for word in made.words:
        part = made.pcm[word.start_ms * 24 : word.end_ms * 24].astype(np.float32)
        assert np.sqrt(np.mean(part**2)) > 300, word
    found, flights = made.words[2], made.words[4]
    part = made.pcm[(found.start_ms - 30) * 24 : (flights.end_ms + 30) * 24]
    heard = finish(networks.ears.hear(with_silence(np.asarray(soxr.resample(part, 24, 16)))))
    assert words(heard) == ["found", "three", "flights"]
    assert (said(networks, "Okay, I found three flights for you.").pcm == made.pcm).all()


@pytest.mark.parametrize("text", ["", "...", "你好", "\N{ROCKET}" * 50, "x" * 300])
def test_the_mouth_takes_any_text(networks: Networks, text: str) -> None:
    made = said(networks, text)
    assert made.pcm.dtype == np.int16
    assert len(made.pcm) < 60 * 24_000


class Call:
    """A call whose model answers as fast as its media time."""

    def __init__(self, networks: Networks) -> None:
        self.model = DuplexCpu(InlineRunner(), clock=lambda: NOW, max_slots=4, networks=networks)
        self.slot = self.model.open(SessionConfig())
        self.seq = 0
        self.sound: list[NDArray[np.int16]] = []
        self.events: list[ModelEvent] = []

    def feed(self, pcm: NDArray[np.int16]) -> None:
        for frame in np.pad(pcm, (0, -len(pcm) % 320)).reshape(-1, 320):
            (out,) = self.model.step([StepIn(self.slot, self.seq, frame)])
            assert out.error is None and out.pcm is not None
            self.events += out.events
            self.sound.append(out.pcm)
            self.seq += 1

    def wait_for(self, kind: type[ModelEvent], most_ms: int = 6000) -> None:
        before = len(self.of(kind))
        for _ in range(most_ms // 20):
            self.feed(np.zeros(320, np.int16))
            if len(self.of(kind)) > before:
                return
        raise AssertionError(f"no {kind.__name__}")

    def of(self, kind: type[ModelEvent]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def test_a_spoken_question_gets_a_spoken_answer(networks: Networks) -> None:
    call = Call(networks)
    call.feed(np.zeros(8000, np.int16))
    call.feed(at_16k(said(networks, "What is seven times eight?")))
    ended_ms = call.seq * 20
    call.wait_for(SpeakingOn)
    assert call.of(SpeakingOn)[0].at_ms - ended_ms <= 400
    call.wait_for(SpeakingOff)
    (heard,) = [event for event in call.of(InText) if event.final]
    assert words(heard.delta) == words("What is seven times eight?")
    answer = "".join(event.delta for event in call.of(OutText))
    assert answer.strip() == "Seven times eight is fifty-six."

    # and whoever listens understands it
    ours = np.concatenate(call.sound)[call.of(SpeakingOn)[0].at_ms * 24 :]
    back = finish(networks.ears.hear(with_silence(np.asarray(soxr.resample(ours, 24, 16)))))
    assert words(back.replace("fifty-six", "56").replace("fifty six", "56")) == words(
        "Seven times eight is 56."
    )


def test_a_hum_costs_no_sentence(networks: Networks) -> None:
    call = Call(networks)
    call.feed(at_16k(said(networks, "Count from one to five, please.")))
    call.wait_for(SpeakingOn)
    call.feed(np.zeros(4800, np.int16))
    call.feed(at_16k(said(networks, "Mm-hm.")))
    call.wait_for(SpeakingOff, 8000)
    assert call.of(Cancelled) == []
    told = "".join(event.delta for event in call.of(OutText))
    assert words(told) == ["one", "two", "three", "four", "five"]
    call.feed(np.zeros(32_000, np.int16))
    assert len(call.of(SpeakingOn)) == 1, "nobody answers a hum"


@pytest.mark.parametrize("text", ["No.", "Stop.", "Wait."])
def test_a_short_word_stops_it(networks: Networks, text: str) -> None:
    call = Call(networks)
    call.feed(at_16k(said(networks, "Count from one to twenty, please.")))
    call.wait_for(SpeakingOn)
    call.feed(np.zeros(9600, np.int16))
    call.feed(at_16k(said(networks, text)))
    call.feed(np.zeros(24_000, np.int16))
    assert len(call.of(Cancelled)) == 1


def test_noise_is_nobody(networks: Networks) -> None:
    """A cough, the mains, silence, and clipping are not answered."""
    call = Call(networks)
    rng = np.random.default_rng(1)
    at = np.arange(16_000) / 16_000
    cough = 9000 * rng.standard_normal(16_000) * np.exp(-at * 12)
    mains = 6000 * np.sin(2 * np.pi * 100 * at)
    square = 32767 * np.sign(np.sin(2 * np.pi * 220 * at))
    for sound in (cough, mains, square, np.zeros(16_000)):
        call.feed(np.asarray(np.clip(sound, -32768, 32767), np.int16))
        call.feed(np.zeros(16_000, np.int16))
    assert call.of(SpeakingOn) == []


def test_clipped_speech_is_answered(networks: Networks) -> None:
    call = Call(networks)
    loud = at_16k(said(networks, "What is seven times eight?")).astype(np.float32) * 12
    call.feed(np.asarray(np.clip(loud, -32768, 32767), np.int16))
    call.wait_for(SpeakingOff)
    assert "fifty-six" in "".join(event.delta for event in call.of(OutText))


def test_it_yields_to_speech_and_not_to_its_own_voice(networks: Networks) -> None:
    call = Call(networks)
    call.feed(at_16k(said(networks, "Count from one to twenty, please.")))
    call.wait_for(SpeakingOn)
    # what it says comes back 200 ms later, at -20 dB, for three seconds
    air = soxr.ResampleStream(24_000, 16_000, 1, "int16", "LQ")
    back = np.zeros(0, np.int16)
    for _ in range(150):
        back = np.concatenate([back, air.resample_chunk(call.sound[-10] // 10)])
        if len(back) >= 320:
            call.feed(back[:320])
            back = back[320:]
    assert call.of(Cancelled) == []
    assert len([event for event in call.of(InText) if event.final]) == 1

    begun_ms = call.seq * 20
    call.feed(at_16k(said(networks, "Stop, I would like something else.")))
    (cut,) = call.of(Cancelled)
    on = call.of(SpeakingOn)[0]
    assert on.at_ms + cut.played_ms - begun_ms <= 320, "200 ms of speech, its onset, and a window"
