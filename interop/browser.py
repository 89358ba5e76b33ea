"""What a browser is to a test: something that opens pages, and pages whose functions are called.

    with start(config) as process:             a browser with a profile and process group of its own
        async with process.attach() as browser:    one connection of one event loop to it
            page = await browser.open(url)         a tab
            value = await page.call("connect", {...})

Implemented by `interop.chromium` (CDP) and `interop.firefox` (WebDriver BiDi); their
`launch(config)` does the first two steps in one. A process outlives event loops, so that tests
share it.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

PATIENCE_S = 20.0
"""How long a call into a page may take unless it says otherwise."""


class BrowserError(Exception):
    """The browser did not start, went away, or refused a command; the text says which."""


class PageFailed(BrowserError):
    """What was called in a page threw; the text is the page's own error."""


class PageCrashed(BrowserError):
    """The process that renders a page has gone, or the page was closed in mid-call."""


class Page(Protocol):
    """A tab. Every method raises `PageCrashed` once the page has gone."""

    @property
    def errors(self) -> list[str]:
        """What the page has reported as errors: console, exceptions, network; in order."""

    async def call(self, name: str, /, *arguments: Any, timeout_s: float = PATIENCE_S) -> Any:
        """Call an async function of the page's global `interop`; JSON values in and out.

        Raises `PageFailed` with what it threw, and `TimeoutError`.
        """

    async def evaluate(self, expression: str, *, timeout_s: float = PATIENCE_S) -> Any:
        """Return the JSON value of an expression, awaited when it is a promise."""

    async def reload(self) -> None:
        """Load the page again, as its user does; returns when it is complete."""

    async def goto(self, url: str) -> None:
        """Load another address in this tab; returns when it is complete."""

    async def screenshot(self) -> bytes:
        """Return a picture of the visible part (PNG)."""

    async def close(self) -> None:
        """Close the tab, as its user does: its connections are not closed by any script."""


class Browser(Protocol):
    """A connection to a running browser; closes the pages that it opened when it is left."""

    @property
    def version(self) -> str:
        """Name and version, e.g. `Chromium 156.0.8078.108`."""

    async def open(self, url: str) -> Page:
        """Open a tab and return it when the page, modules included, is complete."""


class BrowserProcess(Protocol):
    """A browser that runs; made by `start`, gone with its whole process group afterwards."""

    @property
    def pid(self) -> int:
        """The first process of its group."""

    def attach(self) -> AbstractAsyncContextManager[Browser]:
        """Connect to it from the running event loop."""


def call_expression(name: str, arguments: tuple[Any, ...]) -> str:
    """Return the expression that calls a function of the page's `interop`."""
    return f"interop[{json.dumps(name)}](...{json.dumps(arguments)})"
