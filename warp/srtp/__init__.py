"""Media protection: SRTP and SRTCP with keys from the DTLS exporter.

DTLS exporter ── split_keying_material ──▶ client key, server key
                                                │
RTP  ──▶ protect_rtp  ──▶ SRTP   datagram ──▶ unprotect_rtp  ──▶ RTP   or Discard(SrtpDiscard)
RTCP ──▶ protect_rtcp ──▶ SRTCP  datagram ──▶ unprotect_rtcp ──▶ RTCP  or Discard(SrtpDiscard)
"""

from __future__ import annotations

from warp.srtp.config import SrtpConfig
from warp.srtp.context import SrtpContext, SrtpDiscard
from warp.srtp.keys import MasterKeys, split_keying_material
from warp.srtp.profiles import SrtpProfile

__all__ = [
    "MasterKeys",
    "SrtpConfig",
    "SrtpContext",
    "SrtpDiscard",
    "SrtpProfile",
    "split_keying_material",
]
