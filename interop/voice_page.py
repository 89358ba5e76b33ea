"""Our own page in a tab of Chromium, used as a person does: by keyboard, reading what it says.

page = await VoicePage.open(browser, url)     loaded, and ready for a call
await page.press_button()                     Tab to the button if need be, then Enter
await page.wait_for_start()                   connected, and the ledger of the start complete
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass
from typing import Any

from interop.browser import BrowserError
from interop.chromium import Chromium, ChromiumPage

PATIENCE_S = 15.0
_POLL_S = 0.05
_MOST_TABS = 10
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowLeft": 37}
_TEXTS = {"Enter": "\r", " ": " "}
_COMPLETE = "document.getElementById('ledger').dataset.complete === 'true'"
_ROWS = """[...document.querySelectorAll('#ledger-table tbody tr')].map((row) => ({
  step: row.dataset.step, ms: parseFloat(row.children[2].textContent) }))"""
_SUPPORT = """Object.fromEntries([...document.querySelectorAll('#support > div')].map((line) => [
  line.querySelector('dt').firstChild.textContent,
  [line.querySelector('.chip').textContent, line.querySelector('.words').textContent]]))"""
# there before the page's own scripts: what it opens is kept, so that it can be seen to be closed
_WATCH = """window.seen = { violations: [], tracks: [], connections: [] };
addEventListener('securitypolicyviolation', (event) => {
  seen.violations.push(event.violatedDirective);
});
const ask = navigator.mediaDevices?.getUserMedia.bind(navigator.mediaDevices);
if (ask) navigator.mediaDevices.getUserMedia = async (wanted) => {
  const stream = await ask(wanted);
  seen.tracks.push(...stream.getTracks());
  return stream;
};
window.RTCPeerConnection = class extends RTCPeerConnection {
  constructor(...given) {
    super(...given);
    seen.connections.push(this);
  }
};"""
_OPEN = """({
  microphones: seen.tracks.filter((track) => track.readyState === 'live').length,
  connections: seen.connections.filter((one) => one.signalingState !== 'closed').length })"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How the person's screen and settings are."""

    width_px: int = 1200
    height_px: int = 900
    dark: bool = False
    calm: bool = False  # prefers-reduced-motion


class VoicePage:
    """A tab with our page. Made by `open`."""

    def __init__(self, tab: ChromiumPage) -> None:
        self.tab = tab

    @classmethod
    async def open(cls, browser: Chromium, url: str, look: Look | None = None) -> VoicePage:
        """Open the page and wait until it is ready for a call."""
        page = cls(await browser.open("about:blank"))
        await page.look(look or Look())
        await page.tab.command("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        await page.tab.goto(url)
        await page.wait_until("document.documentElement.dataset.ready === 'true'")
        return page

    async def look(self, look: Look) -> None:
        """Change screen and settings."""
        await self.tab.command(
            "Emulation.setDeviceMetricsOverride",
            width=look.width_px,
            height=look.height_px,
            deviceScaleFactor=2,
            mobile=look.width_px < 600,
        )
        features = {
            "prefers-color-scheme": "dark" if look.dark else "light",
            "prefers-reduced-motion": "reduce" if look.calm else "no-preference",
        }
        await self.tab.command(
            "Emulation.setEmulatedMedia",
            features=[{"name": name, "value": value} for name, value in features.items()],
        )

    async def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"key": key, "code": "Space" if key == " " else key}
        number = {"windowsVirtualKeyCode": _KEYS[key]}
        text = {"text": _TEXTS[key]} if key in _TEXTS else {}
        command = self.tab.command
        await command("Input.dispatchKeyEvent", type="keyDown", **code, **number, **text)
        await command("Input.dispatchKeyEvent", type="keyUp", **code, **number)

    async def focus(self, name: str) -> None:
        """Go on from control to control until the one with this id has the focus."""
        for _ in range(_MOST_TABS):
            if await self.tab.evaluate("document.activeElement?.id ?? ''") == name:
                return
            await self.press("Tab")
        raise BrowserError(f"no way by keyboard to #{name}")

    async def press_button(self, key: str = "Enter") -> None:
        """Press the one button that starts and ends a call."""
        await self.focus("talk")
        await self.press(key)

    async def wait_for_start(self) -> None:
        """Wait until the call is under way and both ends have told how it started."""
        await self.wait_until(_COMPLETE)

    async def wait_until(self, expression: str) -> None:
        """Wait for something to be true; raises BrowserError with what the page says instead."""
        end = time.monotonic() + PATIENCE_S
        while not await self.tab.evaluate(expression):
            if time.monotonic() > end:
                state, failure = await self.text("state"), await self.text("failure")
                errors = self.tab.errors
                raise BrowserError(f"not true: {expression}; {state!r} {failure!r} {errors}")
            await asyncio.sleep(_POLL_S)

    async def wait_for_state(self, state: str) -> None:
        """Wait until the page says that the call is in this state."""
        wanted = json.dumps(state)
        await self.wait_until(f"document.getElementById('state-line').dataset.state === {wanted}")

    async def text(self, name: str) -> str:
        """Return what can be read in an element, or nothing when it is not shown."""
        found = await self.tab.evaluate(f"document.getElementById({json.dumps(name)}).innerText")
        return " ".join(str(found or "").split())

    async def ledger(self) -> dict[str, float]:
        """Return the rows of the table: ms after the click by `side:step`, as they stand."""
        rows: list[dict[str, Any]] = await self.tab.evaluate(_ROWS)
        return {str(row["step"]): float(row["ms"]) for row in rows}

    async def support(self) -> dict[str, tuple[str, str]]:
        """Return what the page says of the browser: verdict and words by name."""
        lines: dict[str, list[str]] = await self.tab.evaluate(_SUPPORT)
        return {name: (chip, words) for name, (chip, words) in lines.items()}

    async def violations(self) -> list[str]:
        """Return the directives of the content security policy that were violated."""
        return list(await self.tab.evaluate("seen.violations"))

    async def left_open(self) -> dict[str, int]:
        """Return how many microphones and connections the page holds."""
        return dict(await self.tab.evaluate(_OPEN))

    async def picture(self) -> bytes:
        """Return a picture (PNG) of the whole page, beyond the visible part."""
        size = await self.tab.evaluate(
            "({ width: innerWidth, height: document.documentElement.scrollHeight })"
        )
        shot = await self.tab.command(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, **size, "scale": 1},
        )
        return base64.b64decode(shot["data"])
