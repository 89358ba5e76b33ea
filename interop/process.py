"""A browser as a process: its own profile, its own process group, ended by its id.

BrowserRun(name, lambda profile: [binary, ...]) ─▶ profile in a temporary folder, log beside it
stop() ─▶ SIGTERM to the group, SIGKILL to what stays, the folder is removed
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from interop.browser import BrowserError

START_S = 30.0
END_S = 5.0
_POLL_S = 0.02
_LOG_TAIL = 4000

T = TypeVar("T")


def find_binary(*names: str) -> str:
    """Return the path of the first of these programs; raises BrowserError naming them."""
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    raise BrowserError(f"not installed: {' or '.join(names)} (apt-get install {names[0]})")


class BrowserRun:
    """A started browser; `stop()` ends it and all of its children."""

    def __init__(
        self,
        name: str,
        command: Callable[[Path], Sequence[str]],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"warp-{name}-"))
        self.profile = self.folder / "profile"
        self.profile.mkdir()
        self._name = name
        self._log = self.folder / "log"
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    list(command(self.profile)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # what it leaves in the folder for temporary files goes with ours
                    env={**os.environ, "TMPDIR": str(self.folder), **(environment or {})},
                    start_new_session=True,
                )
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def pid(self) -> int:
        """The first process of the group, whose id is the group's."""
        return self._process.pid

    def log(self) -> str:
        """Return the end of what the browser has printed."""
        return self._log.read_text(errors="replace")[-_LOG_TAIL:]

    def wait_for(self, look: Callable[[], T | None], what: str) -> T:
        """Return what `look` finds; raises BrowserError when the browser ends or takes too long."""
        end = time.monotonic() + START_S
        while (found := look()) is None:
            code = self._process.poll()
            if code is not None:
                raise BrowserError(f"{self._name} ended with {code}, without {what}: {self.log()}")
            if time.monotonic() > end:
                raise BrowserError(f"{self._name}: no {what} after {START_S:g} s: {self.log()}")
            time.sleep(_POLL_S)
        return found

    def stop(self) -> None:
        """End the whole process group and remove the profile. Harmless when repeated."""
        self._signal(signal.SIGTERM)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        finally:
            # children may outlive the first process
            self._signal(signal.SIGKILL)
            self._process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return
