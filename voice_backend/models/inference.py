"""How a network is run here: onnxruntime, one thread, no spinning.

A thread pool of the library's own would take every core, and the media loop's among them. Nor does
it keep a record of its use: it would make a database and a number for the machine in the user's
cache, as it is imported.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warp.errors import UsageError

SPINNING: Final = "session.intra_op.allow_spinning"
QUIET: Final = 3
"""Errors only: the library warns of what its own optimiser will mend."""
NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
"""Read as the library is imported; its function for that comes too late."""


class ModelUnusable(UsageError):
    """A model cannot be loaded on this machine; the text says how to mend that."""


def import_runtime() -> ModuleType:
    """Import onnxruntime, its telemetry off; all of the project comes by it here.

    Raises ModelUnusable where it is not installed.
    """
    os.environ[NO_TELEMETRY] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelUnusable(
            "onnxruntime is not installed: pip install 'warp-rtc[voice]'"
        ) from error
    # in case somebody else imported it before
    onnxruntime.disable_telemetry_events()
    runtime: ModuleType = onnxruntime
    return runtime


def open_session(model: Path | bytes) -> Any:
    """Return an `onnxruntime.InferenceSession` of a file, or of a model in memory.

    Raises ModelUnusable.
    """
    onnxruntime = import_runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    options.add_session_config_entry(SPINNING, "0")
    try:
        return onnxruntime.InferenceSession(
            model if isinstance(model, bytes) else str(model),
            options,
            providers=["CPUExecutionProvider"],
        )
    except Exception as error:
        # onnxruntime's own exceptions have no base but Exception
        name = "a model in memory" if isinstance(model, bytes) else model.name
        raise ModelUnusable(
            f"{name} cannot be loaded ({type(error).__name__}): "
            "`warp models list --check` tells whether it is damaged"
        ) from error
