"""Runs shims as forks of a process that has imported everything already.

The interpreter and `cryptography` take longer to start than a test takes to run. Called by the
suite, whose process has no threads; each test still has a process of its own.

    launcher ─▶ accept() ─▶ fork ─▶ shim.main(flags), its outputs those of the launcher
             ◀─ exit status ───────┘
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

_CRASHED = 90  # to the runner: a failure that no test can want
_LAUNCHER = Path(__file__).with_name("launcher.py")


class Zygote:
    """A socket in `folder` at which launchers ask for forks; `program` is the path to start."""

    def __init__(self, folder: Path, main: Callable[[Sequence[str]], int]) -> None:
        self._main = main
        self._children: set[int] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = folder / "zygote"
        self._socket.bind(str(path))
        self._socket.listen(64)
        self.program = folder / "shim"
        self.program.write_text(
            f"#!/bin/sh\nexec '{sys.executable}' -IS '{_LAUNCHER}' '{path}' \"$@\"\n"
        )
        self.program.chmod(0o700)

    def fileno(self) -> int:
        """Ready for reading when a launcher waits."""
        return self._socket.fileno()

    def serve(self) -> None:
        """Fork for one launcher."""
        self._reap()
        connection, _ = self._socket.accept()
        with connection:
            pid = os.fork()
            if pid:
                self._children.add(pid)
                return
            self._run(connection)

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        self._reap()
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._children.clear()

    def _reap(self) -> None:
        for pid in list(self._children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._children.discard(pid)

    def _run(self, connection: socket.socket) -> None:
        """Be the shim. Never returns."""
        status = _CRASHED
        try:
            flags = _take_over(connection)
            status = self._main(flags)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            with contextlib.suppress(OSError):
                connection.sendall(bytes((status,)))
            os._exit(status)


def _take_over(connection: socket.socket) -> list[str]:
    """Return the launcher's flags, and write where it writes."""
    data, outputs, _, _ = socket.recv_fds(connection, 1 << 16, 2)
    for target, received in zip((1, 2), outputs, strict=True):
        os.dup2(received, target)
        os.close(received)
    wanted = 4 + int.from_bytes(data[:4], "big")
    while len(data) < wanted:
        more = connection.recv(wanted - len(data))
        if not more:
            raise ConnectionError("the launcher has gone")
        data += more
    return os.fsdecode(data[4:]).split("\0")
