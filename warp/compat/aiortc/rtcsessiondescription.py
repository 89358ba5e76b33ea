"""A description with its type (W3C RTCSessionDescription)."""

from __future__ import annotations

from dataclasses import dataclass

_TYPES = ("offer", "pranswer", "answer", "rollback")


@dataclass
class RTCSessionDescription:
    """`sdp` is the text, `type` one of offer, pranswer, answer and rollback."""

    sdp: str
    type: str

    def __post_init__(self) -> None:
        if self.type not in _TYPES:
            raise ValueError(f"'type' must be one of {', '.join(_TYPES)}, not {self.type!r}")
