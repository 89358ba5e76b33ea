"""Candidates to and from the text that signalling carries (RFC 8839 section 5.1)."""

from __future__ import annotations

from warp.compat.aiortc.rtcicetransport import RTCIceCandidate
from warp.ice import parse_candidate


def candidate_from_sdp(sdp: str) -> RTCIceCandidate:
    """Return the candidate of a text, with or without `candidate:` in front.

    Raises `warp.errors.InvalidConfig` for a text that is none.
    """
    found = parse_candidate(sdp if sdp.startswith("candidate:") else f"candidate:{sdp}")
    related = found.related_address or (None, None)
    return RTCIceCandidate(
        component=found.component,
        foundation=found.foundation,
        ip=found.host,
        port=found.port,
        priority=found.priority,
        protocol=found.transport,
        type=found.type.text,
        relatedAddress=related[0],
        relatedPort=related[1],
        tcpType=found.extension("tcptype"),
    )


def candidate_to_sdp(candidate: RTCIceCandidate) -> str:
    """Return a candidate's text, without `candidate:` in front."""
    text = (
        f"{candidate.foundation} {candidate.component} {candidate.protocol} "
        f"{candidate.priority} {candidate.ip} {candidate.port} typ {candidate.type}"
    )
    if candidate.relatedAddress is not None:
        text += f" raddr {candidate.relatedAddress}"
    if candidate.relatedPort is not None:
        text += f" rport {candidate.relatedPort}"
    if candidate.tcpType is not None:
        text += f" tcptype {candidate.tcpType}"
    return text
