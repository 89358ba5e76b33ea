"""README's program runs as it stands there, and says what it should."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_clients_lines_are_python() -> None:
    """They want a server and a package of others: tests/interop has the whole conversation."""
    [lines] = [text for text in programs() if "openai" in text]
    compile("async def main(URL):\n" + textwrap.indent(lines, "    "), "README.md", "exec")


@pytest.mark.slow
def test_the_program_runs() -> None:
    [program] = [text for text in programs() if "asyncio.run(" in text]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == ["you said: hello", "ended with None"]
    assert ran.returncode == 0
