"""Real browsers against our server: `python -m interop.browsers --report`.

Ends with status 0 when every target is met, 1 when one is missed, 2 when nothing can be said.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from interop.browser import BrowserError
from interop.measure import CLIENTS, MeasureConfig, Series, judge, measure, render
from interop.measure.report import ladder

MET, MISSED, UNKNOWN = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = _parser()
    wanted = parser.parse_args(arguments)
    if not wanted.report:
        parser.error("say --report: there is nothing else that it does")
    try:
        config = MeasureConfig(runs=wanted.runs, rtt_s=wanted.rtt / 1000)
    except ValueError as error:
        parser.error(str(error))
    try:
        series = asyncio.run(_measure_all(wanted.client or list(CLIENTS), config))
    except (BrowserError, TimeoutError) as error:
        print(f"no report: {error or 'a page did not answer in time'}", file=sys.stderr)
        return UNKNOWN
    rows = [judge(one) for one in series]
    if wanted.ladder:
        for one in series:
            print(f"{one.client.title}, the last start", file=sys.stderr)
            print(ladder(one.ours[-1], 1000 * config.rtt_s), file=sys.stderr)
    print(json.dumps([row.as_json() for row in rows], indent=2) if wanted.json else render(rows))
    return MET if all(row.met for row in rows) else MISSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m interop.browsers", description=__doc__)
    parser.add_argument("--report", action="store_true", help="count round trips, print the table")
    parser.add_argument("--json", action="store_true", help="rows for machines instead")
    parser.add_argument("--runs", type=int, default=9, help="starts of each kind")
    parser.add_argument("--rtt", type=float, default=200.0, help="round trip in milliseconds")
    parser.add_argument(
        "--client", action="append", choices=list(CLIENTS), help="only this one; may be repeated"
    )
    parser.add_argument(
        "--ladder", action="store_true", help="also the datagrams of the last start (on stderr)"
    )
    return parser


async def _measure_all(names: Sequence[str], config: MeasureConfig) -> list[Series]:
    def say(text: str) -> None:
        if sys.stderr.isatty():
            print(text, file=sys.stderr)

    return [await measure(CLIENTS[name], config, say) for name in names]


if __name__ == "__main__":
    sys.exit(main())
