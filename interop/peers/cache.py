"""Where peers are built and installed: a folder of the user's, never the repository.

    built("pion", sources, command)   once for each content of the sources; then the folder is there

`WARP_INTEROP_CACHE` names another folder. A build that fails or is interrupted leaves nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from interop.peers.peer import PeerAbsent

BUILD_S = 1500.0
_TAIL = 800


def cache_folder() -> Path:
    """Return the folder that all of it lies in."""
    chosen = os.environ.get("WARP_INTEROP_CACHE")
    if chosen:
        return Path(chosen)
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "warp-rtc" / "interop"
    )


def find_program(name: str, how: str) -> str:
    """Return the path of a program; raises PeerAbsent saying how to get it."""
    found = shutil.which(name)
    if found is None:
        raise PeerAbsent(f"{name} is not installed: {how}")
    return found


def built(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """Return a folder that `build` has filled, from the cache if these sources were built before.

    `build` is given an empty folder; it raises PeerAbsent when that can't be done. Of several
    processes that want the same one builds and the others wait.
    """
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    folder = cache_folder() / f"{name}-{digest.hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as work:
                made = Path(work) / "made"
                made.mkdir()
                build(made)
                made.rename(folder)
    return folder


def run(command: Sequence[str], folder: Path, **environment: str) -> None:
    """Run a step of a build; raises PeerAbsent with the end of what it says when it fails."""
    try:
        done = subprocess.run(
            list(command),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerAbsent(f"{command[0]}: {error}") from error
    if done.returncode:
        said = done.stdout.decode(errors="replace")[-_TAIL:]
        raise PeerAbsent(f"{' '.join(command[:3])} ended with {done.returncode}: {said}")
