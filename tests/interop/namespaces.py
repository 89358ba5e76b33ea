"""Machines that are network namespaces of this one, on one switch.

    with Lab() as lab:
        lab.add("relay", "10.77.0.1")
        process = await lab.start("relay", sys.executable, "-m", ...)

Needs root and `ip` (iproute2). Names carry the process's number; nothing is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest


def require_namespaces() -> None:
    """End the test where there can be no namespaces: with a reason, and as a failure in CI."""
    reason = ""
    if shutil.which("ip") is None:
        reason = "ip is not installed (apt-get install iproute2)"
    elif os.geteuid() != 0:
        reason = "network namespaces need root"
    else:
        name = f"warp-relay-probe-{os.getpid()}"
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
        if made.returncode:
            reason = f"network namespaces cannot be made: {made.stderr.strip()}"
        else:
            subprocess.run(["ip", "netns", "del", name], check=True)
    if not reason:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; under CI=true they have to be there")
    pytest.skip(reason)


class Lab:
    """A switch and what is plugged into it."""

    def __init__(self) -> None:
        self._prefix = f"wr{os.getpid()}"
        self._names: list[str] = []
        self._processes: list[asyncio.subprocess.Process] = []

    def __enter__(self) -> Lab:
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            self._ip("netns", "add", self._space("switch"))
            self._names.append("switch")
            self._in("switch", "link", "add", "br0", "type", "bridge")
            self._in("switch", "link", "set", "br0", "up")
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def _in(self, name: str, *arguments: str) -> None:
        self._ip("-n", self._space(name), *arguments)

    def add(self, name: str, *addresses: str) -> None:
        """Plug in a machine with these addresses, all in one /24."""
        self._ip("netns", "add", self._space(name))
        self._names.append(name)
        port = f"p{len(self._names)}"
        switch = self._space("switch")
        peer = ("peer", "name", port, "netns", switch)
        self._in(name, "link", "add", "eth0", "type", "veth", *peer)
        self._in("switch", "link", "set", port, "master", "br0", "up")
        self._in(name, "link", "set", "lo", "up")
        self._in(name, "link", "set", "eth0", "up")
        for address in addresses:
            self._in(name, "addr", "add", f"{address}/24", "dev", "eth0")

    async def start(
        self, name: str, *command: str, stdin: bool = False
    ) -> asyncio.subprocess.Process:
        """Run a command on a machine; its output is the caller's."""
        process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self._space(name), *command),
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    async def end(self, processes: Sequence[asyncio.subprocess.Process] | None = None) -> None:
        """Kill processes (None: all) and wait until they have gone."""
        for process in self._processes if processes is None else processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    def close(self) -> None:
        """Take everything apart. Harmless when repeated."""
        while self._names:
            space = self._space(self._names.pop())
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
