"""The package without its extra: everything but the routes can be imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import instant_connect
import instant_connect.io

EXTRA = ("starlette", "hypercorn", "python_multipart")
BLOCKED = f"import sys\nfor name in {EXTRA}: sys.modules[name] = None\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["instant_connect", "instant_connect.signalling"])
def test_the_rules_need_no_web_framework(name: str) -> None:
    command = [sys.executable, "-c", f"{BLOCKED}import {name}"]
    assert subprocess.run(command, capture_output=True, check=False).stderr == b""


@pytest.mark.slow
def test_a_client_needs_no_web_framework_and_has_a_short_name() -> None:
    program = (
        f"{BLOCKED}import instant_connect as ic, instant_connect.io as io\n"
        "assert ic.Client is io.InstantCaller and ic.CallerConfig is io.CallerConfig\n"
        "try: io.signalling_app\n"
        "except ImportError as error: assert \"pip install 'warp-rtc[server]'\" in str(error)\n"
        "else: raise SystemExit('it came without its extra')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_the_front_doors_do_not_have() -> None:
    for door in (instant_connect, instant_connect.io):
        assert all(hasattr(door, name) for name in door.__all__)
        assert not hasattr(door, "nothing_of_the_kind")
