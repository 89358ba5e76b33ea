"""Chromium, unmodified and headless, driven over the Chrome DevTools Protocol.

ChromiumConfig ─▶ flags ─▶ start ─▶ process, profile ─▶ attach ─▶ websocket ─▶ a session a tab
"""

from __future__ import annotations

from interop.chromium.browser import Chromium, ChromiumPage
from interop.chromium.flags import ChromiumConfig, command_line
from interop.chromium.process import ChromiumProcess, launch, start

__all__ = [
    "Chromium",
    "ChromiumConfig",
    "ChromiumPage",
    "ChromiumProcess",
    "command_line",
    "launch",
    "start",
]
