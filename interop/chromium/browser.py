"""Chromium and its tabs behind the interface of `interop.browser`.

A connection has a browser context of its own (as a private window has): its tabs share nothing
with those of other connections, and go with it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import Any

from interop.browser import PATIENCE_S, BrowserError, PageCrashed, PageFailed, call_expression
from interop.chromium.cdp import Connection, Message

_DOMAINS = ("Page", "Runtime", "Log", "Inspector")


class ChromiumPage:
    """A tab; made by `Chromium.open`."""

    def __init__(self, connection: Connection, target: str, session: str) -> None:
        self._connection = connection
        self._target = target
        self._session = session
        self._loaded = asyncio.Event()
        self._gone = ""
        self._errors: list[str] = []
        connection.hear(session, self._hear)

    async def prepare(self) -> None:
        """Hear of everything that happens in the tab."""
        for domain in _DOMAINS:
            await self._command(f"{domain}.enable")

    @property
    def errors(self) -> list[str]:
        """What the page has reported as errors: console, exceptions, network; in order."""
        return list(self._errors)

    @property
    def crashed(self) -> bool:
        """Whether the process that renders it has died."""
        return bool(self._gone)

    async def call(self, name: str, /, *arguments: Any, timeout_s: float = PATIENCE_S) -> Any:
        """Call an async function of the page's global `interop`; JSON values in and out."""
        return await self.evaluate(call_expression(name, arguments), timeout_s=timeout_s)

    async def evaluate(self, expression: str, *, timeout_s: float = PATIENCE_S) -> Any:
        """Return the JSON value of an expression, awaited when it is a promise."""
        found = await self._command(
            "Runtime.evaluate",
            timeout_s=timeout_s,
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in found:
            raise PageFailed(f"{expression[:80]}: {_thrown(found['exceptionDetails'])}")
        return json.loads(found["result"]["value"])

    async def reload(self) -> None:
        """Load the page again, as its user does; returns when it is complete."""
        self._loaded.clear()
        await self._command("Page.reload")
        await self._complete()

    async def goto(self, url: str) -> None:
        """Load another address in this tab; returns when it is complete."""
        self._loaded.clear()
        answer = await self._command("Page.navigate", url=url)
        if answer.get("errorText"):
            raise BrowserError(f"{url}: {answer['errorText']}")
        await self._complete()

    async def screenshot(self) -> bytes:
        """Return a picture of the visible part (PNG)."""
        return base64.b64decode((await self._command("Page.captureScreenshot"))["data"])

    async def close(self) -> None:
        """Close the tab, as its user does: its connections are not closed by any script."""
        self._gone = self._gone or "the page was closed"
        await self._connection.command("Target.closeTarget", targetId=self._target)
        self._connection.forget(self._session, self._gone)

    async def command(self, method: str, **params: Any) -> Message:
        """Give a command of the DevTools Protocol to this tab."""
        return await self._command(method, **params)

    async def _complete(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._loaded.wait()
        if self._gone:
            raise PageCrashed(self._gone)

    async def _command(self, method: str, **params: Any) -> Message:
        if self._gone:
            raise PageCrashed(self._gone)
        return await self._connection.command(method, session=self._session, **params)

    def _hear(self, event: str, params: Message) -> None:
        if event == "Page.loadEventFired":
            self._loaded.set()
        elif event == "Inspector.targetCrashed":
            self._gone = "the renderer has crashed"
            self._loaded.set()
            self._connection.forget(self._session, self._gone)
        elif event == "Runtime.exceptionThrown":
            self._errors.append(_thrown(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            said = [str(a.get("value", a.get("description", ""))) for a in params["args"]]
            self._errors.append(" ".join(said))
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self._errors.append(str(params["entry"]["text"]))


class Chromium:
    """A connection to a running Chromium, with a context of its own."""

    def __init__(self, connection: Connection, context: str, version: str) -> None:
        self._connection = connection
        self._context = context
        self._version = version

    @classmethod
    async def make(cls, connection: Connection) -> Chromium:
        """Make a context on a connection."""
        version = await connection.command("Browser.getVersion")
        context = await connection.command("Target.createBrowserContext")
        name = str(version["product"]).rpartition("/")[2]
        return cls(connection, str(context["browserContextId"]), f"Chromium {name}")

    @property
    def version(self) -> str:
        """Name and version, e.g. `Chromium 156.0.8078.108`."""
        return self._version

    async def open(self, url: str) -> ChromiumPage:
        """Open a tab and return it when the page, modules included, is complete."""
        command = self._connection.command
        target = await command(
            "Target.createTarget", url="about:blank", browserContextId=self._context
        )
        attached = await command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = ChromiumPage(self._connection, target["targetId"], attached["sessionId"])
        await page.prepare()
        await page.goto(url)
        return page

    async def dispose(self) -> None:
        """Close the tabs of this context."""
        with contextlib.suppress(BrowserError):
            await self._connection.command(
                "Target.disposeBrowserContext", browserContextId=self._context
            )


def _thrown(details: Message) -> str:
    exception = details.get("exception", {})
    return str(exception.get("description") or exception.get("value") or details.get("text"))
