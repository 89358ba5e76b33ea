"""Instant Connect in the virtual network: a server that holds nothing, and clients with bundles.

    stage = Stage()                              # a server at SERVER, 100 ms away
    caller = stage.call()                        # intent: first datagram and POST leave now
    stage.run(lambda: caller.up)
    caller.after("server_media")                 # in round trips

`HostEndpoint` does what the port and the pump of `warp.io` do, by the five verbs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from instant_connect.admission import AdmissionConfig, Admit
from instant_connect.answers import Answer, Status
from instant_connect.bundle import Bundle, parse_bundle
from instant_connect.client import InstantCall, Race, RaceInput, RaceState, Wallet, compose_call
from instant_connect.decisions import Answered, Arrived, Decision, Forwarded, Sought
from instant_connect.host import Host, HostConfig, lodging_of
from instant_connect.keyring import Epoch, Keyring
from instant_connect.profile import make_terms
from instant_connect.replay import attempt_key
from instant_connect.router import DIRECT, Journey, Roster
from instant_connect.sessions import InstantSession
from instant_connect.tiers import Tier
from tests.scenarios.start import CERTIFICATES, FRAME, OPUS, WALL_TIME, WARP, Start
from tests.sim.network import LinkConfig, Network
from tests.sim.pair import Node, Simulation
from warp.contract import Address, Datagram, Flow
from warp.crypto import Certificate
from warp.datachannel import Channel, ChannelConfig, ChannelOpened
from warp.entropy import SeededEntropy
from warp.errors import WarpError
from warp.peer import (
    AudioReceived,
    ConnectionState,
    FlowAuthenticated,
    PeerConfig,
    PeerConnection,
    SendPermission,
    StateChanged,
    Terminated,
)
from warp.sdp import parse_description
from warp.stun import peek_username

SERVER: Address = ("203.0.113.1", 443)
CELL = 12
CHANNEL = ChannelConfig(label="oai-events", negotiated=True, stream_id=4)
CELL_CERTIFICATE = CERTIFICATES["server"]


def keyring(seed: int = 0, key_id: int = 0) -> Keyring:
    """The keys of the cell; equal seeds give equal keys."""
    master = SeededEntropy(f"master {seed}".encode()).random_bytes(32)
    return Keyring(CELL, Epoch(key_id, master, CELL_CERTIFICATE))


def epoch(number: int) -> Epoch:
    """Another epoch of the cell, with a certificate of its own."""
    entropy = SeededEntropy(f"epoch {number}".encode())
    return Epoch(number, entropy.random_bytes(32), Certificate.generate(entropy, WALL_TIME))


class HostEndpoint:
    """A server of Instant Connect by the five verbs; `others` are those that share its port."""

    def __init__(
        self,
        ring: Keyring,
        *,
        now: float,
        start: Start = WARP,
        config: HostConfig | None = None,
        limits: AdmissionConfig | None = None,
        admit: Admit | None = None,
        seed: int = 1,
        address: Address = SERVER,
    ) -> None:
        peer = start.config(server=True)
        self.host = Host(
            ring,
            config or HostConfig(),
            peer=peer,
            terms=make_terms((address,), peer.sctp(), snap=start.snap, sped=start.sped),
            entropy=SeededEntropy(f"host {seed}".encode()),
            limits=limits,
            admit=admit,
            wall_offset_s=WALL_TIME - now,
        )
        self.address = address
        self.others: dict[int, HostEndpoint] = {}
        self.decisions: list[Decision] = []
        self.sessions: list[InstantSession] = []
        """Every session that ever began here."""
        self.tiers: list[tuple[float, InstantSession, Tier]] = []
        self.channels: dict[str, Channel] = {}
        self._routes: dict[Flow, InstantSession] = {}
        self._out: list[Datagram] = []
        self._events: list[Any] = []
        self._talked: dict[str, float] = {}
        self.talks = True
        self.heard = 0
        self.billed: list[tuple[float, str]] = []

    # -- the five verbs

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        self.take_over(data, flow, now, DIRECT)

    def take_over(self, data: bytes, flow: Flow, now: float, journey: Journey) -> None:
        """Take in a datagram, which other servers may have handed on."""
        session = self._routes.get(flow)
        if data[:1] < b"\x04":
            names = peek_username(data)
            if names is not None:
                session = self.host.sessions.find(names[0])
        if session is not None:
            self._feed(session, data, flow, now)
            return
        decision = self.host.receive_unknown(data, flow, now, journey=journey)
        self.decisions.append(decision)
        if isinstance(decision, Answered):
            self._out.append((decision.datagram, flow))
        elif isinstance(decision, Forwarded):
            onward = journey.onward(self.host.answers.own, granted=decision.granted)
            self.others[decision.server].take_over(data, flow, now, onward)
        elif isinstance(decision, Sought):
            for other in self.others.values():
                if (known := other._routes.get(flow)) is not None:
                    other._feed(known, data, flow, now)
        elif isinstance(decision, Arrived):
            if decision.is_new:
                self._welcome(decision.session, now)
            for datagram in decision.datagrams:
                self._feed(decision.session, datagram, flow, now)

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        out, self._out = self._out, []
        for session in self.live():
            self._talk(session, now)
            out += session.peer.datagrams_to_send(now)
            self._settle(session, now)
        return out

    def get_timer(self) -> float | None:
        dues = [self.host.get_timer(), *(s.peer.get_timer() for s in self.live())]
        return min((due for due in dues if due is not None), default=None)

    def handle_timer(self, now: float) -> None:
        for session in self.live():
            session.peer.handle_timer(now)
            self._settle(session, now)
        for session in self.host.overdue(now):
            session.peer.close(now)
            self._out += session.peer.datagrams_to_send(now)
            self._settle(session, now)

    def events(self) -> list[Any]:
        events, self._events = self._events, []
        return events

    # -- what a pump does besides

    def live(self) -> list[InstantSession]:
        return self.host.sessions.all()

    def _welcome(self, session: InstantSession, now: float) -> None:
        self._tell(session, now)
        self.sessions.append(session)
        self.tiers.append((now, session, session.tier))
        self.channels[session.ufrag] = session.peer.create_channel(CHANNEL, now)
        self._settle(session, now)

    def _owner(self, session: InstantSession) -> HostEndpoint | None:
        """Who is asked about a session's ticket, if not we."""
        return self.others.get(self.host.entrance.owner_of(session.ticket))

    def _tell(self, session: InstantSession, now: float) -> None:
        if (owner := self._owner(session)) is not None:
            owner.host.entrance.learn(self.host.answers.own, [lodging_of(session)], now)

    def set_roster(self, roster: Roster, now: float) -> None:
        """Hear which servers are alive, and tell those that are asked about our sessions."""
        self.host.entrance.set_roster(roster)
        for number, lodgings in self.host.lodgings().items():
            self.others[number].host.entrance.learn(self.host.answers.own, lodgings, now)

    def _feed(self, session: InstantSession, data: bytes, flow: Flow, now: float) -> None:
        session.peer.receive_datagram(data, flow, now)
        self._settle(session, now)

    def _settle(self, session: InstantSession, now: float) -> None:
        before = session.tier
        for event in session.peer.events():
            if isinstance(event, FlowAuthenticated):
                self._routes[event.flow] = session
                for record in self.host.entrance.take_early(event.flow, now):
                    session.peer.receive_datagram(record, event.flow, now)
            elif isinstance(event, StateChanged) and event.state is ConnectionState.CONNECTED:
                self.host.sessions.authenticated(session, now)
                self.billed.append((now, session.ufrag))
            elif isinstance(event, Terminated):
                self.host.sessions.end(session)
                if (owner := self._owner(session)) is not None:
                    key = attempt_key(session.ufrag)
                    owner.host.entrance.guests.forget([key], self.host.answers.own)
                self._routes = {f: s for f, s in self._routes.items() if s is not session}
            self.heard += isinstance(event, AudioReceived)
            self._events.append(event)
        if session.tier is not before:
            self.tiers.append((now, session, session.tier))

    def _talk(self, session: InstantSession, now: float) -> None:
        """Greet as soon as anything may be said, and go on."""
        peer = session.peer
        if not self.talks or peer.media_permission is SendPermission.NONE:
            return
        if now < self._talked.get(session.ufrag, 0.0):
            return
        stamp = int((now - session.begun_at) * 48_000) // FRAME * FRAME
        if peer.send_audio(OPUS, stamp, now, marker=True, non_personal=True):
            self._talked[session.ufrag] = now + 0.06 - 1e-9


@dataclass(kw_only=True)
class Caller:
    """One call: the attempt by a ticket at one address, signalling's way at another."""

    stage: Stage
    first: Node | None
    second: Node
    call: InstantCall | None
    offer: str
    race: Race = field(default_factory=Race)
    began: float = 0.0
    answers: list[Answer] = field(default_factory=list)
    failures: list[WarpError] = field(default_factory=list)

    @property
    def node(self) -> Node:
        """Whichever way the call takes, as far as that is decided."""
        signalled = self.first is None or self.race.state is RaceState.SIGNALLED
        return self.second if signalled or self.first is None else self.first

    @property
    def peer(self) -> PeerConnection:
        peer: PeerConnection = self.node.endpoint
        return peer

    @property
    def up(self) -> bool:
        """Whether channel and audio work at this end."""
        return bool(self.node.named(ChannelOpened)) and bool(self.node.named(AudioReceived))

    def at(self, kind: type) -> float | None:
        """When an event first came, in round trips since the intent."""
        moments = self.node.named(kind)
        return None if not moments else self.stage.trips(moments[0][0] - self.began)

    def media_at(self) -> float:
        """When the first audio left, in round trips since the intent."""
        steps = self.stage.sim.sent(self.node.name, "rtp")
        return self.stage.trips(steps[0].time - self.began)

    @property
    def session(self) -> InstantSession:
        """The server's side of it."""
        ufrag = self.answers[-1].ufrag if self.call is None else self.call.ufrag
        if self.race.state is RaceState.SIGNALLED and self.answers:
            ufrag = self.answers[-1].ufrag
        [found] = [s for h in self.stage.hosts for s in h.sessions if s.ufrag == ufrag]
        return found


class Stage:
    """A server (or several of a cell), a network, and callers."""

    def __init__(
        self,
        *,
        start: Start = WARP,
        limits: AdmissionConfig | None = None,
        admit: Admit | None = None,
        servers: int = 1,
        config: HostConfig | None = None,
        seed: int = 0,
        address: Address = SERVER,
    ) -> None:
        self.start = start
        self.address = address
        self.sim = Simulation(Network(LinkConfig(delay_s=start.rtt_s / 2), seed=seed))
        self.ring = keyring(seed)
        self._base = config or HostConfig()
        self._limits, self._admit = limits, admit
        self.hosts = [self.host(number) for number in range(servers)]
        self.server = self.hosts[0]
        self.node = self.sim.add("server", self.server, address)
        self.sim.after_step.append(self._talk)
        self._callers: list[Caller] = []
        self._spoken: dict[str, float] = {}

    @property
    def now(self) -> float:
        return self.sim.now

    def host(self, number: int) -> HostEndpoint:
        """A server that knows nothing yet but its keys."""
        return HostEndpoint(
            self.ring,
            now=self.now,
            start=self.start,
            config=replace(self._base, server=number),
            limits=self._limits,
            admit=self._admit,
            seed=number,
            address=self.address,
        )

    def trips(self, seconds: float) -> float:
        """Seconds as round trips."""
        return seconds / self.start.rtt_s

    def bundle(self, *, policy: int = 0, host: HostEndpoint | None = None) -> Bundle:
        """A bundle as it came over HTTP some time ago."""
        source = (host or self.server).host
        return parse_bundle(source.bundle(self.now, policy=policy).to_json())

    def peer(self, name: str, certificate: Certificate | None = None) -> PeerConnection:
        return PeerConnection(
            self.start.config(server=False),
            certificate=certificate or CERTIFICATES["client"],
            entropy=SeededEntropy(f"{name} {self.start.seed}".encode()),
        )

    def call(
        self,
        bundle: Bundle | None = None,
        *,
        name: str = "client",
        host: str = "192.0.2.1",
        post: bool = True,
        post_delay_s: float | None = None,
        proof: str | None = None,
        certificate: Certificate | None = None,
        context: object = "session config",
        use_bundle: bool = True,
    ) -> Caller:
        """Begin a call now. `post_delay_s` is how long the offer is under way, there only."""
        now = self.now
        first = call = None
        wallet = Wallet()
        if use_bundle:
            wallet.put(bundle or self.bundle(), now)
        kept = wallet.take(now)
        identity = certificate or CERTIFICATES["client"]
        second_peer = self.peer(f"{name}'", identity)
        second_address = (host, 50_001)
        second_peer.add_local_address(second_address, now)
        offer = second_peer.create_offer(now)
        second_peer.set_local_description("offer", offer, now)
        if kept is not None:
            peer = self.peer(name, identity)
            peer.add_local_address((host, 50_000), now)
            own = peer.create_offer(now)
            peer.set_local_description("offer", own, now)
            entropy = SeededEntropy(f"attempt {name}".encode())
            call = compose_call(*kept, own, identity, entropy)
            peer.set_remote_description("answer", call.answer, now)
            peer.create_channel(CHANNEL, now)
            first = self.sim.add(name, peer, (host, 50_000))
        second_peer.create_channel(CHANNEL, now)
        second = self.sim.add(f"{name}'", second_peer, second_address)
        caller = Caller(stage=self, first=first, second=second, call=call, offer=offer, began=now)
        self._callers.append(caller)
        if post:
            way = self.start.rtt_s / 2 if post_delay_s is None else post_delay_s
            self.sim.at(now + way, lambda at: self._post(caller, at, proof, context))
        return caller

    def _post(self, caller: Caller, now: float, proof: str | None, context: object) -> None:
        """The offer has reached signalling, which answers at once."""
        answers, offer = self.server.host.answers, parse_description(caller.offer)
        answer: Answer | None = None
        try:
            if caller.call is None:
                answer = answers.answer(offer, now, context=context)
            else:
                given = caller.call.proof if proof is None else proof
                ufrag, settled = caller.call.ufrag, False
                for hops in range(4):
                    answer = answers.attach(
                        offer, ufrag, given, now, context=context, hops=hops, settled=settled
                    )
                    settled = answer.settled
                    if answer.status is not Status.ELSEWHERE or answer.server is None:
                        break
                    answers = self.hosts[answer.server].host.answers
        except WarpError as error:
            caller.failures.append(error)
        back = now + self.start.rtt_s / 2
        self.sim.at(back, lambda at: self._answered(caller, answer, at))

    def _answered(self, caller: Caller, answer: Answer | None, now: float) -> None:
        """The answer of signalling has come back to the client."""
        if answer is None:
            caller.race.receive(RaceInput.NO_ANSWER)
            return
        caller.answers.append(answer)
        if caller.first is not None:
            if caller.first.endpoint.state is ConnectionState.CONNECTED:
                caller.race.receive(RaceInput.CONNECTED)
            attached = answer.status is Status.ATTACHED
            changed = caller.race.receive(RaceInput.ATTACHED if attached else RaceInput.NEW)
            if not changed or attached:
                return
            caller.first.endpoint.close(now)
        caller.second.endpoint.set_remote_description("answer", answer.sdp, now)

    def _talk(self, node: Node, now: float) -> None:
        """Clients speak as soon as, and as long as, they may."""
        end = node.endpoint
        if not isinstance(end, PeerConnection) or now < self._spoken.get(node.name, 0.0):
            return
        if end.media_permission is SendPermission.NONE:
            return
        stamp = int((now - 1000.0) * 48_000) // FRAME * FRAME
        if end.send_audio(OPUS, stamp, now, marker=True, non_personal=True):
            self._spoken[node.name] = now + 0.06 - 1e-9
            self.sim.at(now + 0.06, lambda _: None)

    def run(self, until: Callable[[], bool], timeout_s: float = 10.0) -> bool:
        """Run until something is true."""
        return self.sim.run(until=until, timeout_s=timeout_s)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self.sim.run_for(seconds)

    def begun(self) -> list[InstantSession]:
        """Every session that ever began, on any server."""
        return [session for host in self.hosts for session in host.sessions]

    def server_media_at(self, caller: Caller) -> float:
        """When the server's first audio left, in round trips since the intent."""
        steps = [s for s in self.sim.sent("server", "rtp") if s.time >= caller.began]
        return self.trips(steps[0].time - caller.began)

    def server_config(self) -> PeerConfig:
        return self.start.config(server=True)
