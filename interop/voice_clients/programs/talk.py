"""What the clients' programs share: the question, its pace, and the report as one line of JSON.

Standard library only: each program runs in the environment of its own client.
"""

import argparse
import asyncio
import json
import sys
import time
import wave
from collections.abc import AsyncIterator
from pathlib import Path

RATE = 24000
QUIET_S = 2.0
"""The answer is over when nothing more was said for so long."""
LEAD_S = 0.3


def arguments() -> argparse.Namespace:
    """Read what a program is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="http://host:port/v1")
    parser.add_argument("--question", type=Path, required=True, help="WAV, mono, 16 bit, 24 kHz")
    parser.add_argument("--answer", type=Path, required=True, help="WAV to write")
    parser.add_argument("--timeout", type=float, default=30.0)
    return parser.parse_args()


def read_question(path: Path) -> bytes:
    """Return the samples, with a moment of silence before."""
    with wave.open(str(path), "rb") as source:
        assert source.getnchannels() == 1 and source.getsampwidth() == 2
        assert source.getframerate() == RATE
        return bytes(int(RATE * LEAD_S) * 2) + source.readframes(source.getnframes())


class Talk:
    """One conversation as its client saw it."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.question = read_question(given.question)
        self.began = time.monotonic()
        self.heard = bytearray()
        self.user = ""
        self.assistant = ""
        self.events: dict[str, int] = {}
        self.errors: list[str] = []
        self.asked_at: float | None = None
        self.first_sound_at: float | None = None
        self.last_word_at: float | None = None

    def note(self, kind: str) -> None:
        self.events[kind] = self.events.get(kind, 0) + 1

    def hear(self, sound: bytes) -> None:
        """Take sound of the server's, 16 bit at 24 kHz."""
        self.heard += sound
        loud = max(abs(s) for s in memoryview(sound).cast("h")) > 300 if sound else False
        if loud and self.first_sound_at is None and self.asked_at is not None:
            self.first_sound_at = time.monotonic()

    def word(self, text: str, *, mine: bool) -> None:
        """Take a piece of either side's text."""
        if mine:
            self.user += text
        else:
            self.assistant += text
            self.last_word_at = time.monotonic()

    async def pieces(self, piece_ms: int) -> AsyncIterator[bytes]:
        """Yield the question piece by piece in real time, then silence without end."""
        size = RATE * piece_ms // 1000 * 2
        at, number = 0, 0
        began = time.monotonic()
        while True:
            piece = self.question[at : at + size]
            at += size
            if at >= len(self.question) and self.asked_at is None:
                self.asked_at = time.monotonic()
            yield piece.ljust(size, b"\0")
            number += 1
            await asyncio.sleep(max(0.0, began + number * piece_ms / 1000 - time.monotonic()))

    async def until_answered(self) -> None:
        """Wait until an answer has been given, or for as long as we were told to."""
        deadline = self.began + self.given.timeout
        while time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            if self.errors:
                return
            if self.last_word_at is None or self.asked_at is None:
                continue
            if time.monotonic() - max(self.last_word_at, self.asked_at) > QUIET_S:
                return

    def report(self) -> None:
        """Write the answer and print the report."""
        with wave.open(str(self.given.answer), "wb") as sink:
            sink.setnchannels(1)
            sink.setsampwidth(2)
            sink.setframerate(RATE)
            sink.writeframes(bytes(self.heard))
        reply_ms = None
        if self.first_sound_at is not None and self.asked_at is not None:
            reply_ms = round((self.first_sound_at - self.asked_at) * 1000)
        print(
            json.dumps(
                {
                    "user": self.user.strip(),
                    "assistant": self.assistant.strip(),
                    "heard_ms": len(self.heard) * 1000 // (2 * RATE),
                    "reply_ms": reply_ms,
                    "events": self.events,
                    "errors": self.errors,
                }
            )
        )
        sys.stdout.flush()
