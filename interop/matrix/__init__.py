"""Real peers x scenarios ─▶ one matrix: `python -m interop.matrix`.

scenarios (data) ─▶ plays (what is done in a call) ─▶ runner ─▶ cells ─▶ JSON, Markdown
peers (interop.peers) ───────────────┘                  └▶ pcap and key log of what failed
"""

from __future__ import annotations

from interop.matrix.cell import Cell, Result
from interop.matrix.runner import Matrix
from interop.matrix.scenario import Scenario
from interop.matrix.scenarios import SCENARIOS

__all__ = ["SCENARIOS", "Cell", "Matrix", "Result", "Scenario"]
