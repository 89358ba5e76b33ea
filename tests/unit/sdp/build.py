"""Short ways to local states and descriptions, for the tests of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.sdp.shapes import FINGERPRINT
from warp.sdp import (
    LocalAudio,
    LocalData,
    LocalDescriptionState,
    LocalTransport,
    SessionDescription,
    parse_description,
)

CAPTURES = Path(__file__).resolve().parents[2] / "captures" / "sdp"
OWN_INIT = bytes.fromhex("0100001e11223344005000 00ffffffff00000007c0000004 80080006 82c0")
PEER_INIT = bytes.fromhex("0100001e55667788005000 00ffffffff00000001c0000004 80080006 82c0")


def capture(name: str) -> str:
    return (CAPTURES / f"{name}.sdp").read_text()


def transport(**changes: Any) -> LocalTransport:
    base = LocalTransport(
        ufrag="OURS",
        pwd="ours" * 6,
        fingerprints=(("sha-256", FINGERPRINT),),
        candidates=("candidate:1 1 udp 2130706431 198.51.100.4 3478 typ host",),
        end_of_candidates=True,
        answer_options=("sped", "googspedv1", "goog-sped-v1"),
        address=("198.51.100.4", 3478),
    )
    return base._replace(**changes)


def local(**changes: Any) -> LocalDescriptionState:
    base = LocalDescriptionState(
        transport=transport(),
        media=(LocalAudio(ssrc=1234, cname="us", stream_id="s", track_id="t"), LocalData()),
        session_id=42,
    )
    return base._replace(**changes)


def reparse(description: SessionDescription) -> SessionDescription:
    """What the other side reads."""
    return parse_description(str(description))
