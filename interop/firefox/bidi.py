"""A BiDi session as `interop.browser` wants it: tabs, calls into them, what they complain of."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import Any

from interop.browser import (
    PATIENCE_S,
    BrowserError,
    PageCrashed,
    PageFailed,
    call_expression,
)
from interop.firefox.connection import BidiError, Connection

EVENTS = (
    "browsingContext.contextDestroyed",
    "browsingContext.navigationCommitted",
    "browsingContext.navigationStarted",
    "log.entryAdded",
    "network.fetchError",
    "network.responseCompleted",
)
_GONE_CODES = ("no such frame", "unknown error")
_REFUSED = 400

Gone = asyncio.Future[None]


class FirefoxPage:
    """A tab."""

    def __init__(self, connection: Connection, context: str) -> None:
        self._connection = connection
        self._context = context
        self._gone: Gone = asyncio.get_running_loop().create_future()
        self._unloaded: Gone = asyncio.get_running_loop().create_future()
        self._loading = False
        self._errors: list[str] = []
        connection.subscribers[context] = self._receive

    @property
    def errors(self) -> list[str]:
        """What the page has reported as errors, in order."""
        return self._errors

    @property
    def is_open(self) -> bool:
        """Whether the tab is still there."""
        return not self._gone.done()

    async def call(self, name: str, /, *arguments: Any, timeout_s: float = PATIENCE_S) -> Any:
        """Call a function of the page's `interop`; see `interop.browser.Page`."""
        return await self.evaluate(call_expression(name, arguments), timeout_s=timeout_s)

    async def evaluate(self, expression: str, *, timeout_s: float = PATIENCE_S) -> Any:
        """Return the JSON value of an expression, awaited when it is a promise."""
        result = await self._command(
            "script.evaluate",
            {
                "expression": f"(async () => JSON.stringify(await ({expression})))()",
                "awaitPromise": True,
                "target": {"context": self._context},
                "userActivation": True,
            },
            timeout_s=timeout_s,
            ends=self._unloaded,
        )
        if result["type"] == "exception":
            details = result["exceptionDetails"]
            raise PageFailed(f"{details['text']} (line {details['lineNumber']})")
        value = result["result"]
        return json.loads(value["value"]) if value["type"] == "string" else None

    async def reload(self) -> None:
        """Load the page again; returns when it is complete."""
        await self._command(
            "browsingContext.reload", {"context": self._context, "wait": "complete"}
        )

    async def goto(self, url: str) -> None:
        """Load another address; returns when it is complete."""
        await self._command(
            "browsingContext.navigate", {"context": self._context, "url": url, "wait": "complete"}
        )

    async def screenshot(self) -> bytes:
        """Return a picture of the visible part (PNG)."""
        result = await self._command(
            "browsingContext.captureScreenshot", {"context": self._context}
        )
        return base64.b64decode(result["data"])

    async def close(self) -> None:
        """Close the tab. Harmless when repeated."""
        self._leave()
        with contextlib.suppress(BrowserError):
            await self._connection.command("browsingContext.close", {"context": self._context})

    def _leave(self) -> None:
        self._connection.subscribers.pop(self._context, None)
        for end in (self._gone, self._unloaded):
            if not end.done():
                end.set_result(None)

    def _receive(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "browsingContext.contextDestroyed":
            self._leave()
        elif method == "browsingContext.navigationStarted":
            # what runs in the old document will never be answered
            self._unloaded.set_result(None)
            self._unloaded = asyncio.get_running_loop().create_future()
            self._loading = True
        elif method == "browsingContext.navigationCommitted":
            if not self._loading:
                # nobody has asked for another document: it is the one that tells of a crash
                self._leave()
            self._loading = False
        elif method == "log.entryAdded":
            if parameters["level"] == "error":
                self._errors.append(f"{parameters['type']}: {parameters['text']}")
        elif method == "network.fetchError":
            url = parameters["request"]["url"]
            self._errors.append(f"network: {parameters['errorText']}: {url}")
        elif method == "network.responseCompleted":
            status, url = parameters["response"]["status"], parameters["response"]["url"]
            if status >= _REFUSED:
                self._errors.append(f"network: {status}: {url}")

    async def _command(
        self,
        method: str,
        parameters: dict[str, Any],
        *,
        timeout_s: float = PATIENCE_S,
        ends: Gone | None = None,
    ) -> dict[str, Any]:
        """Give a command that is worth waiting for only while the tab (or `ends`) is there."""
        if not self.is_open:
            raise PageCrashed("the tab is closed")
        command = asyncio.ensure_future(
            self._connection.command(method, parameters, timeout_s=timeout_s)
        )
        try:
            end = ends or self._gone
            await asyncio.wait((command, end), return_when=asyncio.FIRST_COMPLETED)
            if not command.done():
                raise PageCrashed(f"the page went away during {method}")
            return command.result()
        except BidiError as error:
            # what the tab's process was asked for dies with it, or with its document
            if error.code in _GONE_CODES:
                raise PageCrashed(str(error)) from error
            raise
        finally:
            command.cancel()
            await asyncio.gather(command, return_exceptions=True)


class FirefoxBrowser:
    """One session of a running Firefox."""

    def __init__(self, connection: Connection, version: str) -> None:
        self._connection = connection
        self._version = version
        self._pages: list[FirefoxPage] = []

    @property
    def version(self) -> str:
        """Name and version."""
        return self._version

    async def open(self, url: str) -> FirefoxPage:
        """Open a tab and return it when the page is complete."""
        created = await self._connection.command("browsingContext.create", {"type": "tab"})
        page = FirefoxPage(self._connection, str(created["context"]))
        self._pages.append(page)
        await page.goto(url)
        return page

    async def close(self) -> None:
        """Close the tabs that were opened here."""
        for page in self._pages:
            with contextlib.suppress(BrowserError):
                await page.close()
