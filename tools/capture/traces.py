"""`warp trace`: a trace of this stack's own machines as a ladder.

The traces are JSON text sequences (RFC 7464) in qlog's shape, written by `warp.trace`: a header,
then one event a record. What an endpoint sent points to the right, what it received to the left,
what changed inside it stands between.

    {"time": 12.5, "name": "dtls:flight_sent", "data": {"messages": 6}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from rich.text import Text

from warp_tools.capture.files import CaptureError

MAX_RECORD: Final = 1 << 20
MAX_LAYERS: Final = 64
_SEPARATOR: Final = b"\x1e"
_CHUNK: Final = 1 << 16
_OUT: Final = ("_sent", "_repeated", "_timeout", "nominating")
_IN: Final = ("_received", "_learned", "_validated", "_acknowledged", "discarded")
_STYLES: Final = {"ice": "blue", "dtls": "red", "sctp": "magenta", "rtp": "green", "peer": "bold"}
_ARROW: Final = 12
_WORD: Final = 160


class TraceEvent(NamedTuple):
    """One event of a trace."""

    time_ms: float
    layer: str
    what: str
    data: dict[str, Any]


class Trace:
    """A trace file. Iterate once; `broken` counts the records that could not be read."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read the header. Raises `CaptureError` when this is no trace."""
        self._records = _records(stream)
        self.broken = 0
        self.layers: set[str] = set()
        """The layers of the events so far, as they are printed."""
        header = next(self._records, None)
        if header is None:
            raise CaptureError("the file is empty")
        found = _parse(header)
        if not isinstance(found, dict) or "qlog_version" not in found:
            raise CaptureError("not a trace: it does not begin with a qlog header (RFC 7464)")
        self.title = _word(found.get("title", ""))

    def __iter__(self) -> Iterator[TraceEvent]:
        """Yield the events in their order."""
        for record in self._records:
            event = _event(_parse(record))
            if event is None:
                self.broken += 1
            else:
                if len(self.layers) < MAX_LAYERS:
                    self.layers.add(_word(event.layer))
                yield event


def _records(stream: BinaryIO) -> Iterator[bytes]:
    """Split a sequence at its separators; a record that has no end is given up at its limit."""
    buffer = b""
    while chunk := stream.read(_CHUNK):
        *whole, buffer = (buffer + chunk).split(_SEPARATOR)
        yield from (record for record in whole if record.strip())
        if len(buffer) > MAX_RECORD:
            yield buffer
            buffer = b""
    if buffer.strip():
        yield buffer


def _parse(record: bytes) -> Any:
    try:
        return json.loads(record)
    except (ValueError, RecursionError):
        return None


def _event(found: Any) -> TraceEvent | None:
    if not isinstance(found, dict):
        return None
    time_ms, name, data = found.get("time"), found.get("name"), found.get("data")
    if isinstance(time_ms, bool) or not isinstance(time_ms, int | float):
        return None
    if not isinstance(name, str) or not isinstance(data, dict) or not abs(time_ms) <= 1e15:
        return None  # not a number is none, either
    layer, _, what = name.partition(":")
    return TraceEvent(float(time_ms), layer, what, data)


def trace_lines(
    trace: Trace, layers: set[str] | None = None, limit: int | None = None
) -> Iterator[Text]:
    """Draw a trace: a line an event, times from the first one."""
    yield (
        Text()
        .append(f"{trace.title}\n" if trace.title else "", style="bold")
        .append(f"  {'ms':>10}  {'local':<8}{'':{_ARROW}}peer", style="dim")
    )
    began: float | None = None
    drawn = left = 0
    for event in trace:
        began = event.time_ms if began is None else began
        if layers is not None and event.layer not in layers:
            continue
        if limit is not None and drawn >= limit:
            left += 1
            continue
        drawn += 1
        yield _line(event, began)
    if left:
        yield Text(f"  ... {left} more lines; --limit shows more", style="dim")


def _line(event: TraceEvent, began: float) -> Text:
    line = Text().append(f"  {event.time_ms - began:>10.2f}  ", style="dim")
    if event.what.endswith(_OUT):
        drawn = "─" * (_ARROW - 1) + "▶"
    elif event.what.endswith(_IN):
        drawn = "◀" + "─" * (_ARROW - 1)
    else:
        drawn = "·" + " " * (_ARROW - 1)
    line.append(f"{_word(event.layer):<12} ", style=_STYLES.get(event.layer, ""))
    line.append(drawn, style="cyan")
    line.append(f"  {_word(event.what).replace('_', ' ')}")
    words = ", ".join(f"{_word(key)} {_word(value)}" for key, value in event.data.items())
    return line.append(f"  {words}" if words else "", style="dim")


def _word(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "…"
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _WORD else text[: _WORD - 1] + "…"
