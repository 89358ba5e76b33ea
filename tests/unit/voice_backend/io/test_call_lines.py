"""What the lines of calls have counted, for Prometheus: nothing is lost when a call ends."""

from __future__ import annotations

from tests.unit.voice_backend.io.test_rtp_line import line, packet
from voice_backend.io.call_lines import CallLines
from voice_backend.io.rtp_line import MAX_INBOX
from voice_backend.metrics import Labels, exposition
from warp.rtp import ReportBlock

ENGINE: Labels = (("engine", "m"),)


def told(lines: CallLines, *, sessions: bool = False) -> dict[str, float]:
    text = exposition(lines.families(ENGINE, sessions=sessions))
    pairs = (one.rpartition(" ") for one in text.splitlines() if not one.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_figures_of_a_call_are_added_up_and_outlive_it() -> None:
    lines = CallLines()
    (first, sound, _, _), (second, _, _, _) = line(), line()
    lines.add(1, first)
    lines.add(2, second)
    sound.arrived = [packet(n) for n in range(3 * MAX_INBOX)]
    sound.report = ReportBlock(1, 128, 0, 0, 0, 0, 0)
    lines.collect()
    first._receiver.counts.concealed = 4
    second._receiver.counts.concealed = 3
    second._receiver.counts.recovered = 2
    second._receiver.counts.stretched = 1
    counters = {
        'voice_flooded_packets_total{engine="m"}': 2 * MAX_INBOX,
        'voice_heard_concealed_frames_total{engine="m"}': 7,
        'voice_heard_recovered_frames_total{engine="m"}': 2,
        'voice_heard_stretched_frames_total{engine="m"}': 1,
    }
    delay = first.target_ms / 1000
    assert told(lines) == counters | {
        'voice_calls{engine="m"}': 2,
        'voice_calls_expected_loss_ratio{engine="m"}': (first.expected_loss + 5) / 100,
        'voice_calls_jitter_target_seconds{engine="m"}': 2 * delay,
    }
    assert first.expected_loss > 5
    for number in (1, 1, 2, 3):
        lines.remove(number)
    assert told(lines) == counters | {
        'voice_calls{engine="m"}': 0,
        'voice_calls_expected_loss_ratio{engine="m"}': 0,
        'voice_calls_jitter_target_seconds{engine="m"}': 0,
    }


def test_each_live_call_by_its_number() -> None:
    lines = CallLines()
    for number in (3, 8):
        lines.add(number, line()[0])
    found = told(lines, sessions=True)
    assert found['voice_calls_expected_loss_ratio{engine="m",session="3"}'] == 0.05
    assert found['voice_heard_concealed_frames_total{engine="m",session="8"}'] == 0
    lines.remove(8)
    assert not any('session="8"' in name for name in told(lines, sessions=True))


def test_every_name_has_its_words() -> None:
    text = exposition(CallLines().families(ENGINE)).splitlines()
    helps = [one.split(" ", 3) for one in text if one.startswith("# HELP ")]
    kinds = dict(one.split(" ")[2:] for one in text if one.startswith("# TYPE "))
    assert {name for _, _, name, _ in helps} == set(kinds)
    for _, _, name, words in helps:
        assert (kinds[name] == "counter") == name.endswith("_total")
        assert words.endswith(".") and len(words) > 20
