"""ICE (RFC 8445, 8838, 7675): which flow reaches the peer, and whether it still consents.

STUN datagram ─▶ IceAgent.receive_datagram ─▶ authenticate ─▶ paths (full or lite)
                    │                              │
                    │                            Rider ◀─▶ SPED (ICE never hears of DTLS)
                    ▼
datagrams_to_send: responses, checks          flow: where everything else is sent
"""

from __future__ import annotations

from warp.ice.agent import IceAgent
from warp.ice.candidate import (
    Candidate,
    CandidateError,
    CandidateFault,
    CandidateType,
    candidate_priority,
    host_candidate,
    make_candidate,
    parse_candidate,
)
from warp.ice.config import IceConfig, IceRole, Nomination
from warp.ice.context import IceDiscard
from warp.ice.credentials import IceCredentials
from warp.ice.events import (
    FlowAuthenticated,
    IceState,
    PairSelected,
    PairValidated,
    RemoteCandidateLearned,
    StateChanged,
    Terminated,
)
from warp.ice.rider import Rider

__all__ = [
    "Candidate",
    "CandidateError",
    "CandidateFault",
    "CandidateType",
    "FlowAuthenticated",
    "IceAgent",
    "IceConfig",
    "IceCredentials",
    "IceDiscard",
    "IceRole",
    "IceState",
    "Nomination",
    "PairSelected",
    "PairValidated",
    "RemoteCandidateLearned",
    "Rider",
    "StateChanged",
    "Terminated",
    "candidate_priority",
    "host_candidate",
    "make_candidate",
    "parse_candidate",
]
