"""The jitter buffer under a player that owes 20 ms each 20 ms, on a clock of the test's own."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.errors import InvalidConfig
from warp.rtp import Action, JitterBuffer, JitterConfig, Placing, Step

FRAME = 960
TOCS = {10: 8 << 3, 20: 9 << 3, 40: 10 << 3, 60: 11 << 3}
"""SILK, wide band, one frame, mono (RFC 6716 table 2)."""
VOICED, REDUNDANT = 0x80, 0x40


def packet(number: int = 0, *, ms: int = 20, fec: bool = False) -> bytes:
    """A payload that is told apart by its number; the header bits are those of 20 ms."""
    return bytes((TOCS[ms], VOICED | (REDUNDANT if fec else 0))) + number.to_bytes(4, "big")


def number(step: Step) -> int:
    return int.from_bytes(step.payload[2:6], "big")


SILENCE = bytes((TOCS[20],))


@dataclass
class Player:
    """Takes a frame each 20 ms; stretches as advised, by at most a quarter."""

    buffer: JitterBuffer = field(default_factory=JitterBuffer)
    held: int = 0
    steps: list[Step] = field(default_factory=list)
    frames: list[set[Action]] = field(default_factory=list)
    stretched: int = 0
    delays: list[int] = field(default_factory=list)
    longest_held: int = 0

    def play(self, now: float) -> set[Action]:
        advice = self.buffer.advise(now, self.held)
        actions: set[Action] = set()
        wanted = FRAME + max(min(advice, 240), 0)
        while self.held < FRAME or (self.held < wanted and self.buffer.ready):
            step = self.buffer.take(FRAME - self.held, now, self.held)
            assert step.ticks > 0
            self.held += step.ticks
            self.steps.append(step)
            actions.add(step.action)
        self.longest_held = max(self.longest_held, self.held)
        if advice and actions <= {Action.PLAY}:
            change = max(-192, min(240, advice))
            if change < 0 or self.held - change >= FRAME:
                self.held -= change
                self.stretched += abs(change)
        self.held -= FRAME
        self.frames.append(actions)
        self.delays.append(self.buffer.delay(now, self.held) + FRAME)
        return actions

    @property
    def played(self) -> list[int]:
        return [number(s) for s in self.steps if s.action is Action.PLAY and len(s.payload) > 5]


def run(
    player: Player,
    arrivals: list[tuple[float, bytes, int, int]],
    *,
    start: float = 0.0,
    end: float | None = None,
) -> Player:
    """Play frames at 5 ms behind each 20 ms, packets in the order of their arrival."""
    todo = sorted(arrivals, key=lambda a: a[0])
    last = (todo[-1][0] + 0.5) if end is None else end
    now = start + 0.005
    at = 0
    while now < last:
        while at < len(todo) and todo[at][0] <= now:
            when, payload, sequence, timestamp = todo[at]
            player.buffer.insert(payload, sequence, timestamp, when)
            at += 1
        player.play(now)
        now += 0.02
    return player


def stream(
    count: int,
    *,
    ms: int = 20,
    delay: float = 0.0,
    fec: bool = False,
    first_sequence: int = 100,
    first_timestamp: int = 5000,
    speed: float = 1.0,
) -> list[tuple[float, bytes, int, int]]:
    return [
        (
            delay + i * ms / 1000 / speed,
            packet(i, ms=ms, fec=fec),
            (first_sequence + i) & 0xFFFF,
            (first_timestamp + i * ms * 48) & 0xFFFFFFFF,
        )
        for i in range(count)
    ]


def jittered(
    arrivals: list[tuple[float, bytes, int, int]], spread: float, seed: int = 1
) -> list[tuple[float, bytes, int, int]]:
    rng = random.Random(seed)
    return [(t + rng.uniform(0, spread), *rest) for t, *rest in arrivals]


def test_a_calm_path_is_played_whole_with_little_delay() -> None:
    player = run(Player(), stream(500))
    assert player.played == list(range(500))
    counts = player.buffer.counts
    # nothing comes after the last
    assert (counts.lost, counts.late, counts.stalls) == (0, 0, 1)
    assert counts.concealed_ms == pytest.approx(300, abs=10)
    assert player.buffer.target_s == pytest.approx(0.02, abs=0.001)
    # 20 ms of target, 10 of what nothing is done about
    assert max(player.delays[150:490]) <= 31 * 48
    # brought down once, from where it began
    assert player.stretched <= 30 * 48


@pytest.mark.parametrize("ms", [10, 20, 40, 60])
def test_packets_of_any_length(ms: int) -> None:
    player = run(Player(), stream(4000 // ms, ms=ms))
    assert player.played == list(range(4000 // ms))
    assert player.buffer.counts.stalls == 1
    assert player.longest_held <= FRAME + ms * 48


@pytest.mark.parametrize("spread", [0.02, 0.06, 0.15])
def test_the_delay_follows_the_jitter_up_and_down(spread: float) -> None:
    calm = stream(300)
    storm = [(t + 6, p, s + 300, ts + 300 * 960) for t, p, s, ts in jittered(stream(500), spread)]
    after = [(t + 16, p, s + 800, ts + 800 * 960) for t, p, s, ts in stream(600)]
    player = run(Player(), calm + storm)
    during = player.buffer.target_s
    assert spread * 0.8 < during < min(spread + 0.04, 0.2)
    # 95 % are waited for, and what comes later raises the wanted delay
    late = sum(Action.CONCEAL in frame for frame in player.frames[400:790])
    assert late <= 25
    player = run(Player(), calm + storm + after)
    assert player.buffer.target_s < 0.03
    assert max(player.delays[-150:-30]) < 33 * 48


def test_reordered_packets_are_put_in_order_and_copies_left_out() -> None:
    arrivals = stream(200)
    for i in range(50, 150, 5):
        t, *rest = arrivals[i]
        arrivals[i] = (t + 0.025, *rest)
    arrivals += [(t + 0.001, *rest) for t, *rest in arrivals[20:180:3]]
    player = run(Player(), arrivals)
    assert player.played == list(range(200))
    assert player.buffer.counts.duplicates == len(range(20, 180, 3))
    assert player.buffer.counts.reordered >= 19


def test_a_lost_packet_comes_out_of_the_redundancy_of_the_next() -> None:
    arrivals = [a for i, a in enumerate(stream(200, fec=True)) if i not in (100, 120, 140)]
    player = run(Player(), arrivals)
    at = [i for i, s in enumerate(player.steps) if s.action is Action.RECOVER]
    counts = player.buffer.counts
    assert counts.lost == 3 and counts.recovered == len(at) >= 2
    for i in at:
        assert player.steps[i].ticks == FRAME
        assert player.steps[i + 1] == player.steps[i]._replace(action=Action.PLAY)
    assert player.played == [i for i in range(200) if i not in (100, 120, 140)]


def test_where_there_is_no_redundancy_it_is_concealed() -> None:
    player = run(Player(), [a for i, a in enumerate(stream(200)) if i not in (100, 101, 150)])
    counts = player.buffer.counts
    assert counts.lost == 3 and counts.recovered == 0
    # whether it was seen as lost or as late: no more is made up than was missing
    assert 20 < counts.concealed_ms - 300 < 70
    assert max(player.delays[150:190]) <= 32 * 48


def test_a_burst_of_losses_ends_in_one_recovered_packet() -> None:
    arrivals = [a for i, a in enumerate(stream(200, fec=True)) if not 100 <= i < 104]
    player = Player(JitterBuffer(JitterConfig(min_delay_s=0.15)))
    run(player, arrivals)
    actions = [s.action for s in player.steps if s.action is not Action.PLAY]
    assert actions.count(Action.RECOVER) == 1
    at = next(i for i, s in enumerate(player.steps) if s.action is Action.RECOVER)
    assert {s.action for s in player.steps[at - 3 : at]} == {Action.CONCEAL}


def test_a_pause_of_the_senders_is_not_loss() -> None:
    """RFC 6716 section 2.1.9: numbers go on, timestamps show the pause."""
    talk = stream(100)
    last = talk[-1]
    quiet = [(last[0] + 0.02, SILENCE, last[2] + 1, last[3] + 960)]
    quiet += [
        (last[0] + 0.02 + 0.4 * i, SILENCE, last[2] + 1 + i, last[3] + 960 + 19_200 * i)
        for i in range(1, 6)
    ]
    then = quiet[-1]
    more = [
        (then[0] + 0.02 * i, packet(1000 + i), then[2] + i, then[3] + 960 * i)
        for i in range(1, 100)
    ]
    player = run(Player(), talk + quiet + more, end=more[-1][0])
    counts = player.buffer.counts
    assert (counts.lost, counts.late, counts.stalls, counts.concealed_ms) == (0, 0, 0, 0)
    assert counts.comfort_ms > 1800
    assert player.played == [*range(100), *range(1001, 1099)]
    # what follows a pause has the wanted delay, not what had come together while nothing came
    assert max(player.delays[-50:]) < 33 * 48


@pytest.mark.parametrize("pause_s", [0.5, 5.0, 30.0])
def test_what_follows_a_pause_has_the_wanted_delay(pause_s: float) -> None:
    """On a path with jitter: to begin at once would stutter through the first words."""
    talk = jittered(stream(200), 0.06)
    t, _, sequence, timestamp = stream(200)[-1]
    ticks = int(pause_s * 48_000) // 960 * 960
    more = [
        (t + ticks / 48_000 + 0.02 * i, packet(200 + i), sequence + i, timestamp + ticks + 960 * i)
        for i in range(1, 150)
    ]
    player = run(Player(), talk, end=t + pause_s)
    stalls, concealed = player.buffer.counts.stalls, player.buffer.counts.concealed_ms
    run(player, jittered(more, 0.06, seed=2), start=t + pause_s, end=t + pause_s + 2.5)
    assert player.played[-100:] == list(range(player.played[-1] - 99, player.played[-1] + 1))
    assert player.buffer.counts.stalls - stalls <= 2
    assert player.buffer.counts.concealed_ms - concealed < 100
    assert player.buffer.counts.lost == player.buffer.counts.restarts == 0
    assert max(player.delays[-100:]) < 105 * 48


def test_a_lost_packet_in_a_pause_is_comfort() -> None:
    talk = stream(50)
    t, _, sequence, timestamp = talk[-1]
    quiet = [(t + 0.02, SILENCE, sequence + 1, timestamp + 960)]
    back = [
        (t + 1 + 0.02 * i, packet(60 + i), sequence + 3 + i, timestamp + 960 * (50 + i))
        for i in range(20)
    ]
    player = run(Player(), talk + quiet + back, end=t + 1.3)
    assert player.buffer.counts.lost == 1
    assert player.buffer.counts.concealed_ms == 0


def test_numbers_and_timestamps_wrap() -> None:
    player = run(Player(), stream(300, first_sequence=65_400, first_timestamp=0xFFFFFFFF - 96_000))
    assert player.played == list(range(300))
    assert player.buffer.counts.lost == 0


def test_a_stall_delays_and_does_not_lose() -> None:
    """A path that stands still for 160 ms: time is stretched, then caught up."""
    arrivals = [(max(t, 2.16) if 2.0 <= t < 2.16 else t, *rest) for t, *rest in stream(400)]
    player = run(Player(), arrivals)
    assert player.played == list(range(400))
    counts = player.buffer.counts
    assert counts.lost == 0 and counts.late == 0 and counts.skipped_ms == 0
    assert 80 < counts.concealed_ms - 300 < 180
    assert max(player.delays[100:130]) > 100 * 48
    assert max(player.delays[330:380]) < 60 * 48


def test_a_second_without_packets_does_not_pile_up() -> None:
    arrivals = [(3.0 if 2.0 <= t < 3.0 else t, *rest) for t, *rest in stream(400)]
    player = run(Player(), arrivals)
    counts = player.buffer.counts
    assert counts.late * 20 + counts.skipped_ms > 500
    assert max(player.delays) <= int(0.32 * 48_000)
    assert max(player.delays[330:380]) < 120 * 48
    # what was too old is left out, the rest is played once
    assert len(set(player.played)) == len(player.played) > 340


@pytest.mark.parametrize("longer_s", [0.1, 0.25, 0.5, 1.5])
def test_a_way_that_becomes_longer_is_believed_soon(longer_s: float) -> None:
    arrivals = [(t + longer_s if t >= 3 else t, *rest) for t, *rest in stream(500)]
    player = run(Player(), arrivals, end=10 + longer_s)
    assert len(player.played) >= 500 - 6
    assert max(player.delays[-150:]) < 42 * 48
    assert player.played == sorted(set(player.played))


@pytest.mark.parametrize("ppm", [-200, 200])
def test_a_clock_that_drifts_is_followed(ppm: int) -> None:
    player = run(Player(), stream(3000, speed=1 + ppm / 1e6), end=59.9)
    assert player.buffer.counts.stalls == 0 and player.buffer.counts.late == 0
    assert player.played == list(range(len(player.played)))
    assert max(player.delays[200:]) < 33 * 48
    drift = player.buffer.drift_ppm
    assert drift is not None and drift == pytest.approx(ppm, abs=20)


def test_another_source_is_begun_anew() -> None:
    """Numbers that leap: one packet is refused, the second is believed (RFC 3550 A.1)."""
    b = JitterBuffer()
    for i in range(10):
        b.insert(packet(i), i, 960 * i, 0.02 * i)
    assert b.insert(packet(), 40_000, 0x7000_0000, 0.2) is Placing.LEAPT
    assert b.insert(packet(), 10, 9600, 0.2) is Placing.KEPT
    assert b.insert(packet(), 40_001, 0x7000_0000, 0.22) is Placing.LEAPT
    assert b.insert(packet(), 40_002, 0x7000_03C0, 0.24) is Placing.KEPT
    assert len(b) == 1 and b.counts.restarts == 1
    b.restart()
    assert b.insert(packet(), 7, 77, 0.3) is Placing.KEPT


@pytest.mark.parametrize("back_s", [0.1, 0.5, 1.0, 1.9])
def test_a_clock_that_is_set_back_costs_five_packets(back_s: float) -> None:
    """Numbers go on and timestamps do not, too near for a leap (RFC 3550 section 5.1)."""
    back = int(back_s * 48_000)
    arrivals = [(t, p, s, ts - back if t >= 3 else ts) for t, p, s, ts in stream(500)]
    player = run(Player(), arrivals, end=10)
    assert len(player.played) >= 500 - 10
    assert player.buffer.counts.restarts == 1
    assert all(frame == {Action.PLAY} for frame in player.frames[-300:])


def test_copies_and_what_is_overtaken_set_no_clock_back() -> None:
    arrivals = [copy for a in jittered(stream(500), 0.2) for copy in (a, (a[0] + 0.3, *a[1:]))]
    assert run(Player(), arrivals).buffer.counts.restarts == 0


def test_long_packets_a_tick_apart_are_not_all_decoded() -> None:
    """Each would be 120 ms of work for 20 microseconds of sound."""
    player = Player()
    long = bytes((0xF8 | 3, 6)) + bytes(6)
    for tick in range(100):
        now = 0.02 * tick
        for i in range(100):
            number = 100 * tick + i
            player.buffer.insert(long, number & 0xFFFF, 960 * tick + 9 * i, now)
        before = len(player.steps)
        player.play(now + 0.001)
        assert len(player.steps) - before <= 10


def test_what_is_late_is_counted_and_raises_the_delay() -> None:
    arrivals = stream(200)
    t, *rest = arrivals.pop(100)
    player = Player()
    run(player, [*arrivals, (t + 0.12, *rest)], end=2.1)
    before = player.buffer.target_s
    assert player.buffer.counts.late == 0
    run(player, [], start=2.1, end=2.12)
    player = run(Player(), [*arrivals, (t + 0.12, *rest)], end=2.2)
    assert player.buffer.counts.late == 1
    assert player.buffer.target_s > before + 0.02


def test_what_was_held_up_on_its_way_here_is_waited_for() -> None:
    """Packets that somebody collects only now and then: the path is calm, the delay is not."""
    player = Player()
    now = 0.0
    for i in range(600):
        if i % 3 == 2:
            for n in range(i - 2, i + 1):
                player.buffer.insert(packet(n), n, 960 * n, 0.02 * n)
        now = 0.02 * i + 0.001
        player.play(now)
    assert 0.035 < player.buffer.target_s < 0.085
    assert player.buffer.counts.stalls < 25
    assert all(frame == {Action.PLAY} for frame in player.frames[-200:])


def test_what_is_no_packet_is_refused() -> None:
    b = JitterBuffer()
    for payload in (b"", bytes((3,)), bytes((3, 0)), bytes((3, 63))):
        assert b.insert(payload, 0, 0, 0.0) is Placing.REFUSED
    assert b.counts.refused == 4 and len(b) == 0


def test_a_player_that_stops_does_not_let_it_grow() -> None:
    b = JitterBuffer(JitterConfig(capacity=16))
    for i in range(1000):
        b.insert(packet(i), i, 960 * i, 0.02 * i)
        assert len(b) <= 16
    assert b.counts.overflowed == 984
    assert number(b.take(FRAME, 20.0)) == 985


def test_settings_that_contradict_each_other() -> None:
    for wrong in (
        {"min_delay_s": 0.3},
        {"ceiling_s": 0.1},
        {"quantile": 1.0},
        {"frame_s": 0.0},
        {"capacity": 1},
    ):
        with pytest.raises(InvalidConfig):
            JitterConfig(**wrong)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),  # which packet
            st.floats(0, 0.3),  # how late
            st.sampled_from([10, 20, 40, 60]),
        ),
        max_size=80,
    ),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFFFFFF),
)
def test_any_order_copies_and_losses(
    sent: list[tuple[int, float, int]], first: int, origin: int
) -> None:
    """Nothing is played twice, media time never runs back, nothing grows."""
    arrivals = [
        (0.02 * i + late, packet(i, ms=ms), (first + i) & 0xFFFF, (origin + 960 * i) & 0xFFFFFFFF)
        for i, late, ms in sent
    ]
    player = run(Player(), arrivals) if arrivals else Player()
    assert len(set(player.played)) == len(player.played)
    assert player.played == sorted(player.played)
    counts = player.buffer.counts
    assert counts.received == len(sent)
    assert counts.received >= counts.played + counts.late + counts.duplicates + counts.refused
    assert len(player.buffer) == 0
    assert player.held < 60 * 48 + FRAME


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.tuples(st.binary(max_size=6), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)),
            st.floats(0, 3),
            st.none(),
        ),
        max_size=60,
    )
)
def test_any_numbers_at_any_time(story: list[tuple[bytes, int, int] | float | None]) -> None:
    player = Player(JitterBuffer(JitterConfig(capacity=8)))
    now = 0.0
    for item in story:
        if item is None:
            player.play(now)
        elif isinstance(item, float):
            now += item
        else:
            player.buffer.insert(*item, now)
        assert len(player.buffer) <= 8
        assert player.held <= 5760 + FRAME
