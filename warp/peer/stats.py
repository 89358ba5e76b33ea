"""What a connection can tell about itself, as plain values (the shape of W3C's getStats)."""

from __future__ import annotations

from typing import Any

from warp.peer.transport import Transport


def transport_stats(transport: Transport) -> dict[str, Any]:
    """Return what was negotiated on the transport and the state of its path."""
    dtls, ice = transport.dtls, transport.ice
    outcome = dtls.outcome if dtls is not None else None
    return {
        "dtls_version": outcome.version if outcome is not None else None,
        "dtls_group": outcome.group if outcome is not None else None,
        "srtp_profile": outcome.srtp_profile if outcome is not None else None,
        "dtls_role": dtls.role.value if dtls is not None else None,
        "sped": transport.rider.piggyback.state.value,
        "sped_used": transport.rider.piggyback.supported,
        "ice_role": ice.role.value,
        "rtt_s": ice.rtt_s,
        "flow": ice.flow,
        "amplification_blocked": transport.rider.budget.blocked,
        "held_media_dropped": transport.held_media.dropped,
    }
