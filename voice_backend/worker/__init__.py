"""An engine elsewhere: in a thread, or in a process of its own behind rings of shared memory.

    media thread                          worker process (or thread)
    submit ─▶ ring in ── wake (pipe) ──▶ Engine.run ─▶ ring out ─▶ collect
    open, inject, cancel, close ── pipe ─▶ between batches ── pipe ─▶ opened

`ThreadHost` and `ProcessHost` are `EngineHost`s. A worker that ends, or that owes a batch for
`hang_s` or a slot for `open_timeout_s`, is a `failure`: whoever looks after the host stops it and
makes another.
"""

from __future__ import annotations

from voice_backend.worker.orders import WorkerConfig
from voice_backend.worker.process import MAX_WAITING, ProcessHost
from voice_backend.worker.thread import ThreadHost

__all__ = ["MAX_WAITING", "ProcessHost", "ThreadHost", "WorkerConfig"]
