from __future__ import annotations

import os
from pathlib import Path

import pytest

from warp_tools.failure import ToolFailure
from warp_tools.outputs import check_output


def test_nothing_is_left_behind_and_nothing_is_lost(tmp_path: Path) -> None:
    check_output(tmp_path / "new.wav")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.wav").write_text("kept")
    check_output(tmp_path / "old.wav")
    assert (tmp_path / "old.wav").read_text() == "kept"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "a.wav", tmp_path / "a.wav" / "b"):
        with pytest.raises(ToolFailure, match="cannot write"):
            check_output(path)
    with pytest.raises(ToolFailure, match="cannot write"):
        check_output(Path("/proc/a.wav"))


def test_a_file_that_has_to_stay(tmp_path: Path) -> None:
    speech = tmp_path / "speech.wav"
    speech.write_text("mine")
    (tmp_path / "link.wav").symlink_to(speech)
    for out in (speech, tmp_path / "." / "speech.wav", tmp_path / "link.wav"):
        with pytest.raises(ToolFailure, match="would be overwritten"):
            check_output(out, keep=(None, speech))


def test_nobody_waits_for_the_reader_of_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_output(tmp_path / "pipe")
