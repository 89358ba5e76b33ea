"""The command line of the pictures: what it refuses, and what it says when something is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from interop.page_screenshot import read_arguments


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--rtt", "-1"], "--rtt is 0 to 2000 ms, not -1"),
        (["--rtt", "nan"], "--rtt is 0 to 2000 ms, not nan"),
        (["--talk", "--rtt", "100"], "--talk takes no --rtt"),
        (["--talk", "--way", "stale"], "--talk takes no --way"),
        (["--talk", "--figures"], "--talk takes no --figures"),
    ],
)
def test_what_does_not_go_together_is_refused(
    capsys: pytest.CaptureFixture[str], given: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(["--out", "pictures", *given])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {says}\n")


def test_what_does_is_taken() -> None:
    assert read_arguments(["--out", "pictures", "--talk"]).talk
    assert read_arguments(["--out", "pictures", "--rtt", "100", "--warp"]).rtt == 100.0


@pytest.mark.slow
def test_what_is_not_installed_is_named() -> None:
    lacking = "import runpy, sys; sys.modules['websockets'] = None; sys.argv[1:] = ['--help'];"
    code = f"{lacking} runpy.run_module('interop.page_screenshot', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "websockets" in line
    assert line.endswith("is not installed: pip install -e '.[dev]'")
