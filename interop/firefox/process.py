"""A running Firefox: started with a profile of its own, reached over one BiDi session at a time.

start(config) ─▶ firefox --headless --remote-debugging-port=0
                 WebDriverBiDiServer.json in the profile says where it listens
attach() ─▶ session.new ... session.end: it has room for one
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from interop.browser import BrowserError
from interop.firefox.bidi import EVENTS, FirefoxBrowser
from interop.firefox.connection import Connection, open_connection
from interop.firefox.profile import BINARIES, FirefoxConfig, write_profile
from interop.process import BrowserRun, find_binary

_WHERE = "WebDriverBiDiServer.json"


class FirefoxProcess:
    """Made by `start`."""

    def __init__(self, run: BrowserRun, url: str) -> None:
        self._run = run
        self._url = url
        self._session: str | None = None

    @property
    def pid(self) -> int:
        """The first process of its group."""
        return self._run.pid

    def log(self) -> str:
        """Return the end of what it has printed."""
        return self._run.log()

    @contextlib.asynccontextmanager
    async def attach(self) -> AsyncIterator[FirefoxBrowser]:
        """Connect from the running event loop; its tabs are closed afterwards."""
        await self._end_stale_session()
        connection = await open_connection(f"{self._url}/session")
        try:
            created = await connection.command("session.new", {"capabilities": {}})
            self._session = str(created["sessionId"])
            await connection.command("session.subscribe", {"events": list(EVENTS)})
            capabilities = created["capabilities"]
            browser = FirefoxBrowser(connection, f"Firefox {capabilities['browserVersion']}")
            try:
                yield browser
            finally:
                await browser.close()
                await self._end_session(connection)
        finally:
            await connection.close()

    async def _end_session(self, connection: Connection) -> None:
        with contextlib.suppress(BrowserError):
            await connection.command("session.end", {})
            self._session = None

    async def _end_stale_session(self) -> None:
        """End what a cancelled `attach` has left: there is only one session, and it outlives us."""
        if self._session is None:
            return
        connection = await open_connection(f"{self._url}/session/{self._session}")
        try:
            await self._end_session(connection)
        finally:
            await connection.close()


@contextlib.contextmanager
def start(config: FirefoxConfig | None = None) -> Iterator[FirefoxProcess]:
    """Run a Firefox; it is gone afterwards. Raises BrowserError when it does not start."""
    config = config or FirefoxConfig()
    binary = find_binary(*((config.binary,) if config.binary else BINARIES))

    def command(profile: Path) -> list[str]:
        write_profile(config, profile)
        return [
            binary,
            "--headless",
            "--no-remote",
            "--profile",
            str(profile),
            "--remote-debugging-port=0",
            "about:blank",
        ]

    environment = {
        "MOZ_CRASHREPORTER_DISABLE": "1",
        "MOZ_DISABLE_AUTO_SAFE_MODE": "1",
        **config.environment,
    }
    run = BrowserRun("firefox", command, environment=environment)
    try:
        where = run.wait_for(lambda: _read_where(run.profile / _WHERE), "WebDriver BiDi")
        yield FirefoxProcess(run, f"ws://{where['ws_host']}:{where['ws_port']}")
    finally:
        run.stop()


def _read_where(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None  # not written, or not to the end
    return found


@contextlib.asynccontextmanager
async def launch(config: FirefoxConfig | None = None) -> AsyncIterator[FirefoxBrowser]:
    """Start a Firefox for one event loop and connect to it."""
    with start(config) as process:
        async with process.attach() as browser:
            yield browser
