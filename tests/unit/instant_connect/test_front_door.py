"""The package without its extra: everything but the routes can be imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRA = ("starlette", "hypercorn", "python_multipart")
BLOCKED = f"import sys\nfor name in {EXTRA}: sys.modules[name] = None\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["instant_connect", "instant_connect.signalling"])
def test_the_rules_need_no_web_framework(name: str) -> None:
    command = [sys.executable, "-c", f"{BLOCKED}import {name}"]
    assert subprocess.run(command, capture_output=True, check=False).stderr == b""
