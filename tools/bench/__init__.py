"""`warp bench`: what it costs, with aiortc measured beside it in the same run, if there is one.

setup.py | media.py | channel.py ──▶ Worker ×2 ──▶ child.py ──▶ ours.py | aiortc_party.py
      └──▶ Report ◀── figures over JSON lines ◀──────┘
instant.py ──▶ flooder.py       first datagrams, good ones and bad
codec.py ──▶ talkers.py, aiortc_talker.py
                                as media.py, with speech that is decoded and encoded
"""

from __future__ import annotations

from warp_tools.bench.report import Report, Target

__all__ = ["Report", "Target"]
