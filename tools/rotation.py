"""When a running server takes other keys: told by SIGHUP, or in time.

SIGHUP ─┬ a key file ─▶ read again ─▶ replace     (it is rotated by `warp keys rotate`)
        └ none ───────▶ fresh keys ─▶ rotate ◀─ every day
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from instant_connect.keyring import Epoch, Keyring
from warp.entropy import SystemEntropy
from warp.errors import InvalidConfig
from warp_tools.failure import ToolFailure
from warp_tools.keys import load_keyring


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """How a server takes other keys. Without a file they are made here, and end with us."""

    file: Path | None
    every_s: float  # without a file; 0: only when told
    present: Callable[[], Keyring]
    replace: Callable[[Keyring], Awaitable[None]]
    rotate: Callable[[Epoch], Awaitable[None]]
    say: Callable[[str], object]

    async def follow(self) -> None:
        """Change keys whenever it is time; never returns."""
        told = asyncio.Event()
        # signals reach the loop on Unix only
        with contextlib.suppress(NotImplementedError, AttributeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, told.set)
        timeout_s = self.every_s if self.file is None and self.every_s else None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), timeout_s)
            told.clear()
            await self._change()

    async def _change(self) -> None:
        if self.file is None:
            number = self.present().next_key_id()
            await self.rotate(Epoch.generate(number, SystemEntropy(), time.time()))
            self.say("other keys from now on; tickets of those before still open")
            return
        try:
            await self.replace(load_keyring(self.file))
        except (ToolFailure, InvalidConfig) as error:
            self.say(f"the keys stay as they are: {error}")
        else:
            self.say(f"keys read again from {self.file}")
