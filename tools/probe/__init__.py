"""What somebody's WebRTC server supports, told by calling it.

ProbeConfig ─▶ probe ─▶ Report: features, round trips, a grade with its reasons
"""

from __future__ import annotations

from warp_tools.probe.features import Features
from warp_tools.probe.grade import Grade, Reason
from warp_tools.probe.observe import Facts
from warp_tools.probe.plan import ProbeConfig
from warp_tools.probe.run import Report, probe

__all__ = [
    "Facts",
    "Features",
    "Grade",
    "ProbeConfig",
    "Reason",
    "Report",
    "probe",
]
