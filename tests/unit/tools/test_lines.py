from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from warp_tools.failure import ToolFailure
from warp_tools.lines import Worker

CHILD = """
import asyncio
from warp_tools.lines import Lines

async def main():
    lines = Lines()
    lines.write(event="ready")
    while (order := await lines.read()) is not None:
        match order["order"]:
            case "echo":
                lines.write(event="other")
                lines.write(event="echo", text=order["text"])
            case "fail":
                lines.write(event="failure", text="no such thing")
            case "die":
                raise SystemExit(3)

asyncio.run(main())
"""


@pytest.fixture
def module(tmp_path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "obedient_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "obedient_child"


@pytest.mark.slow
def test_a_child_whose_parent_has_gone_ends_without_a_word(module: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        child.stdin.close()
        assert child.stderr.read() == b""
        assert child.wait(30) == 0


@pytest.mark.slow
def test_a_child_obeys_reports_and_ends(module: str) -> None:
    async def main() -> None:
        worker = await Worker.start(module)
        await worker.expect("ready")
        text = "x" * 200_000
        worker.send(order="echo", text=text)
        assert (await worker.expect("echo"))["text"] == text
        # a line of another kind has waited for who wants it
        await worker.expect("other")
        worker.send(order="fail")
        with pytest.raises(ToolFailure, match="obedient_child: no such thing"):
            await worker.expect("echo")
        with pytest.raises(ToolFailure, match=r"said no 'echo' within 0\.05 s"):
            await worker.expect("echo", timeout_s=0.05)
        worker.send(order="die")
        with pytest.raises(ToolFailure, match="ended with status 3"):
            await worker.expect("echo")
        with pytest.raises(ToolFailure, match="has ended with status 3"):
            worker.send(order="echo", text="")
        await worker.stop()

    asyncio.run(main())


@pytest.mark.slow
def test_stopping_a_living_child_ends_it(module: str) -> None:
    async def main() -> None:
        worker = await Worker.start(module)
        await worker.expect("ready")
        await worker.stop()
        with pytest.raises(ToolFailure, match="has ended with status 0"):
            worker.send(order="echo", text="")

    asyncio.run(main())


@pytest.mark.slow
def test_a_child_that_cannot_start_is_one_line() -> None:
    async def main() -> None:
        worker = await Worker.start("no_such_module_here")
        with pytest.raises(ToolFailure, match="ended with status 1"):
            await worker.expect("ready")
        await worker.stop()

    assert sys.executable
    asyncio.run(main())
