"""No clock, socket, thread or hidden entropy in the machines (ARCHITECTURE section 2)."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.test_ranks import ROOT, imports, sources

IMPURE = {"asyncio", "socket", "threading", "time", "select", "selectors", "random", "secrets"}
OWNERS = {
    "cryptography": "warp/crypto",
    "pylibsrtp": "warp/srtp",
    "aioice": "warp/io",
}
CORES = ("warp", "instant_connect", "voice_backend")
"""Packages whose machines are pure: what touches the world is in their `io/`."""
WORLDLY = ("io", "compat", "loop.py", "worker")
"""Rooms that may touch it: `compat` has other libraries' shapes, asyncio's among them; the media
loop and the process that it lives in have nobody else to ask for the time."""


def _inside(path: Path, folder: str) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return name == folder or name.startswith(folder + "/")


def test_only_io_reads_clocks_and_sockets() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package in CORES
        for path in sources(package)
        if not any(_inside(path, f"{package}/{room}") for room in WORLDLY)
        for name in imports(path)
        if name.split(".")[0] in IMPURE
    ]
    assert wrong == []


def test_only_entropy_asks_the_system() -> None:
    wrong = [
        path.relative_to(ROOT).as_posix()
        for package in CORES
        for path in sources(package)
        if path.name != "entropy.py" and "urandom" in path.read_text()
    ]
    assert wrong == []


def test_each_library_has_one_owner() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package in CORES
        for path in sources(package)
        for name in imports(path)
        if (owner := OWNERS.get(name.split(".")[0])) and not _inside(path, owner)
    ]
    assert wrong == []


def test_no_assert_on_the_wire() -> None:
    """Wire modules meet hostile input: a value or a discard, never an assertion."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for package in CORES
        for path in sources(package)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.lstrip().startswith("assert ")
    ]
    assert wrong == []
