"""Instant Connect in real browsers: what it saves, and that a call is one session whatever happens.

page ─ GET bundle ─ ahead of the click                 python -m interop.instant --report
click ─┬ checks ═ wire, half a round trip each way ═▶ InstantServer
       └ POST ─── the same delay ────────────────────▶ signalling_app

measure(browser, config) ─▶ Series of Starts ─ judge ─▶ Rows ─▶ table, JSON
"""

from __future__ import annotations

from interop.instant.modes import MODES, Mode
from interop.instant.report import Row, judge, render
from interop.instant.series import BROWSERS, InstantMeasureConfig, Series, measure
from interop.instant.site import InstantSite, instant_site
from interop.instant.start import Start, start_call

__all__ = [
    "BROWSERS",
    "MODES",
    "InstantMeasureConfig",
    "InstantSite",
    "Mode",
    "Row",
    "Series",
    "Start",
    "instant_site",
    "judge",
    "measure",
    "render",
    "start_call",
]
