"""One frame of media on its way from `receiver` to the player."""

from __future__ import annotations


class AudioFrame:
    """A payload in its place, or the place where payloads are missing.

    `payload` is None for a gap: then `lost` packets, from `sequence` on, were given up (0 when
    the source restarted and nobody can say). Packets of padding may be among them: how much media
    is missing is told by the timestamps before and behind. `timestamp` is extended media time in
    ticks, `sequence` extended; `received_at` is monotonic seconds; `level` is the byte of the
    audio level extension, or None.
    """

    __slots__ = (
        "level",
        "lost",
        "marker",
        "payload",
        "payload_type",
        "received_at",
        "sequence",
        "timestamp",
    )

    def __init__(
        self,
        payload: bytes | None,
        timestamp: int,
        sequence: int,
        marker: bool,
        payload_type: int,
        level: int | None,
        received_at: float,
        lost: int = 0,
    ) -> None:
        self.payload = payload
        self.timestamp = timestamp
        self.sequence = sequence
        self.marker = marker
        self.payload_type = payload_type
        self.level = level
        self.received_at = received_at
        self.lost = lost

    @property
    def gap(self) -> bool:
        """Whether this stands for media that is missing."""
        return self.payload is None

    @property
    def audio_level(self) -> int | None:
        """Level in -dBov, 0 (loudest) to 127 (silence), as the sender measured it (RFC 6464)."""
        return None if self.level is None else self.level & 0x7F

    @property
    def voice(self) -> bool:
        """Whether the sender believes that this is speech (RFC 6464 V bit)."""
        return self.level is not None and self.level > 0x7F

    def __repr__(self) -> str:
        what = f"gap of {self.lost}" if self.payload is None else f"{len(self.payload)} bytes"
        return f"AudioFrame({self.sequence}, {self.timestamp}, {what})"
