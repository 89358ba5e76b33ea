"""How many round trips a start costs that a browser makes, towards us and towards its own kind.

page ─ POST offer ─▶ half a round trip ─▶ our server, or another page ─▶ half ─▶ answer
page ◀═══════ datagrams over a wire, half a round trip each way ═══════▶ the same

measure(client, config) ─▶ Row (medians beside the target) ─▶ table, JSON
"""

from __future__ import annotations

from interop.measure.clients import CLIENTS, Client, Target
from interop.measure.report import Row, judge, render
from interop.measure.series import MeasureConfig, Series, measure
from interop.measure.start import Figures

__all__ = [
    "CLIENTS",
    "Client",
    "Figures",
    "MeasureConfig",
    "Row",
    "Series",
    "Target",
    "judge",
    "measure",
    "render",
]
