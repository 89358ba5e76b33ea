"""The package without its extras: what is missing is named, and how it is had."""

from __future__ import annotations

import subprocess
import sys

import pytest

VOICE, SERVER = "pip install 'warp-rtc[voice]'", "pip install 'warp-rtc[server,voice]'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "module", "fix"),
    [
        ("numpy", "voice_backend", VOICE),
        ("numpy", "voice_backend.io", VOICE),
        ("pydantic", "voice_backend.live", VOICE),
        ("starlette", "voice_backend.io.live", SERVER),
        ("python_multipart", "voice_backend.io.live", SERVER),
    ],
)
def test_an_extra_that_is_missing_is_named(missing: str, module: str, fix: str) -> None:
    program = f"import sys\nsys.modules[{missing!r}] = None\nimport {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("ImportError: ")
    assert missing.replace("_", "-") in said
    assert said.endswith(fix)
