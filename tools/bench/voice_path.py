"""Runs the lossy path of `warp bench voice` as a process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from warp_tools.failure import ToolFailure

_MODULE = "warp_tools.bench.lossy_path"


@asynccontextmanager
async def open_path(server_port: int, loss: float, seed: int) -> AsyncIterator[int]:
    """Yield the port where the path begins; it ends with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _MODULE, str(server_port)),
        *("--loss", str(loss), "--seed", str(seed)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdin is None or process.stdout is None:
        raise ToolFailure("the path has no pipes")
    try:
        line = await process.stdout.readline()
        if not line:
            raise ToolFailure("the lossy path did not start")
        yield int(line)
    finally:
        process.stdin.close()
        await process.wait()
