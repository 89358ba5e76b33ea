"""The Chromiums that tests talk to, by what differs from one that was just installed."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from contextlib import AbstractContextManager

from interop.chromium import ChromiumConfig, ChromiumProcess, start
from tests.interop.browsers import SPEECH

DEFAULT = ChromiumConfig(microphone=SPEECH)
NO_PQC = ChromiumConfig(microphone=SPEECH, pqc=False)
SPED = ChromiumConfig(microphone=SPEECH, sped=True)
SNAP = ChromiumConfig(microphone=SPEECH, snap=True)
WARP = ChromiumConfig(microphone=SPEECH, sped=True, snap=True)
WARP_NO_PQC = ChromiumConfig(microphone=SPEECH, sped=True, snap=True, pqc=False)

MOST_RUNNING = 3


class Chromiums:
    """Processes that tests share, started when first asked for; the least recent one has to go."""

    def __init__(self) -> None:
        self._running: OrderedDict[
            ChromiumConfig, tuple[AbstractContextManager[ChromiumProcess], ChromiumProcess]
        ] = OrderedDict()

    def __call__(self, config: ChromiumConfig = DEFAULT) -> ChromiumProcess:
        """Return a running Chromium."""
        if config not in self._running:
            while len(self._running) >= MOST_RUNNING:
                self._stop(next(iter(self._running)))
            manager = start(config)
            self._running[config] = (manager, manager.__enter__())
        self._running.move_to_end(config)
        return self._running[config][1]

    def _stop(self, config: ChromiumConfig) -> None:
        manager, _ = self._running.pop(config)
        manager.__exit__(None, None, None)

    def close(self) -> None:
        """End them all."""
        with contextlib.ExitStack() as stack:
            for config in list(self._running):
                stack.callback(self._stop, config)
