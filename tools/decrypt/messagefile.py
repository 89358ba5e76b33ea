"""Messages of data channels as JSON lines, one message a line. Called by `run`.

    {"seconds": 0.021, "connection": 1, "from": "client", "stream": 0, "label": "talk",
     "kind": "text", "ordered": true, "text": "hello"}

`kind`: text, binary (then `base64` instead of `text`), open (DCEP OPEN, with `protocol` and
`reliability`) or ack (of an OPEN). `label` is null where nobody said it: channels that both ends
agreed on in advance are opened without DCEP.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, TextIO

from warp.datachannel import DcepOpen
from warp.datachannel.dcep import Reliability
from warp_tools.decrypt.plain import SIDES, Said
from warp_tools.failure import CommandRefused, ToolFailure


def as_json(said: Said, start_ns: int) -> dict[str, Any]:
    """Return a message as plain values; `seconds` count from `start_ns`."""
    message = said.message
    content = message.content
    body: dict[str, Any]
    if isinstance(content, DcepOpen):
        body = {"kind": "open", "protocol": content.protocol, "reliability": _reliability(content)}
    elif content is None:
        body = {"kind": "ack"}
    elif isinstance(content, str):
        body = {"kind": "text", "text": content}
    else:
        body = {"kind": "binary", "base64": base64.b64encode(content).decode()}
    ordered = content.ordered if isinstance(content, DcepOpen) else message.ordered
    kind = body.pop("kind")
    return {
        "seconds": round((said.datagram.time_ns - start_ns) / 1e9, 6),
        "time": round(said.datagram.time_ns / 1e9, 6),
        "connection": said.connection,
        "from": SIDES[message.role],
        "stream": message.stream_id,
        "label": message.label,
        "kind": kind,
        "ordered": ordered,
        **body,
    }


def _reliability(channel: DcepOpen) -> str:
    if channel.reliability is Reliability.RELIABLE:
        return "reliable"
    unit = "retransmissions" if channel.reliability is Reliability.RETRANSMITS else "ms"
    return f"at most {channel.parameter} {unit}"


class MessageFile:
    """A file of messages; a context. Raises ToolFailure when it cannot be written."""

    __slots__ = ("_out", "_path", "messages")

    def __init__(self, path: Path) -> None:
        self._path = path
        self.messages = 0
        try:
            self._out: TextIO = path.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise CommandRefused(f"cannot write {path}: {error.strerror}") from error

    def __enter__(self) -> MessageFile:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._out.close()
        except OSError as error:
            raise ToolFailure(f"cannot write {self._path}: {error.strerror}") from error

    def write(self, said: Said, start_ns: int) -> None:
        """Append one message."""
        try:
            # what is no text in UTF-8 (lone surrogates) is escaped by JSON itself
            self._out.write(json.dumps(as_json(said, start_ns)) + "\n")
        except OSError as error:
            raise ToolFailure(f"cannot write {self._path}: {error.strerror}") from error
        self.messages += 1
