"""The last line of the demo's ledger: a call by a ticket, counted from the intent.

    bundle, ahead of time ─▶ client ─ intent ─┬ first datagram ─ path ─▶ server
                                              └ offer ─ as long as on the path ─▶ server, answer ─▶

Signalling takes as long as the path does, both ways, and nothing waits for it. Called by `demo`.
"""

from __future__ import annotations

import json

from warp_tools.delay import DelayPath, PathConfig, lead_through
from warp_tools.failure import ToolFailure
from warp_tools.ledger import Had, Row, Start, enter
from warp_tools.lines import Line, Worker

NAME = "instant"
_LOAD_S = 120.0
HAD = {
    "session": "a session, out of one datagram: ticket, certificate, ClientHello (T1)",
    "attached": "the client's offer, which came by signalling and joins that session",
    "dtls_server": "a client that is proven: from here on it may cost something (T3)",
}


async def start_instant(order: Line, rtt_s: float, client: Worker, server: Worker) -> Row:
    """Make one call by a ticket over a path of this delay."""
    with DelayPath(config=PathConfig(delay_s=rtt_s / 2)) as path:
        began, times = await begin_instant(order, path, rtt_s, client, server)
        times |= await _marks(client, 2) | await _marks(server, 3)
        client.send(order="hang_up")
        await client.expect("hung_up")
        server.send(order="hang_up")
        await server.expect("hung_up")
    had = [Had((times[name] - began) * 1000, what) for name, what in HAD.items() if name in times]
    start = Start(name=NAME, first_check=began, times=times, ladder=path.ladder)
    return enter(start, rtt_s or 1.0, had=tuple(sorted(had)))


async def begin_instant(
    order: Line, path: DelayPath, rtt_s: float, client: Worker, server: Worker
) -> tuple[float, dict[str, float]]:
    """Begin a call; returns the moment of the intent, and when the server had the offer."""
    server.send(order="bundle", role="server", **order)
    # whoever answers may have a voice to load
    bundle = json.loads((await server.expect("bundle", timeout_s=_LOAD_S))["text"])
    path.lead_to(address_of(bundle["candidates"]))
    bundle["candidates"] = ["udp {} {}".format(*path.server_side)]
    client.send(order="call", role="client", bundle=json.dumps(bundle), **order)
    began = (await client.expect("intent"))["at"]
    return began, await _signal(path, rtt_s, client, server)


async def _signal(
    path: DelayPath, rtt_s: float, client: Worker, server: Worker
) -> dict[str, float]:
    """Carry the offer to the server and its answer back; tell when the server had it.

    Each end is told when to read what it has got: pipes are quicker than the path.
    """
    asked = await client.expect("offer")
    offer = lead_through(asked["sdp"], path.client_side)
    due = asked["at"] + rtt_s / 2
    server.send(order="attach", offer=offer, headers=asked["headers"], at=due)
    answer = await server.expect("attached")
    sdp = lead_through(answer["sdp"], path.server_side)
    due = answer["at"] + rtt_s / 2
    client.send(order="accept", answer=sdp, status=answer["status"], at=due)
    return {"attached": answer["at"]}


async def _marks(worker: Worker, count: int) -> dict[str, float]:
    await worker.expect("started")
    marks = [await worker.expect("mark") for _ in range(count)]
    return {mark["name"]: mark["at"] for mark in marks}


def address_of(candidates: list[str]) -> tuple[str, int]:
    """Return the address of a bundle's first UDP candidate."""
    for candidate in candidates:
        transport, host, port = candidate.split()
        if transport == "udp":
            return host, int(port)
    raise ToolFailure("the server's bundle names no address")
