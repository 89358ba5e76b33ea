from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from warp.io.credentials import key_log

LINE = "CLIENT_HANDSHAKE_TRAFFIC_SECRET 00 11"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_log_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(path))
    before = os.umask(0)
    try:
        write = key_log()
        assert write is not None
        write(LINE)
        write(LINE + "\n")
    finally:
        os.umask(before)
    assert path.read_text() == f"{LINE}\n{LINE}\n"
    assert mode(path) == 0o600


def test_a_file_that_was_there_keeps_its_mode_and_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.log"
    path.write_text("# shared with a group\n")
    path.chmod(0o640)
    monkeypatch.setenv("SSLKEYLOGFILE", str(path))
    write = key_log()
    assert write is not None
    write(LINE)
    assert path.read_text() == f"# shared with a group\n{LINE}\n"
    assert mode(path) == 0o640


def test_without_a_name_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", None):
        monkeypatch.delenv("SSLKEYLOGFILE", raising=False)
        if name is not None:
            monkeypatch.setenv("SSLKEYLOGFILE", name)
        assert key_log() is None
