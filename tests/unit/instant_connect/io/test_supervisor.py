"""A parent and its processes: all serve, one dies, one drains, all end, and nobody is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from instant_connect.crew import CrewConfig, WorkerState
from instant_connect.io.membership import Membership
from instant_connect.io.supervisor import Supervisor, WorkersFailed
from instant_connect.keyring import Epoch, Keyring
from tests.unit.instant_connect.io.test_server import until
from tests.unit.io.support import HOST, play
from warp.entropy import SystemEntropy
from warp.errors import InvalidConfig

pytestmark = pytest.mark.slow

PROGRAMME = Path(__file__).with_name("worker_programme.py")
RING = Keyring.generate(SystemEntropy(), 1.79e9)
PATIENCE_S = 60.0


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
    return port


class Parent:
    """A supervisor that runs, and what it has said."""

    def __init__(self, how: str, **config: Any) -> None:
        self.said: list[str] = []
        self.stop = asyncio.Event()
        self.supervisor = Supervisor(
            [sys.executable, str(PROGRAMME), how],
            CrewConfig(**{"workers": 2, "backoff_s": 0.01, **config}),
            keyring=RING,
            settings={"port": free_port()},
            sockets={"extra": socket.socket()},
            say=self.said.append,
        )
        self.running = asyncio.create_task(self.supervisor.run(self.stop))

    async def until(self, condition: Any) -> None:
        await until(lambda: self.running.done() or condition(), PATIENCE_S)
        assert condition(), self.said

    def heard(self, text: str) -> int:
        return sum(text in line for line in self.said)


@asynccontextmanager
async def parent(how: str = "serve", **config: Any) -> AsyncIterator[Parent]:
    made = Parent(how, **config)
    pids: set[int] = set()
    try:
        if how == "serve":
            await made.until(made.supervisor.serving.is_set)
        pids |= set(made.supervisor.pids().values())
        yield made
    finally:
        pids |= set(made.supervisor.pids().values())
        made.stop.set()
        with contextlib.suppress(WorkersFailed):
            await asyncio.wait_for(made.running, PATIENCE_S)
        made.supervisor._sockets["extra"].close()
        assert made.supervisor.pids() == {}
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def test_all_serve_with_what_they_are_given_and_end_when_told() -> None:
    async def story() -> None:
        async with parent(first=7) as made:
            await made.until(lambda: made.heard("serving with ['extra'] and key 0") == 2)
            assert sorted(made.supervisor.pids()) == [7, 8]
            assert made.supervisor.state(7) is WorkerState.SERVING
            assert made.heard("worker 8 serves (process ") == 1
        assert made.heard("ended with key 0") == 2

    play(story)


def test_one_that_is_killed_is_replaced_and_the_others_stay() -> None:
    async def story() -> None:
        async with parent() as made:
            before = made.supervisor.pids()
            os.kill(before[1], signal.SIGKILL)
            await made.until(lambda: made.heard("worker 1 serves") == 2)
            after = made.supervisor.pids()
            assert after[0] == before[0]
            assert after[1] != before[1]
            assert made.heard("worker 1 is gone (it ended by SIGKILL); its calls are over") == 1

    play(story)


def test_other_keys_for_all_also_for_those_who_come_later() -> None:
    async def story() -> None:
        async with parent() as made:
            epoch = Epoch.generate(RING.next_key_id(), SystemEntropy(), 1.79e9)
            await made.supervisor.rotate(epoch)
            assert made.supervisor.keyring.current.key_id == epoch.key_id
            assert made.supervisor.keyring.previous is RING.current
            os.kill(made.supervisor.pids()[0], signal.SIGKILL)
            await made.until(lambda: made.heard("serving with ['extra'] and key 1") == 1)
        assert made.heard("ended with key 1") == 2

    play(story)


def test_one_that_drains_is_replaced_when_it_has_nobody() -> None:
    async def story() -> None:
        async with parent() as made:
            before = made.supervisor.pids()
            os.kill(before[0], signal.SIGUSR1)
            await made.until(lambda: made.heard("no new calls for worker 0") == 1)
            await made.until(lambda: made.heard("worker 0 serves") == 2)
            assert made.supervisor.pids()[0] != before[0]
            assert made.heard("is gone") == 0

    play(story)


def test_when_all_drain_the_last_one_ends_it() -> None:
    async def story() -> None:
        async with parent() as made:
            assert made.supervisor.drain() == [0, 1]
            assert made.supervisor.drain() == []
            await made.until(made.running.done)
            assert made.running.exception() is None

    play(story)


def test_one_that_says_why_it_does_not_serve_ends_it_at_once() -> None:
    async def story() -> None:
        async with parent("refuse") as made:
            await made.until(made.running.done)
            with pytest.raises(WorkersFailed, match=r"worker . does not live.*: the port is taken"):
                await made.running

    play(story)


def test_those_who_die_again_and_again_are_given_up() -> None:
    async def story() -> None:
        async with parent("die", max_restarts=3) as made:
            await made.until(made.running.done)
            what = "worker . does not live, 4 deaths within 60 s: it ended with status 3"
            with pytest.raises(WorkersFailed, match=what):
                await made.running
            assert "\n" not in str(made.running.exception())

    play(story)


def test_one_that_is_never_ready_is_not_waited_for() -> None:
    async def story() -> None:
        made = Parent("serve", start_timeout_s=0.001)
        with pytest.raises(WorkersFailed, match=r"it was not ready within 0\.001 s"):
            await made.running
        made.supervisor._sockets["extra"].close()

    play(story)


def test_one_that_does_not_listen_is_killed_at_the_end() -> None:
    async def story() -> None:
        async with parent("stay", stop_timeout_s=0.1) as made:
            await made.until(lambda: made.heard("serves") == 2)

    play(story)


def test_a_programme_that_is_not_there() -> None:
    async def story() -> None:
        supervisor = Supervisor(
            ["/no/such/programme"], CrewConfig(workers=2), keyring=RING, settings={}
        )
        with pytest.raises(WorkersFailed, match="it cannot be started: No such file"):
            await supervisor.run(asyncio.Event())

    play(story)


def test_when_the_parent_is_gone_so_are_its_workers() -> None:
    """As when somebody kills it: they read the end of their streams."""

    async def story() -> None:
        async with parent() as made:
            pids = list(made.supervisor.pids().values())
            for worker in made.supervisor._workers.values():
                assert worker.control is not None
                worker.control._writer.transport.abort()
            await made.until(lambda: not set(pids) & set(made.supervisor.pids().values()))

    play(story)


def test_a_worker_without_a_parent_is_told_so() -> None:
    async def story() -> None:
        ours, theirs = socket.socketpair()
        ours.close()
        with pytest.raises(InvalidConfig, match="no parent has put a task"):
            await Membership.join(theirs.detach())
        reader, writer = os.pipe()
        with pytest.raises(InvalidConfig, match="is no socket of a parent"):
            await Membership.join(reader)
        os.close(writer)

    play(story)
