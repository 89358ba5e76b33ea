"""A live session that lasts, on a simulated clock: turns, overlaps, work given away; nothing grows.

`python -m tests.scenarios.test_voice_live_hour [MINUTES]` says what an hour does to memory.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from array import array
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.unit.voice_backend.desks import Room
from voice_backend.delegation import Begin, DelegationConfig, DelegationDesk, Part, Tell
from voice_backend.live import DoorKind, LiveConfig, LiveSession, SessionConfig
from voice_backend.live.commands import TurnEnded, Work
from voice_backend.models.scripted import Ask, Hear, Say, Script
from voice_backend.transcript import TranscriptConfig
from warp_tools.bench.child import resident_kib
from warp_tools.bench.residue import slope

TURN = 250
"""Frames: 5 s."""
FRAMES_A_MINUTE = 3_000
LOUD = np.full(320, 8_000, np.int16)
ASKED = {
    "model": "scripted",
    "delegation": {"type": "responses", "responses": {"model": "m"}},
    "transcript_views": True,
}


def script_of(turns: int) -> Script:
    """Every third answer is interrupted, every fourth acknowledged, every fifth needs work."""
    script: dict = {}
    for turn in range(turns):
        at = turn * TURN
        script[at + 30] = [Hear(text="how late", frames=20, final=False)]
        script[at + 60] = [Hear(text=f"how late is it for the {turn}th time", frames=50)]
        script[at + 70] = [Say(frames=25, text=text) for text in ("it is", "ten past", "nine now")]
        if turn % 3 == 1:
            script[at + 115] = [Hear(text="no wait a moment", frames=12)]
        elif turn % 4 == 1:
            script[at + 100] = [Hear(text="mm-hm", frames=10)]
        if turn % 5 == 0:
            script[at + 65] = [Ask(delegation_id=f"d{turn}")]
    return script


@dataclass
class Told:
    """What the client was told, and what there is after each turn."""

    finals: int = 0
    last_final_ms: int = -1
    in_order: bool = True
    kinds: dict[str, int] = field(default_factory=dict)
    draft_items: int = 0
    draft_chars: int = 0
    waiting: int = 0
    # one block of memory each, however long they are: they are no part of what is measured
    minutes: array[float] = field(default_factory=lambda: array("d"))
    blocks: array[float] = field(default_factory=lambda: array("d"))
    kib: array[float] = field(default_factory=lambda: array("d"))

    def growth(self, what: array[float], share: float = 0.5) -> tuple[float, float]:
        """A minute, over the last share of the time, and what that may be wrong by."""
        first = int(len(what) * (1 - share))
        return slope(list(zip(self.minutes, what, strict=True))[first:])


class Conversation:
    """A session over a desk, with a helper that takes two seconds."""

    def __init__(self, turns: int) -> None:
        self.room = Room({"": script_of(turns)}, hop=True, reserve=1, yield_after_frames=10)
        self.slot, self.line = self.room.join("")
        self.line.give = lambda pcm, now: None
        self.line.tell = self._tell
        config = LiveConfig(responses=True, expires_after_s=1e9)
        self.session = LiveSession("live_1", config, wall_s=0.0, now=0.0)
        self.session.receive_offer(SessionConfig.model_validate(ASKED))
        self.door = self.session.attach(DoorKind.CHANNEL)
        self.session.attach(DoorKind.SIDEBAND)
        self.session.receive_opened(0.0)
        self.helper = DelegationDesk()
        self.due: list[tuple[float, str]] = []
        self.told = Told()

    @property
    def now(self) -> float:
        return self.room.clock.now

    def _tell(self, events: list) -> None:
        for event in events:
            self.session.receive_voice(event, self.now)

    def run(self, turn: int) -> None:
        for n in range(TURN):
            if turn % 3 == 1 and 105 <= n < 118:
                self.line.fed = [LOUD]
            self.room.run(1)
            if n % 5 == 0:
                seat = self.room.desk.seats[self.slot]
                self.session.receive_played(seat.playout.position_ms, seat.usage_ratio)
                self._work()
                self._fetch()
        transcript = self.session.talk.transcript
        draft = transcript.draft()
        told = self.told
        told.draft_items = max(told.draft_items, len(draft))
        told.draft_chars = max(told.draft_chars, sum(len(item.text) for item in draft))

    def measure(self, minute: int, *, resident: bool) -> None:
        gc.collect()
        self.told.minutes.append(minute)
        self.told.blocks.append(sys.getallocatedblocks())
        if resident:  # to ask for it makes objects
            self.told.kib.append(resident_kib())

    def _work(self) -> None:
        for command in self.session.commands():
            if isinstance(command, Work):
                self.helper.receive_delegation(command.request, self.now)
            elif isinstance(command, TurnEnded):
                self.helper.receive_turn()
        while self.due and self.due[0][0] <= self.now:
            ident = self.due.pop(0)[1]
            self.session.receive_response(ident, {"type": "response.completed"})
            self.helper.receive_part(ident, Part(text="a quarter past", done=True))
        self.helper.handle_timer(self.now)
        for action in self.helper.actions():
            if isinstance(action, Begin):
                self.due.append((self.now + 2.0, action.request.delegation_id))
            elif isinstance(action, Tell):
                self.session.receive_told()
                self.room.desk.inject(self.slot, action.kind, action.text, action.delegation_id)
        self.session.handle_timer(self.now)

    def _fetch(self) -> None:
        told, outgoing = self.told, self.session.outgoing()
        told.waiting = max(told.waiting, len(outgoing))
        for one in outgoing:
            if one.door != self.door:
                continue
            event = json.loads(one.json())
            told.kinds[event["type"]] = told.kinds.get(event["type"], 0) + 1
            if event["type"] == "transcript.final":
                told.finals += 1
                told.in_order &= event["item"]["start_ms"] >= told.last_final_ms
                told.last_final_ms = event["item"]["start_ms"]


def converse(minutes: int, *, resident: bool = False) -> Conversation:
    each = FRAMES_A_MINUTE // TURN
    made = Conversation(minutes * each)
    for minute in range(minutes):
        for turn in range(minute * each, (minute + 1) * each):
            made.run(turn)
        made.measure(minute, resident=resident)
    return made


def check(made: Conversation, minutes: int) -> None:
    turns, told, limits = minutes * FRAMES_A_MINUTE // TURN, made.told, TranscriptConfig()
    counts = made.room.desk.seats[made.slot].counts
    assert (counts.frames, counts.late_frames) == (turns * TURN, 0)
    # what may change is bounded, and so is what waits for whoever fetches it
    assert told.draft_items <= limits.draft_items + limits.pending
    assert told.draft_chars < 40 * (limits.draft_items + limits.pending)
    assert told.waiting < 100
    # the log is the client's: it was told each item once and in order; a part of it is kept here
    transcript = made.session.talk.transcript
    assert told.finals == transcript.committed >= 2 * turns
    assert told.in_order
    assert len(transcript.final()) == min(limits.final_items, transcript.committed)
    # everything took part
    assert told.kinds["session.delegation.created"] == -(-turns // 5)
    assert told.kinds["response.event"] >= turns // 5 - 1
    assert made.session.dropped == 0
    assert made.helper.refused == 0


@pytest.mark.slow
def test_ten_minutes_of_conversation_leave_memory_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # what is kept is full after three minutes, in place of almost thirty
    for config, name, room in (
        (TranscriptConfig, "final_items", 80),
        (DelegationConfig, "remembered", 8),
        (LiveConfig, "delegations", 8),
    ):
        monkeypatch.setitem(config.__init__.__kwdefaults__, name, room)
    made = converse(10)
    check(made, 10)
    # the script repeats itself after 60 turns: a single object that each of them left would be 60
    assert abs(made.told.blocks[9] - made.told.blocks[4]) < 30


def main(minutes: int) -> None:
    began = time.process_time()
    made = converse(minutes, resident=True)
    check(made, minutes)
    print(f"{minutes} min in {time.process_time() - began:.0f} s of CPU: {made.told.kinds}")
    print(f"draft: {made.told.draft_items} items, {made.told.draft_chars} characters at most")
    print(f"events that waited: {made.told.waiting} at most; dropped: {made.session.dropped}")
    print(f"log: {made.told.finals} items told, {len(made.session.talk.transcript.final())} kept")
    for name, what in (("KiB", made.told.kib), ("objects", made.told.blocks)):
        rate, error = made.told.growth(what)
        print(f"{name} a minute in the second half: {rate:.2f} +- {error:.2f}; {what[-1]:.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
