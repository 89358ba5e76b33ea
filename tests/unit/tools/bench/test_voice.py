from __future__ import annotations

import asyncio
import builtins
import itertools
import os
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from warp_tools.bench import standstill, voice
from warp_tools.bench.lossy_path import LossyPath
from warp_tools.bench.neighbours import Neighbours
from warp_tools.bench.voice_caller import Plan, Question
from warp_tools.bench.voice_path import open_path
from warp_tools.bench.voice_plot import plot, require_plot
from warp_tools.bench.voice_report import Trial, VoiceReport
from warp_tools.bench.voice_stages import STAGES, Reply, Told, medians, split
from warp_tools.failure import ToolFailure

RTP, RTCP, STUN = b"\x80\x6f" + bytes(50), b"\x80\xc8" + bytes(50), bytes(60)


def trial(sessions: int, late: int = 0, **given: Any) -> Trial:
    figures: dict[str, Any] = {
        "sessions": sessions,
        "frames": 3_000 * sessions,
        "late": late,
        "late_by_cause": {"input_wait": 0, "queue": late, "model": 0, "encode": 0, "pacer": 0},
        "missing_ms": 0,
        "longest_late_run": late,
        "reply_ms": {"p50": 400.0, "p95": 800.0},
        "stages_ms": dict.fromkeys(STAGES, 50.0),
        "barge_in_ms": {"p50": 40.0, "p95": 55.0},
        "barge_in_heard_ms": {"p50": 80.0, "p95": 95.0},
        "replies": 10,
        "unanswered": 0,
        "overlaps": 1,
        "calls": sessions,
        "refused": 0,
        "tick_p99_ms": 3.0,
        "server_mib": 300,
        "neighbours_cores": 0.1,
        "standstill_ms": 4.0,
    }
    return Trial(**{**figures, **given})


def test_the_capacity_is_the_largest_number_without_a_late_frame(tmp_path: Path) -> None:
    report = VoiceReport(0.01, [trial(16), trial(24, late=3), trial(20), trial(28, refused=1)])
    told = report.to_json()
    assert told["sessions_no_late"] == 20
    assert told["reply_ms"] == {"p50": 400.0, "p95": 800.0}
    assert told["barge_in_ms"] == {"p50": 40.0, "p95": 55.0}
    assert list(told["stages_ms"]) == list(STAGES)
    assert told["late_by_cause"]["queue"] == 0
    assert told["targets_met"] is True
    report.latencies = {16: [380.0, 420.0], 20: [500.0], 24: []}
    plot(report, tmp_path / "voice.png")
    assert (tmp_path / "voice.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_missed_is_said() -> None:
    report = VoiceReport(0.01, [trial(16, late=1, reply_ms={"p50": 400.0, "p95": 901.0}), trial(8)])
    assert report.to_json()["misses"] == [
        "sessions without a late frame: 8 (target >= 16)",
        "ms to an answer, p95: 901 (target <= 900)",
    ]
    assert not VoiceReport(0.01).targets_met


def test_without_matplotlib_it_is_said_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ToolFailure, match="pip install"):
        require_plot()
    with pytest.raises(ToolFailure, match="matplotlib"):
        asyncio.run(voice.run())


class Bench:
    """Trials without anybody who talks: so many are carried, and the machine is noisy or not."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, carried: int, noisy: tuple[int, ...] = ()
    ) -> None:
        self.tried: list[int] = []
        once = set(noisy)

        async def attempt(bench: Any, sessions: int, held_s: float) -> Trial:
            self.tried.append(sessions)
            spoilt = sessions in once
            once.discard(sessions)
            cores = 1.0 if spoilt else 0.1
            found = trial(sessions, int(spoilt or sessions > carried), neighbours_cores=cores)
            bench.report.trials.append(found)
            return found

        silence = Question([b"x"], 0, 1)
        plan = Plan(questions=[silence], long=silence, silence=b"x")
        monkeypatch.setattr(voice, "plan_of", lambda phrases, long: plan)
        monkeypatch.setattr(voice._Bench, "_try", attempt)
        self.report = asyncio.run(voice.run())


def test_the_search_begins_at_the_target_and_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    for carried, tried in ((21, [16, 28, 24, 20]), (5, [16, 4, 12, 8]), (40, [16, 28, 32])):
        found = Bench(monkeypatch, carried)
        assert (found.report.best or trial(0)).sessions == max(
            step for step in voice.STEPS if step <= carried
        )
        assert found.tried == tried


def test_a_number_that_a_neighbour_spoils_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Bench(monkeypatch, 40, noisy=(16,))
    assert found.tried == [16, 16, 28, 32]
    assert found.report.to_json()["sessions_no_late"] == 32
    (remark,) = found.report.remarks
    assert "1.0 cores busy" in remark and "tried once more" in remark

    found = Bench(monkeypatch, 40, noisy=(16, 28))
    assert found.tried.count(28) == 1, "once in a run"
    assert "quiet machine" in found.report.remarks[-1]


def test_a_machine_that_stood_still_is_named_before_its_neighbours() -> None:
    assert not trial(16, late=3).is_noisy
    assert not trial(16, late=3, neighbours_cores=None, standstill_ms=None).is_noisy
    both = trial(16, late=3, neighbours_cores=1.0, standstill_ms=25.4)
    assert both.disturbance == "the machine stood still for 25 ms"


def test_a_standstill_is_seen_by_whoever_comes_before_everything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = itertools.chain([0.0, 0.0, 0.004, 0.004, 0.033], itertools.repeat(0.033))
    monkeypatch.setattr(standstill.time, "monotonic", lambda: next(now))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            watch._ended.set()

    monkeypatch.setattr(standstill.time, "sleep", sleep)
    for name in ("sched_setaffinity", "sched_setscheduler"):
        monkeypatch.setattr(standstill.os, name, lambda *_: None, raising=False)
    monkeypatch.setattr(standstill.threading.Thread, "start", lambda thread: None)
    watch = standstill.Watch(0)
    watch._run()
    assert watch.longest_s == pytest.approx(0.025)


@pytest.mark.slow
def test_the_watch_runs_and_ends() -> None:
    async def test() -> float | None:
        return await (await standstill.Standstill.begin()).end()

    longest_ms = asyncio.run(test())
    assert longest_ms is None or longest_ms >= 0


def test_neighbours_are_what_is_busy_and_not_ours(tmp_path: Path) -> None:
    def write(user: int, ours: int, child: int, other: int) -> None:
        (tmp_path / "stat").write_text(f"cpu {user} 0 0 1000 7 0 0 0 0 0\ncpu0 1\n")
        for pid, parent, spent in ((os.getpid(), 1, ours), (999_991, os.getpid(), child),
                                   (999_992, 1, other)):  # fmt: skip
            (tmp_path / str(pid)).mkdir(exist_ok=True)
            fields = f"{pid} (a) name) S {parent} " + "0 " * 9 + f"{spent} 0 0 0 0"
            (tmp_path / str(pid) / "stat").write_text(fields)

    write(1_000, 100, 50, 400)
    watch = Neighbours(tmp_path)
    watch._began -= 10.0
    write(3_000, 600, 550, 1_400)
    cores = watch.cores()
    assert cores == pytest.approx(10 * 100 / os.sysconf("SC_CLK_TCK") / 10.0, rel=0.01)
    assert Neighbours(tmp_path / "nowhere").cores() is None


COURSE = {
    "speech_end_ms": 3_060,
    "asked_ms": 3_160,
    "ended_ms": 3_220,
    "heard_ms": 3_220,
    "made_ms": 3_240,
    "lead_ms": 10,
}


def test_the_stages_of_an_answer_add_up() -> None:
    told = Told(call=1, origin=100.04, begun_ms=3_240, delay_ms=40.0, course=COURSE)
    reply = Reply(over=103.0, onset=103.35)
    found = split(reply, [told])
    assert found is not None
    assert list(found) == list(STAGES)
    assert sum(found.values()) == pytest.approx(reply.ms)
    assert found["end_of_speech"] == pytest.approx(60.0)
    assert (found["pause"], found["turn_model"], found["talker_and_mouth"]) == (100, 60, 20)
    assert found["way_out"] == pytest.approx(60.0)


def test_stages_are_of_the_answer_that_was_heard() -> None:
    luck = random.Random(1)
    told = [
        Told(call=call, origin=0.0, begun_ms=begun, delay_ms=float(call), course=COURSE)
        for call in (1, 2)
        for begun in (3_240, 9_000)
    ]
    luck.shuffle(told)
    assert medians({2: [Reply(3.0, 3.4)]}, told)["jitter_buffer"] == 2.0
    assert medians({2: [Reply(5.0, 5.4)]}, told) == {}
    assert medians({}, []) == {}


def test_media_alone_is_lost() -> None:
    path = LossyPath(9, 1.0, 1)
    assert [path._is_lost(data) for data in (RTP, RTCP, STUN, b"")] == [True, False, False, False]
    path.close()


def test_a_path_leads_each_client_to_the_server_and_back() -> None:
    async def test() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(10)
            async with open_path(server.getsockname()[1], 0.0, 1) as front:
                clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
                for number, client in enumerate(clients):
                    client.settimeout(10)
                    client.sendto(bytes([number]) * 20, ("127.0.0.1", front))
                    data, source = server.recvfrom(100)
                    server.sendto(data + b"!", source)
                for number, client in enumerate(clients):
                    assert client.recv(100) == bytes([number]) * 20 + b"!"
                    client.close()

    asyncio.run(test())
