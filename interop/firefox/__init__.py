"""Firefox, unmodified and without a window, driven over WebDriver BiDi.

    start(config) ─▶ FirefoxProcess ─ attach() ─▶ FirefoxBrowser ─ open(url) ─▶ FirefoxPage
                     profile, group               one BiDi session              one tab

`interop.browser` says what each of them does; `launch(config)` does the first two steps in one.
"""

from __future__ import annotations

from interop.firefox.bidi import FirefoxBrowser, FirefoxPage
from interop.firefox.process import FirefoxProcess, launch, start
from interop.firefox.profile import BINARIES, FirefoxConfig

__all__ = [
    "BINARIES",
    "FirefoxBrowser",
    "FirefoxConfig",
    "FirefoxPage",
    "FirefoxProcess",
    "launch",
    "start",
]
