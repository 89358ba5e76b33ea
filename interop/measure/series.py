"""Starts towards us and between two of the same browser, in turn: both have the same day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from interop.measure.clients import Client
from interop.measure.start import Figures, open_server, start_to_its_own, start_to_us

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureConfig:
    """How much is measured."""

    runs: int = 9
    rtt_s: float = 0.2

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ValueError(f"runs must be at least 1, not {self.runs}")
        if not 0.02 <= self.rtt_s <= 2.0:
            raise ValueError(f"a round trip takes 20 to 2000 ms, not {1000 * self.rtt_s:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All starts of one client."""

    client: Client
    version: str
    config: MeasureConfig
    ours: tuple[Figures, ...]
    baseline: tuple[Figures, ...]


async def measure(client: Client, config: MeasureConfig, say: Say = lambda _: None) -> Series:
    """Start a browser and let it call. Raises BrowserError when a start fails: none is left out."""
    ours: list[Figures] = []
    baseline: list[Figures] = []
    async with client.launch() as browser, open_server() as server:
        for run in range(config.runs):
            ours.append(await start_to_us(browser, server, config.rtt_s))
            baseline.append(await start_to_its_own(browser, config.rtt_s))
            say(f"{client.title}: {run + 1} of {config.runs}")
        return Series(
            client=client,
            version=browser.version,
            config=config,
            ours=tuple(ours),
            baseline=tuple(baseline),
        )
