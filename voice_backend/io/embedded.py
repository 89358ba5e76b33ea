"""The embedded voice with what the world gives it: a thread for its jobs, and the time of day."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from voice_backend.io.job_thread import JobThread
from voice_backend.models.duplex_cpu import MAX_SLOTS, DuplexCpu
from voice_backend.models.store import Store


def duplex_cpu(*, max_slots: int = MAX_SLOTS, root: Path | None = None) -> DuplexCpu:
    """Return the embedded voice, not loaded yet: for the process that will run it.

    `root` is where its models are; None: the user's store. What it needs is
    `Store(root).missing()`; `load` raises ModelsMissing, naming the fix, and fetches nothing.
    """
    return DuplexCpu(JobThread(), clock=datetime.now, store=Store(root), max_slots=max_slots)
