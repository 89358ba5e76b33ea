"""A running Firefox: started with a profile of its own, reached over one BiDi session at a time.

start(config) ─▶ firefox --headless --remote-debugging-port=0
                 WebDriverBiDiServer.json in the profile says where it listens
attach() ─▶ session.new ... session.end
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from interop.browser import BrowserError
from interop.firefox.bidi import EVENTS, FirefoxBrowser
from interop.firefox.connection import BidiError, Connection, open_connection
from interop.firefox.profile import BINARIES, FirefoxConfig, write_profile
from interop.process import BrowserRun, find_binary

_WHERE = "WebDriverBiDiServer.json"
_NO_ROOM = "session not created"


class FirefoxProcess:
    """Made by `start`."""

    def __init__(self, config: FirefoxConfig) -> None:
        self._config = config
        self._run = _run(config)
        self._url = self._find_url()

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
        try:
            connection, version = await self._begin_session()
        except BidiError as error:
            if error.code != _NO_ROOM:
                raise
            # it has room for one session, which only its own socket can end: somebody was
            # interrupted before that
            await asyncio.to_thread(self._restart)
            connection, version = await self._begin_session()
        try:
            browser = FirefoxBrowser(connection, f"Firefox {version}")
            try:
                yield browser
            finally:
                await browser.close()
                with contextlib.suppress(BrowserError):
                    await connection.command("session.end", {})
        finally:
            await connection.close()

    async def _begin_session(self) -> tuple[Connection, str]:
        """Return a connection with a session, and the browser's version."""
        connection = await open_connection(f"{self._url}/session")
        try:
            created = await connection.command("session.new", {"capabilities": {}})
            await connection.command("session.subscribe", {"events": list(EVENTS)})
        except BaseException:
            await connection.close()
            raise
        return connection, str(created["capabilities"]["browserVersion"])

    def _find_url(self) -> str:
        try:
            where = self._run.wait_for(self._read_where, "WebDriver BiDi")
        except BaseException:
            self._run.stop()
            raise
        return f"ws://{where['ws_host']}:{where['ws_port']}"

    def _read_where(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self._run.profile / _WHERE).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None  # not written, or not to the end
        return found

    def _restart(self) -> None:
        self._run.stop()
        self._run = _run(self._config)
        self._url = self._find_url()

    def stop(self) -> None:
        """End it with its whole group. Harmless when repeated."""
        self._run.stop()


def _run(config: FirefoxConfig) -> BrowserRun:
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
    return BrowserRun("firefox", command, environment=environment)


@contextlib.contextmanager
def start(config: FirefoxConfig | None = None) -> Iterator[FirefoxProcess]:
    """Run a Firefox; it is gone afterwards. Raises BrowserError when it does not start."""
    process = FirefoxProcess(config or FirefoxConfig())
    try:
        yield process
    finally:
        process.stop()


@contextlib.asynccontextmanager
async def launch(config: FirefoxConfig | None = None) -> AsyncIterator[FirefoxBrowser]:
    """Start a Firefox for one event loop and connect to it."""
    with start(config) as process:
        async with process.attach() as browser:
            yield browser
