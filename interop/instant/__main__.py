"""What Instant Connect saves in real browsers: `python -m interop.instant --report`.

Ends with status 0 when every target is met, 1 when one is missed, 2 when nothing can be said.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from interop.browser import BrowserError
from interop.instant.report import judge, ladder, render
from interop.instant.series import BROWSERS, InstantMeasureConfig, Series, measure

MET, MISSED, UNKNOWN = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = _parser()
    wanted = parser.parse_args(arguments)
    if not wanted.report:
        parser.error("say --report: there is nothing else that it does")
    try:
        rtts = tuple(float(part) / 1000 for part in wanted.rtt.split(","))
        config = InstantMeasureConfig(runs=wanted.runs, rtts_s=rtts)
    except ValueError as error:
        parser.error(str(error))
    try:
        series = asyncio.run(_measure_all(wanted.browser or list(BROWSERS), config))
    except (BrowserError, TimeoutError) as error:
        print(f"no report: {error or 'a page did not answer in time'}", file=sys.stderr)
        return UNKNOWN
    rows = [row for one in series for row in judge(one)]
    if wanted.ladder:
        for one in series:
            for mode, starts in one.starts.items():
                print(f"{one.version}, {1000 * one.rtt_s:g} ms, {mode}", file=sys.stderr)
                print(ladder(starts[-1]), file=sys.stderr)
    print(json.dumps([row.as_json() for row in rows], indent=2) if wanted.json else render(rows))
    return MET if all(row.met for row in rows) else MISSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m interop.instant", description=__doc__)
    parser.add_argument("--report", action="store_true", help="measure, print the table")
    parser.add_argument("--json", action="store_true", help="rows for machines instead")
    parser.add_argument("--runs", type=int, default=20, help="starts of each mode")
    parser.add_argument("--rtt", default="50,150", help="round trips in ms, with commas between")
    parser.add_argument(
        "--browser", action="append", choices=list(BROWSERS), help="only this; may be repeated"
    )
    parser.add_argument(
        "--ladder", action="store_true", help="also the datagrams of the last starts (on stderr)"
    )
    return parser


async def _measure_all(names: Sequence[str], config: InstantMeasureConfig) -> list[Series]:
    def say(text: str) -> None:
        if sys.stderr.isatty():
            print(text, file=sys.stderr)

    found: list[Series] = []
    for name in names:
        async with BROWSERS[name]() as browser:
            found += await measure(browser, name, config, say)
    return found


if __name__ == "__main__":
    sys.exit(main())
