"""Starts of all modes in turn, so that all of them have the same day."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from interop import chromium, firefox
from interop.browser import Browser, BrowserError
from interop.instant.modes import MODES
from interop.instant.site import instant_site
from interop.instant.start import Start, start_call

Say = Callable[[str], object]
Launch = Callable[[], AbstractAsyncContextManager[Browser]]
BROWSERS: dict[str, Launch] = {
    "chromium": lambda: chromium.launch(),
    "firefox": lambda: firefox.launch(),
}
"""As somebody has just installed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantMeasureConfig:
    """How much is measured."""

    runs: int = 20
    rtts_s: tuple[float, ...] = (0.05, 0.15)

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ValueError(f"runs must be at least 1, not {self.runs}")
        for rtt_s in self.rtts_s:
            if not 0.02 <= rtt_s <= 2.0:
                raise ValueError(f"a round trip takes 20 to 2000 ms, not {1000 * rtt_s:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All starts of one browser at one distance, by mode."""

    browser: str
    version: str
    rtt_s: float
    starts: dict[str, tuple[Start, ...]]


async def measure(
    browser: Browser, name: str, config: InstantMeasureConfig, say: Say = lambda _: None
) -> list[Series]:
    """Let a browser call. Raises BrowserError when a start fails: none is left out."""
    found = []
    for rtt_s in config.rtts_s:
        starts: dict[str, list[Start]] = {mode: [] for mode in MODES}
        async with instant_site(rtt_s=rtt_s) as site:
            page = await browser.open(site.page)
            try:
                for run in range(config.runs):
                    for mode in MODES.values():
                        starts[mode.name].append(await start_call(page, site, mode, rtt_s))
                    say(f"{name}, {1000 * rtt_s:g} ms: {run + 1} of {config.runs}")
                if page.errors:
                    raise BrowserError(f"the page reports errors: {page.errors}")
            finally:
                await page.close()
        made = {mode: tuple(each) for mode, each in starts.items()}
        found.append(Series(browser=name, version=browser.version, rtt_s=rtt_s, starts=made))
    return found
