"""Three servers behind a relay, each a machine of its own: who gets a call, and who keeps it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from instant_connect.calls import server_of
from instant_connect.keyring import parse_keyring
from instant_connect.ticket import peek_route
from tests.interop.loops import run
from tests.interop.namespaces import Lab, require_namespaces
from warp_tools.keys import new_keyring, write_route_keys

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RELAY, UDP = "10.77.0.1", 4433
CLIENT, ELSEWHERE = "10.77.0.100", "10.77.0.200"
SERVERS = {number: f"10.77.0.{10 + number}" for number in (1, 2, 3)}
WARP = (sys.executable, "-m", "warp_tools.main")
START_S = 60.0
PING_S = 3.0
CHECK_S = 15.0
"""Whoever has moved is heard again after its next check: 5 s (RFC 7675), and a retransmission."""
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"


class Cell:
    """The relay, the servers by number, and whoever calls."""

    def __init__(self, lab: Lab, keys: Path) -> None:
        self.lab = lab
        self.keyring = parse_keyring(keys.read_text())
        self.servers: dict[int, asyncio.subprocess.Process] = {}
        self.relay: asyncio.subprocess.Process
        self.caller: asyncio.subprocess.Process

    async def ask(self, **what: Any) -> dict[str, Any]:
        """Have the caller do something; what came of it."""
        assert self.caller.stdin is not None
        self.caller.stdin.write(json.dumps(what).encode() + b"\n")
        return await said(self.caller)

    async def bundle(self, number: int) -> str:
        """Tickets of one server, which name it."""
        url = f"http://{SERVERS[number]}:8080/v1/instant"
        process = await self.lab.start("client", sys.executable, "-c", FETCH, url)
        out, _ = await process.communicate()
        text = out.decode()
        [hint] = {
            peek_route(raw, self.keyring).hint
            for raw in (_raw(ticket["t"]) for ticket in json.loads(text)["tickets"])
        }
        assert hint == number
        return text

    async def alive(self, seconds: float) -> list[bool]:
        """Which calls answer within so long."""
        alive: list[bool] = (await self.ask(do="ping", seconds=seconds))["alive"]
        return alive

    async def call(self, number: int) -> int:
        """Call by a ticket of one server; who has the call."""
        made = await self.ask(do="call", bundle=await self.bundle(number))
        return taken_by(made)


def _raw(text: str) -> bytes:
    return b64decode(text + "=" * (-len(text) % 4))


def taken_by(made: dict[str, Any]) -> int:
    assert "id" in made, made
    number = server_of(made["id"])
    assert number is not None
    return number


async def said(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(START_S):
        told: dict[str, Any] = json.loads(await process.stdout.readline())
    return told


async def line(process: asyncio.subprocess.Process, pattern: str) -> None:
    """Wait for a line that a process prints."""
    assert process.stdout is not None
    async with asyncio.timeout(START_S):
        while text := (await process.stdout.readline()).decode():
            if re.search(pattern, text):
                return
    raise AssertionError(f"it has ended without {pattern!r}")


@asynccontextmanager
async def cell(keys: Path, routes: Path) -> AsyncIterator[Cell]:
    with Lab() as lab:
        lab.add("relay", RELAY)
        lab.add("client", CLIENT, ELSEWHERE)
        made = Cell(lab, keys)
        try:
            for number, host in SERVERS.items():
                lab.add(f"server{number}", host)
                made.servers[number] = await lab.start(
                    f"server{number}",
                    *(*WARP, "serve", "--backend", "echo", "--host", host, "--keys", str(keys)),
                    *("--udp-port", str(UDP), "--server-id", str(number)),
                    *("--advertise", RELAY, "--advertise-port", str(UDP)),
                )
            programme = str(Path(__file__).with_name("relay_caller.py"))
            made.caller = await lab.start(
                "client", sys.executable, programme, CLIENT, RELAY, str(UDP), stdin=True
            )
            for process in made.servers.values():
                await line(process, "echo at")
            # a relay that is there first takes a server for one that is down, for a second
            upstreams = [f"{number}={host}:{UDP}" for number, host in SERVERS.items()]
            made.relay = await lab.start(
                "relay",
                *(*WARP, "relay", "--listen", f"{RELAY}:{UDP}", "--route-key", str(routes)),
                *(part for upstream in upstreams for part in ("--upstream", upstream)),
            )
            assert await said(made.caller) == {"ready": True}
            await line(made.relay, "relay at UDP")
            yield made
        finally:
            await lab.end()


def test_calls_of_many_hosts(tmp_path: Path) -> None:
    require_namespaces()
    keys, routes = tmp_path / "cell.json", tmp_path / "routes.json"
    new_keyring(keys, 5)
    write_route_keys(keys, routes)

    async def test() -> None:
        async with cell(keys, routes) as made:
            # each goes where its ticket says
            assert [await made.call(number) for number in (1, 2, 3, 3)] == [1, 2, 3, 3]
            assert await made.alive(PING_S) == [True] * 4

            # a client's NAT gets another address: the calls stay where they are
            await made.ask(do="move", host=ELSEWHERE)
            assert await made.alive(CHECK_S) == [True] * 4

            # a server dies: its calls with it, and its tickets are good elsewhere
            late = await made.bundle(2)
            await made.lab.end([made.servers[2]])
            await line(made.relay, r"upstream 2 .* does not answer")
            assert taken_by(await made.ask(do="call", bundle=late)) in (1, 3)
            assert await made.alive(PING_S) == [True, False, True, True, True]

            # one drains: its calls go on, and what is new goes to the one that is left
            drained = await made.bundle(1)
            made.servers[1].send_signal(signal.SIGUSR1)
            await line(made.relay, r"upstream 1 .* goes on with those it has")
            assert taken_by(await made.ask(do="call", bundle=drained)) == 3
            await made.ask(do="move", host=CLIENT)
            assert await made.alive(CHECK_S) == [True, False, True, True, True, True]

    run(test(), seconds=100.0)
