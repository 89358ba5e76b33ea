"""One start of a call in the virtual network, and what it cost in round trips.

Everything is counted from the moment the client's first check leaves; each figure is when the
event happens at its own end.

    outcome = run(Start(rtt_s=0.1))         # offer, answer, first check, media, channel
    outcome.server_media                    # 0.5
    call = begin(Start(up_rules=(drop(0),)))
    assert call.until_up()                  # channel open and audio heard at both ends
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.network import Fate, LinkConfig, Network, Rule, Transit
from tests.sim.pair import CLIENT, SERVER, Node, Pair, Step
from warp.contract import Address
from warp.crypto import Certificate, NamedGroup
from warp.datachannel import Channel, ChannelConfig, ChannelMessage, ChannelOpened
from warp.dtls import DtlsVersion
from warp.entropy import SeededEntropy
from warp.ice import IceCredentials
from warp.peer import (
    AudioReceived,
    ConnectionState,
    PeerConfig,
    PeerConnection,
    SendPermission,
    Terminated,
)

CLASSICAL = (NamedGroup.X25519, NamedGroup.SECP256R1)
HYBRID = (NamedGroup.X25519MLKEM768, NamedGroup.X25519)
WALL_TIME = 1_790_000_000.0
CERTIFICATES = {
    name: Certificate.generate(SeededEntropy(name.encode()), WALL_TIME)
    for name in ("client", "server", "stranger")
}
OPUS = bytes.fromhex("78") + bytes(range(60))
FRAME = 960  # 20 ms at 48 kHz


@dataclass(frozen=True)
class Start:
    """Which parts take part in a start. A `server_` field of None is as on the client."""

    version: DtlsVersion = DtlsVersion.DTLS13
    sped: bool = True
    snap: bool = True
    passive: bool = True
    lite: bool = True
    hybrid: bool = False
    early_data: bool = True
    simultaneous_open: bool = True
    negotiated: bool = True
    server_sped: bool | None = None
    server_snap: bool | None = None
    rtt_s: float = 0.1
    loss: float = 0.0
    seed: int = 1
    connect_timeout_s: float = 30.0
    rtt_hint_s: float | None = None
    up_rules: tuple[Rule, ...] = ()
    down_rules: tuple[Rule, ...] = ()

    def config(self, *, server: bool) -> PeerConfig:
        """The configuration of one end."""
        sped, snap = self.sped, self.snap
        if server:
            sped = sped if self.server_sped is None else self.server_sped
            snap = snap if self.server_snap is None else self.server_snap
        return PeerConfig(
            lite=self.lite and server,
            sped=sped,
            snap=snap,
            versions=(self.version,)
            if self.version is DtlsVersion.DTLS12
            else (self.version, DtlsVersion.DTLS12),
            groups=HYBRID if self.hybrid else CLASSICAL,
            passive=self.passive,
            early_data=self.early_data and server,
            simultaneous_open=self.simultaneous_open,
            connect_timeout_s=self.connect_timeout_s,
            rtt_hint_s=None if server else self.rtt_hint_s,
        )


PLAIN = Start(
    version=DtlsVersion.DTLS12, sped=False, snap=False, early_data=False, simultaneous_open=False
)
"""What everybody pays today: DTLS 1.2 after the checks, INIT from the DTLS client only."""
WARP = Start()


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
    """One end of the call. Its password is the strangers' secret too, where a story needs it."""
    return PeerConnection(
        start.config(server=name == "server"),
        certificate=CERTIFICATES[name],
        entropy=SeededEntropy(f"{name}{start.seed}".encode()),
        credentials=IceCredentials(name[:4], f"password-of-the-{name}"),
    )


def signal(
    client: PeerConnection,
    server: PeerConnection,
    now: float,
    *,
    rewrite: Callable[[str], str] = str,
) -> None:
    """Exchange offer and answer, with no time passing; `rewrite` alters the answer under way."""
    offer = client.create_offer(now)
    client.set_local_description("offer", offer, now)
    server.set_remote_description("offer", offer, now)
    answer = server.create_answer(now)
    server.set_local_description("answer", answer, now)
    client.set_remote_description("answer", rewrite(answer), now)


def connect(
    start: Start, *, channel: ChannelConfig | None = None, answer: Callable[[str], str] = str
) -> Pair:
    """Two ends that have exchanged descriptions, at the moment before the first check."""
    pair = meet(start)
    signal(pair.client.endpoint, pair.server.endpoint, pair.now, rewrite=answer)
    open_channel(start, pair, channel)
    return pair


def meet(start: Start) -> Pair:
    """Two ends that know nothing of each other yet."""
    client, server = peer(start, "client"), peer(start, "server")
    pair = Pair(
        client,
        server,
        config=LinkConfig(delay_s=start.rtt_s / 2, loss=start.loss),
        seed=start.seed,
    )
    client.add_local_address(CLIENT, pair.now)
    server.add_local_address(SERVER, pair.now)
    pair.up.rules.extend(start.up_rules)
    pair.down.rules.extend(start.down_rules)
    return pair


def open_channel(
    start: Start, pair: Pair, channel: ChannelConfig | None = None
) -> tuple[Channel, Channel | None]:
    """Create the channel of the call, at both ends when it is negotiated."""
    config = channel or (
        ChannelConfig(label="events", negotiated=True, stream_id=0)
        if start.negotiated
        else ChannelConfig(label="events")
    )
    ours = pair.client.endpoint.create_channel(config, pair.now)
    if not config.negotiated:
        return ours, None
    return ours, pair.server.endpoint.create_channel(config, pair.now)


def opened(node: Node) -> bool:
    """Whether the channel is open at this end."""
    return bool(node.named(ChannelOpened))


def heard(node: Node) -> bool:
    """Whether audio arrived at this end."""
    return bool(node.named(AudioReceived))


def ended(node: Node) -> list[Any]:
    """Why this end is over; empty while it lives."""
    return [event.error for _, event in node.named(Terminated)]


class Call:
    """A start that goes on into a call: both ends talk as soon, and as long, as they may."""

    def __init__(self, start: Start, pair: Pair, *, frame_s: float = 0.06) -> None:
        self.start = start
        self.pair = pair
        self.frame_s = frame_s
        self.talking = {"client", "server"}
        self._next = dict.fromkeys(pair.nodes, pair.now)
        self._timestamps = dict.fromkeys(pair.nodes, 0)
        pair.after_step.append(self._talk)
        self.began = pair.now
        self._tick(pair.now)

    @property
    def client(self) -> PeerConnection:
        """The offering end."""
        end: PeerConnection = self.pair.client.endpoint
        return end

    @property
    def server(self) -> PeerConnection:
        """The answering end."""
        end: PeerConnection = self.pair.server.endpoint
        return end

    def _tick(self, now: float) -> None:
        for node in self.pair.nodes.values():
            if node.name in self.talking:
                self._talk(node, now)
        self.pair.at(now + self.frame_s, self._tick)

    def _talk(self, node: Node, now: float) -> None:
        end = node.endpoint
        if node.name not in self.talking or now < self._next[node.name]:
            return
        if end.media_permission is SendPermission.NONE:
            return
        stamp = self._timestamps[node.name]
        if end.send_audio(OPUS, stamp, now, marker=not stamp, non_personal=True):
            self._timestamps[node.name] = stamp + FRAME
            self._next[node.name] = now + self.frame_s - 1e-9

    def up(self) -> bool:
        """Whether the channel is open and audio was heard at both ends."""
        return all(
            opened(node) and heard(node) and node.endpoint.state is ConnectionState.CONNECTED
            for node in (self.pair.client, self.pair.server)
        )

    def until_up(self, timeout_s: float = 20.0) -> bool:
        """Run until everything works."""
        return self.pair.run(until=self.up, timeout_s=timeout_s)

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.pair.now - self.began

    def open_at(self) -> float | None:
        """Seconds until the channel was open at both ends."""
        moments = [n.named(ChannelOpened) for n in (self.pair.client, self.pair.server)]
        return max(at[0][0] for at in moments) - self.began if all(moments) else None

    def frames(self, node: Node, since: float = 0.0) -> int:
        """How many frames of audio arrived at one end."""
        return sum(
            sum(1 for frame in event.frames if not frame.gap)
            for at, event in node.named(AudioReceived)
            if at >= since
        )

    def messages(self, node: Node) -> list[str | bytes]:
        """What the channel brought to one end."""
        return [event.data for _, event in node.named(ChannelMessage)]

    def works(self, seconds: float = 2.0) -> bool:
        """Whether audio and messages get through in both directions within `seconds`."""
        pair, since = self.pair, self.pair.now
        ends = (pair.client, pair.server)
        text = f"still there at {since}?"
        for node in ends:
            node.named(ChannelOpened)[-1][1].channel.send(text, since)
        # what was under way before may still arrive, and proves nothing
        audible = since + self.start.rtt_s

        def arrived() -> bool:
            return all(text in self.messages(node) and self.frames(node, audible) for node in ends)

        return pair.run(until=arrived, timeout_s=seconds)


def begin(
    start: Start, *, frame_s: float = 0.06, prepare: Callable[[Pair], None] | None = None
) -> Call:
    """Signal and start talking; nothing has been sent yet."""
    pair = connect(start)
    if prepare is not None:
        prepare(pair)
    return Call(start, pair, frame_s=frame_s)


def established(start: Start = WARP, *, settle_s: float = 2.0) -> Call:
    """A call that has been up for a while."""
    call = begin(start)
    assert call.until_up()
    call.pair.run_for(settle_s)
    return call


def run(start: Start, *, timeout_s: float = 30.0, answer: Callable[[str], str] = str) -> Outcome:
    """Run a start until both ends have sent media and the channel is open on both."""
    pair = connect(start, answer=answer)
    sent: dict[str, float] = {}

    def talk(node: Node, now: float) -> None:
        end = node.endpoint
        if node.name in sent or end.media_permission is SendPermission.NONE:
            return
        if end.send_audio(OPUS, 0, now, marker=True, non_personal=True):
            sent[node.name] = now

    pair.after_step.append(talk)
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


Meddling = Callable[[str, bytes, list[Transit]], list[Transit]]
"""Sender, datagram and its copies under way: what arrives instead."""


class Meddler:
    """A network with somebody in the middle; everything else is as before."""

    def __init__(self, network: Network, meddle: Meddling) -> None:
        self._network = network
        self._meddle = meddle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def transmit(
        self, data: bytes, source: Address, destination: Address, now: float
    ) -> tuple[list[Transit], Fate, str]:
        """Send one datagram past whoever is in the middle."""
        copies, fate, receiver = self._network.transmit(data, source, destination, now)
        sender = self._network.owner(source) or "stranger"
        if copies:
            copies = self._meddle(sender, data, copies)
            fate = fate if copies else Fate.LOST
        return copies, fate, receiver


def meddle(pair: Pair, meddling: Meddling) -> None:
    """Let `meddling` have its way with every datagram from now on."""
    pair.network = Meddler(pair.network, meddling)


def sieve(pair: Pair, loses: Callable[[str, bytes], bool]) -> None:
    """Lose chosen datagrams from now on."""
    meddle(pair, lambda sender, data, copies: [] if loses(sender, data) else copies)


def show(pair: Pair) -> str:
    """The ladder as text, for the message of a failed assertion."""
    first = pair.ladder[0].time if pair.ladder else 0.0

    def line(step: Step) -> str:
        at = f"{(step.time - first) * 1000:8.1f} ms"
        return f"{at} {step.sender:8} {step.kind:5} {step.size:5} {step.fate.value}"

    return "\n".join(line(step) for step in pair.ladder)
