"""What the server saw of a start, for the page that draws it beside the browser's own figures.

    Session.stats() ─ start_report ─▶ JSON: milestones in ms since the first datagram, what was
                                      negotiated, packets and bytes

Called by `io.asgi` for `GET /v1/realtime/calls/{id}/stats`; pure. Addresses are left out.
"""

from __future__ import annotations

from typing import Any, Final

from instant_connect.calls import Call
from warp.srtp import SrtpProfile

_POST_QUANTUM: Final = ("MLKEM", "KYBER")


def start_report(call: Call, now: float) -> dict[str, Any]:
    """Return the server's view of one call; times in ms, None for what has not happened."""
    stats = call.session.stats()
    milestones = dict(stats.get("milestones", {}))
    profile = stats.get("srtp_profile")
    # keys are exported when the server has finished, for early media, or else with the client
    ready = milestones.get("early_write", milestones.get("dtls_connected"))
    if profile is not None and ready is not None:
        milestones["srtp_ready"] = ready
    zero = min(milestones.values(), default=None)

    def since(at: float | None) -> float | None:
        return None if at is None or zero is None else round((at - zero) * 1000, 2)

    group = _text(stats.get("dtls_group"))
    rtt_s = stats.get("rtt_s")
    return {
        "id": call.info.id,
        "state": stats.get("state"),
        "now_ms": since(now),
        "signalling": {
            "offer_read_ms": since(call.asked_at),
            "answered_ms": since(call.answered_at),
            "took_ms": round((call.answered_at - call.asked_at) * 1000, 2),
        },
        "milestones_ms": {name: since(at) for name, at in sorted(milestones.items())},
        "dtls": {
            "version": _version(stats.get("dtls_version")),
            "group": group,
            "post_quantum": None
            if group is None
            else any(name in group.upper() for name in _POST_QUANTUM),
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
        "traffic": {
            name: stats.get(name)
            for name in ("datagrams_received", "bytes_received", "datagrams_sent", "bytes_sent")
        },
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(getattr(value, "name", value))


def _version(value: Any) -> str | None:
    name = _text(value)
    return {"DTLS13": "1.3", "DTLS12": "1.2"}.get(name or "", name)
