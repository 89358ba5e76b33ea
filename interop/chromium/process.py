"""A Chromium that runs: started with a profile of its own, ended with its process group."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from interop.chromium.browser import Chromium
from interop.chromium.cdp import Connection
from interop.chromium.flags import ChromiumConfig, command_line
from interop.process import BrowserRun, find_binary

BINARIES = ("chromium", "chromium-browser", "google-chrome")
_PORT_FILE = "DevToolsActivePort"


class ChromiumProcess:
    """Made by `start`."""

    def __init__(self, run: BrowserRun, endpoint: str) -> None:
        self._run = run
        self._endpoint = endpoint

    @property
    def pid(self) -> int:
        """The first process of its group."""
        return self._run.pid

    @property
    def folder(self) -> Path:
        """Where its profile and its log lie, until it ends."""
        return self._run.folder

    @contextlib.asynccontextmanager
    async def attach(self) -> AsyncIterator[Chromium]:
        """Connect to it; the tabs opened through this connection are closed in the end."""
        async with Connection.open(self._endpoint) as connection:
            browser = await Chromium.make(connection)
            try:
                yield browser
            finally:
                await browser.dispose()


@contextlib.contextmanager
def start(config: ChromiumConfig | None = None) -> Iterator[ChromiumProcess]:
    """Run Chromium; raises BrowserError when it is absent or does not start."""
    binary = find_binary(*BINARIES)
    wanted = config or ChromiumConfig()
    run = BrowserRun("chromium", lambda profile: command_line(binary, profile, wanted))
    try:
        port_file = run.profile / _PORT_FILE

        def endpoint() -> str | None:
            # two lines: the port, and the path of the browser's own socket
            lines = port_file.read_text().split("\n") if port_file.exists() else []
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}" if len(lines) > 1 and lines[1] else None

        yield ChromiumProcess(run, run.wait_for(endpoint, "DevTools port"))
    finally:
        run.stop()


@contextlib.asynccontextmanager
async def launch(config: ChromiumConfig | None = None) -> AsyncIterator[Chromium]:
    """Run Chromium and connect to it."""
    with start(config) as process:
        async with process.attach() as browser:
            yield browser
