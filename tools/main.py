"""The console command `warp`: checks that what it needs is installed, then hands over."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence

from warp_tools.failure import ToolFailure

NEEDED = ("typer", "rich", "numpy", "av", "starlette", "hypercorn", "python_multipart")
FAILED, MISSING, INTERRUPTED = 1, 2, 130


def missing_packages() -> list[str]:
    """Return what the extra `tools` would install and is not there."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    missing = missing_packages()
    if missing:
        fail(f"{', '.join(missing)} not installed: pip install 'warp-rtc[tools]'", MISSING)
    from warp.errors import UsageError
    from warp_tools.cli import app

    try:
        app(args=None if arguments is None else list(arguments), prog_name="warp")
    except (ToolFailure, UsageError) as failure:
        fail(str(failure), FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # whoever read our output has gone; nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        fail(
            f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), FAILED
        )


def fail(text: str, status: int) -> None:
    """Say in one line why it does not go on, and end."""
    print(f"warp: {' '.join(text.split())}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
