"""The parent of the processes that share a port: starts them, tells them, starts them again.

    run ─▶ a process for each number ─ ready ─▶ roster to all ─ noted ─▶ it is asked
           rotate ─▶ the next keys to all ─ noted ─▶ seal with them
           a process dies ─▶ roster to all, another one (`crew`)       too often ─▶ WorkersFailed
           stop ─▶ all are told ─ 0.7 s ─▶ those left are killed

It reads no datagram and answers no request: whatever it does, calls go on. If it dies itself, its
workers read the end of their control stream and end. Called by `warp serve --workers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from instant_connect.crew import Crew, CrewConfig, WorkerState
from instant_connect.io.cluster import make_inbox
from instant_connect.io.control import Control, Line
from instant_connect.keyring import Epoch, Keyring

Say = Callable[[str], object]


class WorkersFailed(Exception):
    """The processes do not live: what the last one said, in one line."""


class _Worker:
    """One place in the crew, whoever is in it."""

    __slots__ = ("control", "failure", "inbox", "is_told_to_end", "mailbox", "noted", "process")

    def __init__(self) -> None:
        self.inbox, self.mailbox = make_inbox()
        self.process: Process | None = None
        self.control: Control | None = None
        self.noted = 0
        self.failure = ""
        self.is_told_to_end = False

    def end(self) -> None:
        """Kill whoever is there."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    def empty(self) -> None:
        """Forget what nobody has read."""
        while True:
            try:
                _, files, _, _ = socket.recv_fds(self.inbox, 65_536, 4)
            except OSError:
                return
            for number in files:
                socket.socket(fileno=number).close()


class Supervisor:
    """Runs `command` with the number of a descriptor as its last argument, once a worker.

    `settings` go to every worker as they are (JSON values), `sockets` are inherited by all.
    """

    __slots__ = (
        "_command",
        "_config",
        "_crew",
        "_drains",
        "_failed",
        "_has_served",
        "_keyring",
        "_keyring_serial",
        "_news",
        "_say",
        "_settings",
        "_sockets",
        "_stopping",
        "_workers",
        "serving",
    )

    def __init__(
        self,
        command: Sequence[str],
        config: CrewConfig,
        *,
        keyring: Keyring,
        settings: Mapping[str, Any],
        sockets: Mapping[str, socket.socket] | None = None,
        say: Say = lambda _: None,
    ) -> None:
        self._command: Final = tuple(command)
        self._config: Final = config
        self._crew: Final = Crew(config)
        self._keyring = keyring
        self._keyring_serial = 0
        self._settings: Final = dict(settings)
        self._sockets: Final = dict(sockets or {})
        self._say = say
        self._has_served = False
        self._stopping = False
        self._drains = False
        self._news = asyncio.Event()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._workers = {number: _Worker() for number in config.numbers}
        self.serving: Final = asyncio.Event()
        """Set once all workers serve."""

    def pids(self) -> dict[int, int]:
        """Return the process of every worker that has one, by number."""
        return {
            number: worker.process.pid
            for number, worker in self._workers.items()
            if worker.process is not None and worker.process.returncode is None
        }

    def state(self, number: int) -> WorkerState:
        """Return where a worker is."""
        return self._crew.state(number)

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the workers running until `stop` is set, or all have drained and ended.

        Raises `WorkersFailed` when they do not live. No process is left in any case.
        """
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._keep(number)) for number in self._workers]
        admitting = loop.create_task(self._admit())
        stopping = loop.create_task(stop.wait())
        drained = asyncio.gather(*tasks)
        ends: list[asyncio.Future[Any]] = [drained, stopping, self._failed]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping = True
            await self._end_all()
            for task in (*tasks, admitting, stopping):
                task.cancel()
            await asyncio.gather(*tasks, admitting, stopping, return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):
                await drained
            for worker in self._workers.values():
                worker.inbox.close()
                worker.mailbox.close()
        if self._failed.done():
            raise WorkersFailed(self._failed.result())

    async def _end_all(self) -> None:
        """Tell everybody to end; who does not is killed."""
        self._tell_all(stop=True)
        processes = [w.process for w in self._workers.values() if w.process is not None]
        waits = [asyncio.ensure_future(process.wait()) for process in processes]
        if waits:
            await asyncio.wait(waits, timeout=self._config.stop_timeout_s)
        for worker in self._workers.values():
            worker.end()
        await asyncio.gather(*waits)

    # -- one worker ---------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Keep one place filled, until its worker has drained for good."""
        worker, crew = self._workers[number], self._crew
        loop = asyncio.get_running_loop()
        while not self._stopping:
            crew.start(number)
            status = await self._run_one(number, worker)
            in_order = worker.is_told_to_end
            wait_s = crew.end(number, loop.time(), in_order=in_order)
            if self._stopping:
                return
            self._tell_roster()
            if not in_order:
                what = worker.failure or _ending(status)
                if wait_s is None or (worker.failure and not self._has_served):
                    self._give_up(number, what)
                    return
                self._say(f"worker {number} is gone ({what}); its calls are over")
            if self._drains:
                return
            worker.empty()
            await asyncio.sleep(wait_s or 0.0)

    def _give_up(self, number: int, what: str) -> None:
        if not self._failed.done():
            deaths = self._crew.deaths
            often = f", {deaths} deaths within {self._config.within_s:g} s" if deaths > 1 else ""
            self._failed.set_result(f"worker {number} does not live{often}: {what}")

    async def _run_one(self, number: int, worker: _Worker) -> int:
        """Start a process, do what it asks, and return its status when it has ended."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        peers = {n: other.mailbox for n, other in self._workers.items() if n != number}
        inherited = [theirs, worker.inbox, *peers.values(), *self._sockets.values()]
        worker.failure, worker.is_told_to_end, worker.noted = "", False, 0
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(theirs.fileno()),
                stdin=DEVNULL,
                pass_fds=[sock.fileno() for sock in inherited],
                # Ctrl-C is for us, who tell them
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            worker.failure = f"it cannot be started: {error.strerror}"
            return 127
        finally:
            theirs.close()
        worker.process = process
        worker.control = await Control.open(ours)
        worker.control.send(
            number=number,
            keyring=self._keyring.to_text(),
            settings=self._settings,
            inbox=worker.inbox.fileno(),
            peers={n: sock.fileno() for n, sock in peers.items()},
            sockets={name: sock.fileno() for name, sock in self._sockets.items()},
        )
        timer = asyncio.get_running_loop().call_later(
            self._config.start_timeout_s, self._give_no_more_time, number, process
        )
        try:
            async for line in worker.control:
                self._receive(number, worker, line)
            # asyncio loses the status of a process that is killed just as it ends by itself
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(process.wait(), self._config.stop_timeout_s)
            worker.end()  # whoever cannot be told anything any more is of no use
            return await process.wait()
        finally:
            timer.cancel()
            worker.end()
            worker.control.close()
            worker.control = None

    def _give_no_more_time(self, number: int, process: Process) -> None:
        worker = self._workers[number]
        if worker.process is process and self._crew.state(number) is WorkerState.STARTING:
            worker.failure = f"it was not ready within {self._config.start_timeout_s:g} s"
            worker.end()

    def _receive(self, number: int, worker: _Worker, line: Line) -> None:
        crew = self._crew
        if "ready" in line:
            crew.ready(number)
            self._tell_roster()
        elif "noted" in line:
            crew.note(number, line["noted"])
            self._news.set()
        elif "noted_keyring" in line:
            worker.noted = line["noted_keyring"]
            self._news.set()
        elif "say" in line:
            self._say(f"worker {number}: {line['say']}")
        elif "failure" in line:
            worker.failure = str(line["failure"])
        elif "drain" in line:
            self.drain([number])
        elif "empty" in line and crew.state(number) is WorkerState.DRAINING:
            worker.is_told_to_end = True
            self._tell(worker, stop=True)

    # -- all of them --------------------------------------------------------------------------

    async def _admit(self) -> None:
        """Let those who are ready be asked, once all others have noted it."""
        while True:
            await self._until(lambda: bool(self._crew.joining), None)
            serial = self._crew.serial
            await self._until(partial(self._is_settled, serial), self._config.note_timeout_s)
            if self._crew.serial != serial:
                continue
            for number in self._crew.joining:
                pid = self.pids().get(number)
                self._say(f"worker {number} serves (process {pid})")
            self._crew.admit()
            self._tell_roster()
            if not self._crew.numbers(WorkerState.STARTING, WorkerState.JOINING):
                self._has_served = True
                self.serving.set()

    def _is_settled(self, serial: int) -> bool:
        return self._crew.all_have_noted or self._crew.serial != serial

    async def _until(self, condition: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait for something that workers bring about, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._news.clear()
                    await self._news.wait()

    def _tell_roster(self) -> None:
        self._tell_all(roster=self._crew.to_json())
        self._news.set()

    def _tell_all(self, **fields: Any) -> None:
        for worker in self._workers.values():
            self._tell(worker, **fields)

    def _tell(self, worker: _Worker, **fields: Any) -> None:
        if worker.control is not None and not worker.control.send(**fields):
            worker.failure = "it did not listen any more"
            worker.end()

    def drain(self, numbers: Sequence[int] | None = None) -> list[int]:
        """Have workers (None: all) take no new sessions; return those that this changes.

        One that has none left is replaced; when all drain, `run` returns with the last one.
        """
        self._drains |= numbers is None
        changed = self._crew.drain(numbers)
        if changed:
            self._tell_roster()
            self._say(f"no new calls for worker {', '.join(map(str, changed))}")
        return changed

    async def rotate(self, epoch: Epoch) -> None:
        """Seal tickets with other keys: first all accept them, then all use them."""
        await self.replace_keys(self._keyring.stage(epoch))
        await self.replace_keys(self._keyring.rotate())

    @property
    def keyring(self) -> Keyring:
        """The keys that all workers have."""
        return self._keyring

    async def replace_keys(self, keyring: Keyring) -> None:
        """Give all workers another keyring, and wait until they have it. One call at a time."""
        self._keyring = keyring
        self._keyring_serial += 1
        serial = self._keyring_serial
        self._tell_all(keyring=keyring.to_text(), serial=serial)
        await self._until(
            lambda: all(
                worker.noted >= serial
                for number, worker in self._workers.items()
                if self._crew.state(number) in (WorkerState.SERVING, WorkerState.DRAINING)
            ),
            self._config.note_timeout_s,
        )


def _ending(status: int) -> str:
    """Return how a process has ended."""
    if status >= 0:
        return f"it ended with status {status}"
    try:
        return f"it ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"it ended by signal {-status}"
