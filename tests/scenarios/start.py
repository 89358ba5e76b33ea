"""One start of a call in the virtual network, and what it cost in round trips.

Everything is counted from the moment the client's first check leaves; each figure is when the
event happens at its own end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.sim.network import LinkConfig, Rule
from tests.sim.pair import CLIENT, SERVER, Node, Pair
from warp.crypto import Certificate, NamedGroup
from warp.datachannel import ChannelConfig, ChannelOpened
from warp.dtls import DtlsVersion
from warp.entropy import SeededEntropy
from warp.peer import PeerConfig, PeerConnection, SendPermission

CLASSICAL = (NamedGroup.X25519, NamedGroup.SECP256R1)
HYBRID = (NamedGroup.X25519MLKEM768, NamedGroup.X25519)
WALL_TIME = 1_790_000_000.0
CERTIFICATES = {
    name: Certificate.generate(SeededEntropy(name.encode()), WALL_TIME)
    for name in ("client", "server")
}
OPUS = bytes.fromhex("78") + bytes(range(60))


@dataclass(frozen=True)
class Start:
    """Which parts take part in a start."""

    version: DtlsVersion = DtlsVersion.DTLS13
    sped: bool = True
    snap: bool = True
    passive: bool = True
    lite: bool = True
    hybrid: bool = False
    early_data: bool = True
    simultaneous_open: bool = True
    negotiated: bool = True
    rtt_s: float = 0.1
    loss: float = 0.0
    seed: int = 1
    up_rules: tuple[Rule, ...] = ()
    down_rules: tuple[Rule, ...] = ()

    def config(self, *, server: bool) -> PeerConfig:
        """The configuration of one end."""
        return PeerConfig(
            lite=self.lite and server,
            sped=self.sped,
            snap=self.snap,
            versions=(self.version,)
            if self.version is DtlsVersion.DTLS12
            else (self.version, DtlsVersion.DTLS12),
            groups=HYBRID if self.hybrid else CLASSICAL,
            passive=self.passive,
            early_data=self.early_data and server,
            simultaneous_open=self.simultaneous_open,
        )


@dataclass
class Outcome:
    """When things happened, in round trips; None when they did not."""

    pair: Pair
    first_check: float
    figures: dict[str, float | None] = field(default_factory=dict)

    def __getattr__(self, name: str) -> float:
        value = self.figures[name]
        if value is None:
            raise AssertionError(f"{name} never happened; figures {self.figures}")
        return value


def peer(start: Start, name: str) -> PeerConnection:
    """One end of the call."""
    return PeerConnection(
        start.config(server=name == "server"),
        certificate=CERTIFICATES[name],
        entropy=SeededEntropy(f"{name}{start.seed}".encode()),
    )


def signal(client: PeerConnection, server: PeerConnection, now: float) -> None:
    """Exchange offer and answer, with no time passing."""
    offer = client.create_offer(now)
    client.set_local_description("offer", offer, now)
    server.set_remote_description("offer", offer, now)
    answer = server.create_answer(now)
    server.set_local_description("answer", answer, now)
    client.set_remote_description("answer", answer, now)


def connect(start: Start, *, channel: ChannelConfig | None = None) -> Pair:
    """Two ends that have exchanged descriptions, at the moment before the first check."""
    client, server = peer(start, "client"), peer(start, "server")
    pair = Pair(
        client,
        server,
        config=LinkConfig(delay_s=start.rtt_s / 2, loss=start.loss),
        seed=start.seed,
    )
    now = pair.now
    client.add_local_address(CLIENT, now)
    server.add_local_address(SERVER, now)
    pair.up.rules.extend(start.up_rules)
    pair.down.rules.extend(start.down_rules)
    signal(client, server, now)
    config = channel or (
        ChannelConfig(label="events", negotiated=True, stream_id=0)
        if start.negotiated
        else ChannelConfig(label="events")
    )
    client.create_channel(config, now)
    if config.negotiated:
        server.create_channel(config, now)
    return pair


def run(start: Start, *, timeout_s: float = 30.0) -> Outcome:
    """Run a start until both ends have sent media and the channel is open on both."""
    pair = connect(start)
    sent: dict[str, float] = {}

    def talk(node: Node, now: float) -> None:
        end = node.endpoint
        if node.name in sent or end.media_permission is SendPermission.NONE:
            return
        if end.send_audio(OPUS, 0, now, marker=True, non_personal=True):
            sent[node.name] = now

    pair.after_step.append(talk)

    def opened(node: Node) -> bool:
        return bool(node.named(ChannelOpened))

    pair.run(
        until=lambda: len(sent) == 2 and opened(pair.client) and opened(pair.server),
        timeout_s=timeout_s,
    )
    first = pair.sent("client")[0].time

    def at(moments: list[tuple[float, Any]]) -> float | None:
        return (moments[0][0] - first) / start.rtt_s if moments else None

    def media(name: str) -> float | None:
        steps = pair.sent(name, "rtp")
        return (steps[0].time - first) / start.rtt_s if steps else None

    return Outcome(
        pair,
        first,
        {
            "server_media": media("server"),
            "client_media": media("client"),
            "channel_client": at(pair.client.named(ChannelOpened)),
            "channel_server": at(pair.server.named(ChannelOpened)),
        },
    )
