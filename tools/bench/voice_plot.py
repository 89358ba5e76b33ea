"""The picture of `warp bench voice`: late frames by cause, and times of answers by sessions.

matplotlib (extra `tools`) draws; nothing is shown on a screen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from warp_tools.bench.voice_report import P50_TARGET_MS, P95_TARGET_MS, VoiceReport
from warp_tools.failure import ToolFailure

_OF: Final = 10_000


def require_plot() -> None:
    """Raise ToolFailure, naming the fix, where no picture can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ToolFailure("pictures need matplotlib: pip install 'warp-rtc[tools]'") from error


def plot(report: VoiceReport, path: Path) -> None:
    """Draw late frames by cause and times of answers, by number of sessions (PNG)."""
    require_plot()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_late(left, report)
    _draw_times(right, report)
    figure.savefig(path, dpi=120)


def _draw_late(axes: Any, report: VoiceReport) -> None:
    trials = report.last
    places = [str(one.sessions) for one in trials]
    below = np.zeros(len(trials))
    for cause in trials[0].late_by_cause if trials else ():
        share = np.array([_OF * t.late_by_cause[cause] / max(1, t.frames) for t in trials])
        axes.bar(places, share, bottom=below, label=cause.replace("_", " "))
        below = below + share
    for at, trial in enumerate(trials):
        text = f"{trial.late} late" if trial.late else "none late"
        axes.annotate(text, (at, below[at]), ha="center", va="bottom", fontsize=8)
    axes.set(title="Late frames, by cause", xlabel="sessions at once", ylabel=f"of {_OF:,} frames")
    axes.set_ylim(0, max(1.0, 1.15 * float(below.max(initial=0.0))))
    if below.any():
        axes.legend()


def _draw_times(axes: Any, report: VoiceReport) -> None:
    for number in sorted(report.latencies):
        times = sorted(report.latencies[number])
        if times:
            shares = np.arange(1, len(times) + 1) / len(times)
            axes.step(times, shares, where="post", label=f"{number} sessions")
    for limit, share in ((P50_TARGET_MS, 0.5), (P95_TARGET_MS, 0.95)):
        axes.plot([limit], [share], "kD", markersize=5, zorder=5)
        axes.annotate(
            f"target p{share:.0%}".rstrip("%"),
            (limit, share),
            xytext=(8, -4),
            textcoords="offset points",
            fontsize=8,
        )
        axes.axvline(limit, color="grey", linestyle=":", linewidth=0.8)
    axes.set(
        title="Time to an answer, from the end of speech",
        xlabel="ms",
        ylabel="share of answers",
        ylim=(0, 1.02),
    )
    axes.set_xlim(left=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")
