"""The voices that `--backend` names, and what each needs before it can speak.

duplex-cpu   the embedded voice, in a process of its own: weights are fetched at first use
echo         what is said comes back, once it has been decoded; needs nothing
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from warp_tools.failure import CommandRefused, ToolFailure

if TYPE_CHECKING:
    from voice_backend.engine import EngineHost
    from voice_backend.model import VoiceModel

EMBEDDED: Final = "duplex-cpu"
ECHO: Final = "echo"
BACKENDS: Final = (EMBEDDED, ECHO)
RESERVE_FRAMES: Final = 1
"""What lies ready of an engine that is a process away: hides a hop that took a period."""
_REALTIME_PRIORITY: Final = 10


def check_backend(name: str) -> str:
    """Return a backend's name. Raises ToolFailure for one that there is not."""
    if name not in BACKENDS:
        raise CommandRefused(f"no such backend: {name}; there are {', '.join(BACKENDS)}")
    return name


def prepare_backend(name: str) -> None:
    """Fetch what the backend lacks, with a bar of progress. Raises ToolFailure, one line."""
    if name != EMBEDDED:
        return
    from voice_backend.models.inference import ModelUnusable, import_runtime

    try:
        import_runtime()
    except ModelUnusable:
        raise CommandRefused(
            f"the backend {name} needs onnxruntime: pip install 'warp-rtc[voice]', "
            f"or use --backend {ECHO}"
        ) from None
    from warp_tools.models_cli import fetch_models

    try:
        fetch_models()
    except ToolFailure as failure:
        raise ToolFailure(f"{failure} (--backend {ECHO} needs no models)") from failure


def embedded_voice() -> VoiceModel:
    """Return the embedded voice, its networks in a process of their own."""
    from voice_backend.io.embedded import duplex_cpu

    return duplex_cpu()


def make_embedded(*, core: int | None = None) -> Callable[[], EngineHost]:
    """Return what makes hosts of the embedded voice, each a process."""
    from voice_backend.worker import ProcessHost, WorkerConfig

    config = WorkerConfig(core=core, realtime_priority=realtime_priority())
    return lambda: ProcessHost(embedded_voice, config)


def realtime_priority() -> int | None:
    """Return the priority of the threads that owe frames, where the system grants it.

    None on a single core: there whatever they leave undone would never be done.
    """
    return _REALTIME_PRIORITY if (os.cpu_count() or 1) > 1 else None
