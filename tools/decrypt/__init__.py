"""A capture in the clear, with the secrets of either end: DTLS 1.2 and 1.3, data channels, media.

capture ─▶ decrypt(DecryptConfig) ─▶ Report
key log ──┘       └▶ pcapng for Wireshark · Opus in Ogg · messages as JSON lines
"""

from __future__ import annotations

from warp_tools.decrypt.keylog import KeyLog, read_keylog
from warp_tools.decrypt.report import Outcome, Verdict
from warp_tools.decrypt.run import NOTHING_OPENED, DecryptConfig, Report, decrypt

__all__ = [
    "NOTHING_OPENED",
    "DecryptConfig",
    "KeyLog",
    "Outcome",
    "Report",
    "Verdict",
    "decrypt",
    "read_keylog",
]
