"""The most urgent unit first, whatever came first."""

from __future__ import annotations

from collections.abc import Generator

from voice_backend.model import Slot
from voice_backend.models.jobs import MOST_WAITING, InlineRunner, Job, JobClass, JobQueue

A, B = Slot(0, 1), Slot(1, 2)


def work(log: list[str], name: str, units: int = 2) -> Generator[None, None, str]:
    for unit in range(units - 1):
        log.append(f"{name}{unit}")
        yield
    log.append(f"{name}.")
    return name


def job(
    log: list[str], name: str, kind: JobClass, *, slot: Slot = A, due: float = 0.0, units: int = 2
) -> Job:
    return Job(kind, slot, work(log, name, units), due=due)


def drain(queue: JobQueue) -> list[str]:
    while queue.run_unit():
        pass
    return [done.result for done in queue.finished()]


def test_class_comes_before_deadline() -> None:
    log: list[str] = []
    queue = JobQueue()
    queue.submit(job(log, "guess", JobClass.PARTIAL, slot=B, due=1.0))
    queue.submit(job(log, "later", JobClass.TURN, due=9.0))
    queue.submit(job(log, "sooner", JobClass.TURN, slot=B, due=5.0))
    assert drain(queue) == ["sooner", "later", "guess"]


def test_a_more_urgent_job_goes_between_two_units() -> None:
    log: list[str] = []
    queue = JobQueue()
    queue.submit(job(log, "long", JobClass.FINAL_TEXT, units=3))
    queue.run_unit()
    queue.submit(job(log, "first", JobClass.FIRST_SOUND, slot=B))
    assert drain(queue) == ["first", "long"]
    assert log == ["long0", "first0", "first.", "long1", "long."]


def test_of_guesses_the_latest_wins() -> None:
    log: list[str] = []
    queue = JobQueue()
    queue.submit(job(log, "old", JobClass.PARTIAL))
    queue.submit(job(log, "other", JobClass.PARTIAL, slot=B))
    queue.submit(job(log, "new", JobClass.PARTIAL))
    assert drain(queue) == ["other", "new"]
    assert queue.counts.dropped[JobClass.PARTIAL] == 1


def test_a_final_text_makes_a_guess_needless() -> None:
    log: list[str] = []
    queue = JobQueue()
    queue.submit(job(log, "guess", JobClass.PARTIAL))
    queue.submit(job(log, "final", JobClass.FINAL_TEXT))
    assert drain(queue) == ["final"]


def test_a_guess_that_is_waited_for_is_hurried() -> None:
    log: list[str] = []
    queue = JobQueue()
    queue.submit(job(log, "guess", JobClass.PARTIAL))
    queue.submit(job(log, "turn", JobClass.TURN, slot=B))
    queue.hurry(A, JobClass.FINAL_TEXT)
    queue.submit(job(log, "next", JobClass.PARTIAL))
    assert drain(queue) == ["guess", "turn", "next"]


def test_what_somebody_waits_for_comes_before_what_may_be_wanted() -> None:
    log: list[str] = []
    queue = JobQueue()
    for kind in (JobClass.PARTIAL, JobClass.AHEAD, JobClass.REFILL, JobClass.TURN):
        queue.submit(job(log, kind.name, kind))
    queue.submit(job(log, "HALTED", JobClass.HALTED, slot=B))
    assert drain(queue) == ["TURN", "REFILL", "AHEAD", "HALTED", "PARTIAL"]


def test_of_beginnings_the_latest_wins_and_is_hurried() -> None:
    log: list[str] = []
    queue = JobQueue()
    queue.submit(job(log, "old", JobClass.AHEAD))
    queue.submit(job(log, "new", JobClass.AHEAD))
    queue.submit(job(log, "guess", JobClass.HALTED))
    queue.submit(job(log, "turn", JobClass.TURN, slot=B))
    queue.hurry(A, JobClass.FIRST_SOUND)
    assert drain(queue) == ["new", "turn", "guess"]


def test_a_cancelled_job_ends_at_its_unit() -> None:
    log: list[str] = []
    queue = JobQueue()
    one = job(log, "one", JobClass.REFILL)
    queue.submit(one)
    queue.run_unit()
    one.cancelled = True
    assert drain(queue) == []
    assert log == ["one0"]


def test_a_slot_that_goes_takes_its_jobs_along() -> None:
    log: list[str] = []
    queue = JobQueue()
    for _ in range(3):
        queue.submit(job(log, "a", JobClass.REFILL, units=1))
    queue.run_unit()
    queue.submit(job(log, "b", JobClass.REFILL, slot=B))
    queue.drop(A)
    assert drain(queue) == ["b"]


def test_a_job_that_raises_is_told_and_the_rest_goes_on() -> None:
    def fault() -> Generator[None, None, None]:
        yield
        raise ValueError("no")

    log: list[str] = []
    queue = JobQueue()
    queue.submit(Job(JobClass.TURN, A, fault()))
    queue.submit(job(log, "b", JobClass.PARTIAL, slot=B))
    while queue.run_unit():
        pass
    failed, done = queue.finished()
    assert failed.error == "ValueError: no"
    assert done.result == "b"
    assert queue.counts.failed[JobClass.TURN] == 1


def test_a_slot_cannot_fill_the_queue() -> None:
    log: list[str] = []
    queue = JobQueue()
    for number in range(3 * MOST_WAITING):
        queue.submit(job(log, str(number), JobClass.FINAL_TEXT, due=number))
    assert queue.waiting == MOST_WAITING
    given_up = [one for one in queue.finished() if one.error]
    assert len(given_up) == 2 * MOST_WAITING, "nobody waits for what will never come"


def test_an_inline_runner_does_so_many_units_a_time() -> None:
    log: list[str] = []
    runner = InlineRunner(units=1)
    runner.submit(job(log, "a", JobClass.TURN))
    assert runner.finished() == []
    assert [one.result for one in runner.finished()] == ["a"]
