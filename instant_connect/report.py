"""What the server saw of a start, for the page that draws it beside the browser's own figures.

    Session.stats() ─ start_report ─▶ JSON: milestones in ms since the first datagram, what was
                                      negotiated, packets and bytes

Called by `io.asgi` for `GET /v1/realtime/calls/{id}/stats`; pure. Addresses are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from instant_connect.calls import Call
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.srtp import SrtpProfile

_POST_QUANTUM: Final = (NamedGroup.X25519MLKEM768,)
_VERSIONS: Final = {DtlsVersion.DTLS13: "1.3", DtlsVersion.DTLS12: "1.2"}


def start_report(call: Call, now: float) -> dict[str, Any]:
    """Return the server's view of one call; times in ms, None for what has not happened."""
    stats = call.session.stats()
    path = stats.get("path")
    milestones = _milestones(stats)
    zero = min(milestones.values(), default=None)

    def since(at: float) -> float | None:
        return None if zero is None else round((at - zero) * 1000, 2)

    return {
        "id": call.info.id,
        "state": stats.get("state"),
        "path": None if path is None else path.value,
        "now_ms": since(now),
        "signalling": {
            "offer_read_ms": since(call.asked_at),
            "answered_ms": since(call.answered_at),
            "took_ms": round((call.answered_at - call.asked_at) * 1000, 2),
        },
        "milestones_ms": {name: since(at) for name, at in sorted(milestones.items())},
        **_negotiated(stats),
        "traffic": {
            name: stats.get(name)
            for name in ("datagrams_received", "bytes_received", "datagrams_sent", "bytes_sent")
        },
    }


def _milestones(stats: Mapping[str, Any]) -> dict[str, float]:
    """Return when each was reached, in monotonic seconds."""
    found: dict[str, float] = dict(stats.get("milestones", {}))
    # keys are exported when the server has finished, for early media, or else with the client
    ready = found.get("early_write", found.get("dtls_connected"))
    if stats.get("srtp_profile") is not None and ready is not None:
        found["srtp_ready"] = ready
    return found


def _negotiated(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return what both sides agreed on, by name."""
    version, group = stats.get("dtls_version"), stats.get("dtls_group")
    profile, rtt_s = stats.get("srtp_profile"), stats.get("rtt_s")
    return {
        "dtls": {
            "version": None if version is None else _VERSIONS[version],
            "group": None if group is None else group.name,
            "post_quantum": None if group is None else group in _POST_QUANTUM,
            "role": stats.get("dtls_role"),
        },
        "srtp_profile": None if profile is None else SrtpProfile(profile).name,
        "sped": {
            "used": stats.get("sped_used"),
            "options": list(stats.get("sped_options", ())),
            "state": stats.get("sped"),
        },
        "snap": {"used": stats.get("snap") == "snap", "mode": stats.get("snap")},
        "ice": {
            "lite": stats.get("ice_lite"),
            "role": stats.get("ice_role"),
            "rtt_ms": None if rtt_s is None else round(rtt_s * 1000, 2),
        },
    }
