"""Two SCTP associations in the virtual network: the traffic that the SCTP scenarios share."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.sim.network import LinkConfig
from tests.sim.pair import Node, Pair
from warp.entropy import SeededEntropy
from warp.sctp import Association, SctpConfig, local_init
from warp.sctp.outbound import IN_FLIGHT


def snap_pair(
    link: LinkConfig,
    *,
    seed: int = 0,
    config: SctpConfig | None = None,
    server_config: SctpConfig | None = None,
) -> Pair:
    """A pair that is established by SNAP at the simulation's first moment."""
    ours = config or SctpConfig()
    theirs = server_config or ours
    inits = local_init(ours, SeededEntropy(seed)), local_init(theirs, SeededEntropy(-seed - 1))
    client = Association(ours, local_init=inits[0], entropy=SeededEntropy(3))
    server = Association(theirs, local_init=inits[1], entropy=SeededEntropy(4))
    pair = Pair(client, server, config=link, seed=seed)
    client.start_snap(inits[1], pair.now)
    server.start_snap(inits[0], pair.now)
    return pair


def check_flight(association: Association) -> None:
    """flight_size is what it says; nothing leaks out of it or into it."""
    sending = association._transmission
    if sending is None:
        return
    flying = [f for f in sending.fragments.values() if f.state == IN_FLIGHT]
    assert sending.flight_size == sum(len(f.chunk) for f in flying)
    assert sending._in_flight == len(flying)


@dataclass(slots=True)
class Traffic:
    """One side's application: sends numbered messages of random size, collects what arrives.

    A message begins with its number on its stream (8 bytes); the rest is its size over and over.
    """

    association: Association
    luck: random.Random
    total: int
    largest: int
    streams: int = 3
    options: dict[str, object] = field(default_factory=dict)
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    received: dict[int, list[bytes]] = field(default_factory=dict)
    left: int = 0
    steps: int = 0

    def act(self, node: Node, now: float) -> None:
        """Move along after every step of the simulation."""
        association = self.association
        if node.endpoint is not association:
            return
        self.steps += 1
        if self.steps % 200 == 0:
            check_flight(association)
        for stream, _, payload in association.messages():
            self.received.setdefault(stream, []).append(payload)
        while self.left < self.total and self._backlog() < 300_000:
            stream = self.luck.randrange(self.streams)
            history = self.sent.setdefault(stream, [])
            size = self.luck.randrange(9, self.largest)
            payload = len(history).to_bytes(8, "big") + size.to_bytes(4, "big") * (size // 4)
            history.append(payload)
            self.left += len(payload)
            association.send_message(stream, 53, payload, now, **self.options)  # type: ignore[arg-type]

    def _backlog(self) -> int:
        return sum(self.association.buffered_amount(n) for n in range(self.streams))

    @property
    def done(self) -> bool:
        """Everything has been sent and acknowledged, or given up."""
        sending = self.association._transmission
        return self.left >= self.total and sending is not None and sending.is_idle


def run_traffic(pair: Pair, *traffics: Traffic, timeout_s: float = 3000.0) -> None:
    """Run until every side is done; afterwards nothing may be left over."""
    for traffic in traffics:
        pair.after_step.append(traffic.act)
    assert pair.run(until=lambda: all(t.done for t in traffics), timeout_s=timeout_s)
    pair.run_for(1.0)
    largest = max(step.size for step in pair.ladder)
    for traffic in traffics:
        association = traffic.association
        check_flight(association)
        sending, receiving = association._transmission, association._inbound
        assert sending is not None
        assert receiving is not None
        assert sending.flight_size == 0
        assert receiving.charge == 0
        assert receiving.window == association.config.a_rwnd
        assert largest <= association.config.mtu


def traffics(
    pair: Pair, total: int, largest: int, *, seed: int = 0, **options: object
) -> tuple[Traffic, Traffic]:
    """The same kind of traffic for both sides."""
    made = [
        Traffic(
            node.endpoint, random.Random(f"{seed}:{node.name}"), total, largest, options=options
        )
        for node in (pair.client, pair.server)
    ]
    return made[0], made[1]
