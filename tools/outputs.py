"""Files that a command is going to write: looked at before minutes are spent on what goes there.

Called by `warp demo` and `warp call`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from warp_tools.failure import CommandRefused


def check_output(path: Path, *, keep: Iterable[Path | None] = ()) -> None:
    """Raise ToolFailure, one line, unless a file can be written there.

    `keep` are files that must not be lost to it. Nothing is left behind.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise CommandRefused(f"cannot write {path}: it is no file in a directory that exists")
    for other in keep:
        if other is not None and _same(path, other):
            raise CommandRefused(f"{path} would be overwritten: write to another file")
    existed = path.exists()
    if existed and not path.is_file():
        return  # to open a pipe would wait for its reader
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))
        if not existed:
            path.unlink()
    except OSError as error:
        raise CommandRefused(f"cannot write {path}: {error.strerror}") from error


def _same(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve()
