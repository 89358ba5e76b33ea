"""The console command `warp`: checks that what it needs is installed, then hands over."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Sequence

from warp_tools.failure import FAILED, INTERRUPTED, REFUSED, ToolFailure

NEEDED = (
    *("typer", "rich", "numpy", "av", "pydantic", "soxr"),
    *("starlette", "hypercorn", "python_multipart"),
)


def missing_packages() -> list[str]:
    """Return what the extra `tools` would install and is not there."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    # what is imported takes its time, and Ctrl-C may come then as well
    try:
        accept_any_text()
        missing = missing_packages()
        if missing:
            fail(f"{', '.join(missing)} not installed: pip install 'warp-rtc[tools]'", REFUSED)
        run(arguments)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run(arguments: Sequence[str] | None) -> None:
    """Hand over, and say in one line what went wrong."""
    from warp.errors import UsageError
    from warp_tools.cli import app

    try:
        app(args=None if arguments is None else list(arguments), prog_name="warp")
    except ToolFailure as failure:
        fail(str(failure), failure.status)
    except UsageError as error:
        fail(str(error), REFUSED)
    except BrokenPipeError:
        # whoever read our output has gone; nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        fail(
            f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), FAILED
        )


def accept_any_text() -> None:
    """Let no character end a command: a terminal may know few, a file's name may be no text."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_utf = stream.encoding.lower().startswith("utf")
            stream.reconfigure(errors="backslashreplace" if is_utf else "replace")


def _shown(letter: str) -> str:
    # a surrogate is a byte of a file's name that is no text: the stream knows how to write it
    is_harmless = letter.isprintable() or "\ud800" <= letter <= "\udfff"
    return letter if is_harmless else "\N{REPLACEMENT CHARACTER}"


def fail(text: str, status: int) -> None:
    """Say in one line why it does not go on, and end. What a stranger said steers no terminal."""
    line = "".join(map(_shown, " ".join(text.split())))
    print(f"warp: {line}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
