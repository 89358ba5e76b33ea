"""The key file: made for its owner alone, changed whole, and every mistake is one line."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from warp_tools import keys
from warp_tools.failure import ToolFailure
from warp_tools.main import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "keys.json"
    keys.new_keyring(made, 7)
    return made


def refused(path: Path) -> str:
    with pytest.raises(ToolFailure) as caught:
        keys.load_keyring(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_key_file_is_its_owners_alone(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ring = keys.load_keyring(path)
    assert (ring.cell, ring.current.key_id, ring.previous) == (7, 0, None)
    assert keys.load_keyring(path).to_text() == ring.to_text()


def test_a_key_file_is_not_overwritten(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ToolFailure, match="exists already"):
        keys.new_keyring(path, 7)
    assert path.read_bytes() == before


def test_others_must_not_read_it(path: Path) -> None:
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        assert "chmod 600" in refused(path)


def test_what_is_no_key_file(path: Path, tmp_path: Path) -> None:
    assert "warp keys new" in refused(tmp_path / "none.json")
    assert "cannot read" in refused(tmp_path)
    whole = json.loads(path.read_text())
    master = whole["current"]["master"]
    for content in (
        "",
        "{}",
        "no json",
        json.dumps({**whole, "current": {**whole["current"], "master": master[:-8]}}),
        json.dumps({**whole, "current": {**whole["current"], "certificate": "x"}}),
        "\u00e9" * 10,
        " " * 100_000,
    ):
        path.write_text(content)
        said = refused(path)
        assert "is no key file" in said
        assert master not in said


def test_keys_are_rotated_with_a_stage_between_or_without(path: Path) -> None:
    first = keys.load_keyring(path).current
    keys.change_keyring(path, keys.stage)
    staged = keys.load_keyring(path)
    assert staged.upcoming is not None
    assert staged.current.key_id == first.key_id
    with pytest.raises(ToolFailure, match="rotate first"):
        keys.change_keyring(path, keys.stage)
    keys.change_keyring(path, keys.rotate)
    rotated = keys.load_keyring(path)
    assert rotated.current.to_json() == staged.upcoming.to_json()
    assert rotated.previous is not None
    assert rotated.previous.to_json() == first.to_json()
    for _ in range(20):
        keys.change_keyring(path, keys.rotate)
    assert keys.load_keyring(path).current.key_id == 21 % 16
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_relays_keys_replace_a_relays_keys_and_nothing_else(path: Path, tmp_path: Path) -> None:
    """Its own key file least of all: all tickets of the cell would be lost."""
    whole, out, other = path.read_bytes(), tmp_path / "routes.json", tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(ToolFailure, match="would be overwritten"):
        keys.write_route_keys(path, path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    for taken in (other, link):
        with pytest.raises(ToolFailure, match=r"write to another file|would be overwritten"):
            keys.write_route_keys(path, taken)
    assert (path.read_bytes(), other.read_text()) == (whole, "mine")
    keys.write_route_keys(path, out)
    before = out.read_text()
    keys.change_keyring(path, keys.stage)
    keys.write_route_keys(path, out)
    assert len(json.loads(out.read_text())["route_keys"]) == 2
    assert out.read_text() != before
    out.replace(path)
    assert "has to be an object: relays' keys have none" in refused(path)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="cannot write"):
        keys.new_keyring(tmp_path / "no" / "keys.json", 1)
    with pytest.raises(ToolFailure, match="16 bits"):
        keys.new_keyring(tmp_path / "keys.json", 70_000)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys.json"
    for command, says in (("new", "every server"), ("stage", "rotate once"), ("rotate", "SIGHUP")):
        with pytest.raises(SystemExit) as ended:
            main(["keys", command, str(path)])
        assert ended.value.code in (0, None)
        assert says in capsys.readouterr().out
    assert os.path.getsize(path) < 8_000
    with pytest.raises(SystemExit):
        main(["keys", "rotate", str(path)])
    assert "no keys were staged" in capsys.readouterr().out
