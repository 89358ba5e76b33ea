"""Traces in qlog's shape (JSON text sequences, RFC 7464): what happened, when, in which layer.

Machines call `trace.emit(now, "dtls:flight_sent", {...})`, guarded by `if trace is not None`.
Data values are plain JSON values; addresses, ufrags and tickets go through `warp.redact` first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Trace(Protocol):
    """Where a machine says what it did."""

    def emit(self, now: float, name: str, data: Mapping[str, Any]) -> None:
        """Record one event; `name` is `layer:what_happened`."""


class MemoryTrace:
    """Keeps events in a list, for tests and for the ledger."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: list[tuple[float, str, dict[str, Any]]] = []

    def emit(self, now: float, name: str, data: Mapping[str, Any]) -> None:
        """Append one event."""
        self.records.append((now, name, dict(data)))

    def named(self, name: str) -> list[tuple[float, dict[str, Any]]]:
        """Return time and data of every event with this name, in order."""
        return [(t, d) for t, n, d in self.records if n == name]


class JsonSeqTrace:
    """Writes each event as one JSON text of an RFC 7464 sequence."""

    __slots__ = ("_write",)

    def __init__(self, write: Callable[[str], object], title: str = "warp") -> None:
        self._write = write
        header = {"qlog_version": "0.4", "qlog_format": "JSON-SEQ", "title": title}
        write("\x1e" + json.dumps(header) + "\n")

    def emit(self, now: float, name: str, data: Mapping[str, Any]) -> None:
        """Write one event; `time` is in milliseconds, as qlog has it."""
        record = {"time": round(now * 1000, 3), "name": name, "data": data}
        self._write("\x1e" + json.dumps(record, default=str) + "\n")
