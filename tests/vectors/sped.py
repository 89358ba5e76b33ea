"""Packets of real calls with SPED, from `sped_vectors.json` (see README.md for their origin)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """One UDP payload; `key` is the ice-pwd for STUN and empty for bare DTLS."""

    capture: str
    number: int
    kind: str
    source: int
    raw: bytes
    key: bytes
    acks: tuple[int, ...] | None
    time_s: float


@lru_cache(maxsize=1)
def captured_packets() -> tuple[CapturedPacket, ...]:
    calls = json.loads((Path(__file__).parent / "sped_vectors.json").read_text())
    return tuple(
        CapturedPacket(
            capture=call["capture"],
            number=packet["n"],
            kind=packet["kind"],
            source=packet["src"],
            raw=bytes.fromhex(packet["hex"]),
            key=packet.get("key", "").encode(),
            acks=tuple(int(a, 16) for a in packet["ack"]) if "ack" in packet else None,
            time_s=packet["t_ms"] / 1000,
        )
        for call in calls
        for packet in call["packets"]
    )


def captured_messages() -> list[CapturedPacket]:
    return [packet for packet in captured_packets() if packet.kind != "DTLS"]
