"""Whatever a peer sends costs a bounded amount, and a second after it has stopped all is well."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.unit.voice_backend.audio.support import Arrival, payloads
from voice_backend.audio import AudioReceiver

BEGUN, STOPPED, END = 1.0, 3.0, 5.0
Attack = Callable[[random.Random, float, int, int], tuple[bytes, int, int]]
"""Makes a packet of (luck, seconds, packets so far, timestamp that would be right)."""
SOUND = payloads()
LONG = bytes((0xF8 | 3, 6)) + bytes(6)
ATTACKS: dict[str, tuple[float, Attack]] = {
    "noise": (0.02, lambda luck, _, n, ts: (luck.randbytes(luck.randrange(1, 1200)), n, ts)),
    "one octet": (0.02, lambda luck, _, n, ts: (luck.randbytes(1), n, ts)),
    "wrong counts": (0.02, lambda luck, _, n, ts: (bytes((0xFF, luck.getrandbits(8))), n, ts)),
    "nothing but padding": (0.02, lambda luck, _, n, ts: (b"\xfb\x41" + b"\xff" * 600, n, ts)),
    "48 frames": (0.02, lambda luck, _, n, ts: (bytes((0xE3, 48)) + bytes(48), n, ts)),
    "any timestamp": (0.02, lambda luck, _, n, ts: (SOUND[n % 200], n, luck.getrandbits(32))),
    "near timestamps": (
        0.002,
        lambda luck, _, n, ts: (SOUND[n % 200], n, ts + luck.randrange(-90_000, 90_000)),
    ),
    "the same timestamp": (0.002, lambda luck, _, n, ts: (SOUND[n % 200], n, 48_000)),
    "twice as fast": (0.02, lambda luck, _, n, ts: (SOUND[n % 200], n, 960 * (2 * n - 50))),
    "backwards": (0.02, lambda luck, _, n, ts: (SOUND[n % 200], n, 48_000 - 960 * n)),
    "two seconds ahead": (0.02, lambda luck, _, n, ts: (SOUND[n % 200], n, ts + 91_000)),
    "a tick apart": (0.0005, lambda luck, _, n, ts: (LONG, n, ts + n % 40)),
    "500 a second": (0.002, lambda luck, _, n, ts: (SOUND[n % 200], n, 48_000 + 960 * n)),
    "any number": (0.002, lambda luck, _, n, ts: (SOUND[n % 200], luck.getrandbits(16), ts)),
}


def stream(every_s: float, attack: Attack) -> Iterator[Arrival]:
    """A second of speech, two of the attack, and speech again."""
    luck, number = random.Random(1), 0
    at = 0.0
    while at < END:
        hostile = BEGUN <= at < STOPPED
        right = round(at * 48_000)
        if hostile:
            made, sequence, timestamp = attack(luck, at, number, right)
        else:
            made, sequence, timestamp = SOUND[number % 200], number, right
        yield at, made, sequence & 0xFFFF, timestamp & 0xFFFFFFFF
        number += 1
        at += every_s if hostile else 0.02


@pytest.mark.parametrize("name", ATTACKS)
def test_a_second_later_nothing_is_made_up(name: str) -> None:
    receiver, made_up = AudioReceiver(16_000), 0
    arrivals = stream(*ATTACKS[name])
    at, *packet = next(arrivals)
    for tick in range(int(END * 50)):
        now = 0.02 * tick + 0.007
        while at <= now:
            receiver.receive(*packet, at)
            at, *packet = next(arrivals, (END, b"", 0, 0))
        heard = receiver.frame(now)
        assert heard.pcm.shape == (320,)
        assert receiver.delay_ms(now) < 330
        if now > STOPPED + 1:
            made_up += heard.concealed or heard.comfort
    assert made_up <= 1
    assert receiver.delay_ms(END) < 130
