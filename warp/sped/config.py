"""What SPED is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpedConfig:
    """Limits of embedding; the defaults fit every peer seen."""

    dtls_mtu_bytes: int = 900  # draft-hancke-webrtc-sped-00 section 6; libwebrtc and pion too
    outstanding_limit_bytes: int = 14_600  # unanswered checks; RFC 8445 appendix B.1
    remembered_checks: int = 32  # an older check without response counts as lost
    peer_sends_early_data: bool = True  # draft-uberti-tsvwg-warp-00, early application data
