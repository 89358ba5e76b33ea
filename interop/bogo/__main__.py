"""`python -m interop.bogo`: run BoringSSL's DTLS tests against our DTLS and count.

Exit status 0: everything that is enabled ended as expected; 1: something did not; 2: no runner.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from interop.bogo.build import BuildError, get_runner
from interop.bogo.expectations import (
    BadExpectations,
    Expectations,
    matches,
    read_expectations,
)
from interop.bogo.suite import Outcome, Result, judge, run_tests

FAILED = 1
NO_RUNNER = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for and return the exit status."""
    options = _parse(arguments)
    try:
        expectations = read_expectations()
        runner = get_runner()
    except (BuildError, BadExpectations) as error:
        print(error, file=sys.stderr)
        return NO_RUNNER
    ours = expectations.ours(runner.names)
    names = select_tests(expectations, ours, options)
    if not names:
        print("no test fits", file=sys.stderr)
        return FAILED
    if options.list:
        print("\n".join(names))
        return 0
    verdicts = run_tests(runner, names, expectations.errors, workers=options.workers)
    results = judge(expectations, names, verdicts)
    report(expectations, ours, results)
    return FAILED if any(result.outcome is Outcome.FAILED for result in results) else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m interop.bogo", description=__doc__)
    parser.add_argument("--test", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--fast", action="store_true", help="the families that a check needs most")
    parser.add_argument("--all", action="store_true", help="those too that take minutes")
    parser.add_argument("--disabled", action="store_true", help="with --test: those too")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    return parser.parse_args(arguments)


def select_tests(
    expectations: Expectations, ours: Sequence[str], options: argparse.Namespace
) -> list[str]:
    """Return the names of the tests to run."""
    names = [name for name in ours if options.disabled or expectations.disabled_by(name) is None]
    if options.test:
        return [name for name in names if matches(name, options.test)]
    if options.fast:
        names = [name for name in names if matches(name, expectations.fast)]
    if options.all:
        return names
    return [name for name in names if not matches(name, expectations.slow)]


def report(expectations: Expectations, ours: Sequence[str], results: Sequence[Result]) -> None:
    """Print what failed, what was counted, and why the rest was not run."""
    for result in results:
        if result.outcome is Outcome.FAILED:
            print(f"FAILED {result.name}\n{result.text}\n")
    counts = Counter(result.outcome for result in results)
    for outcome in Outcome:
        print(f"{counts[outcome]:5} {outcome.value}")
    for reason, count in Counter(
        result.text for result in results if result.outcome is Outcome.DIFFERENT
    ).most_common():
        print(f"      {count:5} {reason}")
    reasons = Counter(
        group.reason for name in ours if (group := expectations.disabled_by(name)) is not None
    )
    print(f"{sum(reasons.values()):5} disabled, of {len(ours)} tests of DTLS")
    for reason, count in reasons.most_common():
        print(f"      {count:5} {reason}")


if __name__ == "__main__":
    sys.exit(main())
