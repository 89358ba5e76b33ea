"""The core of the matrix, with every peer: `python -m interop.matrix` plays all of it.

Browsers have suites of their own beside this one: of the core they play a few rows. str0m takes
minutes to build: `python -m interop.matrix --peer str0m` plays it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from interop.matrix import SCENARIOS, Cell, Matrix, Result
from interop.peers import KINDS
from tests.interop.loops import open_files, other_tasks_end

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

NEEDED = {
    "aiortc": "aiortc",
    "libwebrtc": "wrtc",
    "libdatachannel": "npm",
    "werift": "npm",
    "chromium": "chromium",
    "firefox": "firefox-esr",
}
CORE = [scenario for scenario in SCENARIOS if scenario.core]
IN_BROWSERS = ("all of WARP, peer-offers", "speech both ways, peer-offers", "DCEP channel from us")


async def play(name: str) -> list[Cell]:
    """Play the core with a peer; nothing of it stays."""
    few = name in ("chromium", "firefox")
    rows = [scenario for scenario in CORE if not few or scenario.name in IN_BROWSERS]
    async with Matrix() as matrix:
        cells = [await matrix.cell(KINDS[name], scenario) for scenario in rows]
    await other_tasks_end()
    return cells


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("ours", "str0m")])
def test_every_peer_passes_what_it_can_do(name: str, require_peer: Callable[[str], None]) -> None:
    if name in NEEDED:
        require_peer(NEEDED[name])
    before = open_files()
    cells = asyncio.run(play(name))
    absent = [cell for cell in cells if cell.result is Result.ABSENT]
    if absent and os.environ.get("CI") != "true":
        pytest.skip(f"{name}: {absent[0].why}")
    wrong = {
        cell.scenario: f"{cell.result.value}: {cell.why}"
        for cell in cells
        if cell.result not in (Result.PASS, Result.CANNOT)
    }
    assert wrong == {}
    assert sum(cell.result is Result.PASS for cell in cells) > len(cells) / 2
    assert open_files() <= before
