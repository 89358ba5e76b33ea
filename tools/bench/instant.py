"""`warp bench instant`: what first datagrams cost a server, good ones and bad.

    tickets    opened, refused                     in a loop, this process's CPU time
    sessions   first datagram ─▶ a session's shell, before DTLS computes anything
    flood      10,000 bad first datagrams a second over UDP: share of one core, memory

aiortc has nothing of the kind; the targets are the project's own.
"""

from __future__ import annotations

import gc
import statistics
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from instant_connect.attempt import make_attempt
from instant_connect.bundle import Bundle, SealedTicket, parse_bundle
from instant_connect.io import InstantConfig, InstantServer, listen_instant
from instant_connect.keyring import Keyring
from instant_connect.ticket import Grant, Route, open_ticket, seal_ticket
from instant_connect.ufrag import compose_ufrag, open_ufrag
from warp.contract import Flow
from warp.crypto import HmacSha1
from warp.entropy import SeededEntropy
from warp.errors import Discard
from warp.io import ServerConfig
from warp.stun import Attribute, MessageClass, build_message
from warp_tools.bench.child import resident_kib
from warp_tools.bench.report import Report, Target
from warp_tools.lines import Worker

OPEN_TARGET_US = 12.0
SHELL_TARGET_MS = 0.6
FLOOD_PER_S = 10_000
FLOOD_CPU_TARGET = 0.5
"""Share of one core that a flood may take: the rest is for calls."""
FLOOD_MEMORY_TARGET_KIB = 4_096.0
_HOST = "127.0.0.1"
_BATCH = 200
_FLOODER = "warp_tools.bench.flooder"
# a record with the beginning of a ClientHello: what a check carries that begins a session
_HELLO = bytes([22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200, 1]) + bytes(199)


async def run(*, quick: bool = False) -> Report:
    """Measure."""
    batches = 10 if quick else 40
    figures = _tickets(batches) | await _shells(batches) | await _flood(2.0 if quick else 5.0)
    return Report(
        title="First datagrams",
        ours=figures,
        aiortc={},
        ratio={},
        targets=[
            Target(name="us, open a ticket", value=figures["open_us"], limit=OPEN_TARGET_US),
            Target(name="us, refuse a ticket", value=figures["refuse_us"], limit=OPEN_TARGET_US),
            Target(name="CPU ms, a shell", value=figures["shell_ms"], limit=SHELL_TARGET_MS),
            Target(
                name="share of a core in a flood",
                value=figures["flood_cpu"],
                limit=FLOOD_CPU_TARGET,
            ),
            Target(
                name="KiB that a flood leaves",
                value=figures["flood_kib"],
                limit=FLOOD_MEMORY_TARGET_KIB,
            ),
        ],
    )


def first_datagram(ufrag: str, password: str, number: int, *attributes: tuple[int, bytes]) -> bytes:
    """Return a client's first check."""
    name = (int(Attribute.USERNAME), f"{ufrag}:abcd".encode())
    return build_message(
        1,
        MessageClass.REQUEST,
        number.to_bytes(12, "big"),
        [name, (int(Attribute.ICE_CONTROLLING), bytes(8)), *attributes],
        integrity_key=HmacSha1(password.encode()),
    )


def attempts(bundle: Bundle, entropy: SeededEntropy) -> list[tuple[str, SealedTicket]]:
    """Return a ufrag for each ticket, and the ticket."""
    made = []
    for ticket in bundle.tickets:
        attempt = make_attempt(bytes(32), 111, entropy, sctp=(5, 6))
        made.append((compose_ufrag(ticket.raw, attempt), ticket))
    return made


def _timed(action: Callable[[], object], batches: int, size: int = _BATCH) -> float:
    """Return the CPU seconds of one call: the median of batches."""
    found = []
    for _ in range(batches):
        before = time.process_time()
        for _ in range(size):
            action()
        found.append((time.process_time() - before) / size)
    return statistics.median(found)


def _tickets(batches: int) -> dict[str, Any]:
    """Open a ticket, and refuse one that others cannot tell from it."""
    entropy, wall_s = SeededEntropy(b"bench"), 1.79e9
    ring = Keyring.generate(entropy, wall_s)
    raw = seal_ticket(ring.current, Route(ring.cell), Grant(int(wall_s) + 600), entropy)
    forged = raw[:-1] + bytes([raw[-1] ^ 1])
    ufrag = compose_ufrag(raw, make_attempt(bytes(32), 111, entropy, sctp=(5, 6)))

    def refuse() -> None:
        try:
            open_ticket(forged, ring, wall_s)
        except Discard:
            return
        raise AssertionError("a forged ticket was opened")

    return {
        "open_us": round(_timed(lambda: open_ticket(raw, ring, wall_s), batches) * 1e6, 2),
        "refuse_us": round(_timed(refuse, batches) * 1e6, 2),
        "open_ufrag_us": round(_timed(lambda: open_ufrag(ufrag, ring, wall_s), batches) * 1e6, 2),
    }


async def _open(tickets: int) -> tuple[InstantServer, Bundle]:
    config = InstantConfig(server=ServerConfig(early_data=True))
    server = await listen_instant(_HOST, config=config)
    found: list[SealedTicket] = []
    bundle = parse_bundle(server.bundle())
    while len(found) < tickets:
        found += parse_bundle(server.bundle()).tickets
    return server, Bundle(
        tickets=tuple(found[:tickets]),
        fingerprint=bundle.fingerprint,
        terms=bundle.terms,
        issued_at=bundle.issued_at,
        expires_at=bundle.expires_at,
    )


async def _shells(batches: int) -> dict[str, Any]:
    """Make sessions of first datagrams, and do not let them begin DTLS."""
    count = max(20, batches * 2)
    server, bundle = await _open(count)
    try:
        port = server.server.find_port((_HOST, server.port))
        if port is None or port.unknown is None:
            raise AssertionError("the server does not listen")
        carried = (int(Attribute.META_DTLS_IN_STUN), _HELLO)
        spent = []
        gc.collect()
        for number, (ufrag, ticket) in enumerate(attempts(bundle, SeededEntropy(b"shells"))):
            data = first_datagram(ufrag, ticket.password, number, carried)
            flow = Flow((_HOST, server.port), (f"192.0.2.{number % 250}", 50_000))
            before = time.process_time()
            session = port.unknown(port, data, flow)
            spent.append(time.process_time() - before)
            if session is None:
                raise AssertionError("a first datagram made no session")
        return {"shell_ms": round(statistics.median(spent) * 1e3, 3), "shells": len(spent)}
    finally:
        await server.close()


async def _flood(seconds: float) -> dict[str, Any]:
    """Be flooded by every kind of bad first datagram at once."""
    server, bundle = await _open(3)
    flooder = await Worker.start(_FLOODER, _HOST, str(server.port))
    try:
        await flooder.expect("ready")
        kinds = [b64encode(kind).decode() for kind in bad_datagrams(bundle)]
        flooder.send(datagrams=kinds, rate=FLOOD_PER_S, seconds=0.5)  # tables fill, once
        await flooder.expect("flooded")
        gc.collect()
        resident = resident_kib()
        cpu, began = time.process_time(), time.monotonic()
        flooder.send(datagrams=kinds, rate=FLOOD_PER_S, seconds=seconds)
        sent = (await flooder.expect("flooded", timeout_s=seconds + 30))["sent"]
        passed = time.monotonic() - began
        cpu = time.process_time() - cpu
        dropped = {name: n for name, n in server.metrics()["dropped"].items() if n}
        gc.collect()
        return {
            "flood_per_s": round(sent / passed),
            "flood_cpu": round(cpu / passed, 3),
            "flood_us_each": round(cpu / max(sent, 1) * 1e6, 2),
            "flood_kib": max(0, resident_kib() - resident),
            "flood_sessions": len(server.sessions),
            "flood_dropped": sum(dropped.values()),
        }
    finally:
        await flooder.stop()
        await server.close()


def bad_datagrams(bundle: Bundle) -> list[bytes]:
    """Return one of each kind: nonsense, no ticket, a forged one, one without its password."""
    entropy = SeededEntropy(b"flood")
    (ufrag, ticket), (other, _), *_ = attempts(bundle, entropy)
    forged = other[:80] + ("A" if other[80] != "A" else "B") + other[81:]
    wrong = "p" * len(ticket.password)
    return [
        b"\x00\x01\x00\x00" + bytes(60),
        first_datagram("abcd", wrong, 1),
        first_datagram("A" * len(ufrag), wrong, 2),
        first_datagram(forged, wrong, 3),
        first_datagram(ufrag, wrong, 4, (int(Attribute.META_DTLS_IN_STUN), _HELLO)),
    ]
