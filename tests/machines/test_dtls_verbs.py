"""Every verb of two DTLS ends, in any order, over a network that loses and keeps what it likes.

Invariants: nothing raises but UsageError; timers are pure and move on; data arrives at most once
and only from a verified peer; whatever happened, once the network is kind both ends agree.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.dtls.ends import CLIENT_CERTIFICATE, SERVER_CERTIFICATE, client, server
from warp.dtls import DtlsConnection, DtlsState, DtlsVersion
from warp.errors import UsageError

SIDES = st.sampled_from(["client", "server"])
LIVE = (DtlsState.HANDSHAKING, DtlsState.UNVERIFIED, DtlsState.CONNECTED)


class DtlsVerbs(RuleBasedStateMachine):
    versions: tuple[DtlsVersion, ...] = (DtlsVersion.DTLS13,)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        config = {"versions": self.versions, "deadline_s": None, "early_data": False}
        self.ends: dict[str, DtlsConnection] = {
            "client": client(known=False, **config),
            "server": server(known=False, **config),
        }
        self.wire: dict[str, list[bytes]] = {"client": [], "server": []}
        self.sent: dict[str, list[bytes]] = {"client": [], "server": []}
        self.got: dict[str, list[bytes]] = {"client": [], "server": []}
        self.known = {"client": False, "server": False}
        self.closed = False
        self.count = 0

    def usage(self, call) -> None:
        try:
            call()
        except UsageError:
            return

    def other(self, side: str) -> str:
        return "server" if side == "client" else "client"

    @rule()
    def start(self) -> None:
        self.usage(lambda: self.ends["client"].start(self.now))

    @rule(side=SIDES)
    def drain(self, side: str) -> None:
        self.wire[side] += self.ends[side].datagrams_to_send(self.now)

    @rule(side=SIDES)
    def take_flight(self, side: str) -> None:
        self.wire[side] += self.ends[side].take_handshake_datagrams(self.now)[0]

    @precondition(lambda self: self.wire["client"] or self.wire["server"])
    @rule(side=SIDES, index=st.integers(0, 30), keep=st.booleans())
    def deliver(self, side: str, index: int, keep: bool) -> None:
        wire = self.wire[side]
        if wire:
            position = index % len(wire)
            datagram = wire[position] if keep else wire.pop(position)
            self.ends[self.other(side)].receive_datagram(datagram, self.now)

    @precondition(lambda self: self.wire["client"] or self.wire["server"])
    @rule(side=SIDES, index=st.integers(0, 30), position=st.integers(0, 1500))
    def deliver_damaged(self, side: str, index: int, position: int) -> None:
        wire = self.wire[side]
        datagram = wire[index % len(wire)] if wire else b""
        # plaintext that is damaged may end a handshake; that is another test's story
        if datagram and datagram[0] >> 5 == 1:
            spoilt = bytearray(datagram)
            spoilt[position % len(spoilt)] ^= 0x40
            self.ends[self.other(side)].receive_datagram(bytes(spoilt), self.now)

    @rule(side=SIDES)
    def lose_everything(self, side: str) -> None:
        self.wire[side].clear()

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(side=SIDES)
    def fire(self, side: str) -> None:
        end = self.ends[side]
        end.handle_timer(self.now)
        assert end.get_timer() is None or end.get_timer() > self.now

    @rule(side=SIDES)
    def send(self, side: str) -> None:
        self.count += 1
        data = b"%s %d" % (side.encode(), self.count)
        try:
            self.ends[side].send_data(data, self.now)
        except UsageError:
            assert not self.ends[side].can_send
            return
        self.sent[side].append(data)

    @rule(side=SIDES)
    def receive(self, side: str) -> None:
        data = self.ends[side].received_data()
        assert not data or self.known[side]
        self.got[side] += data

    @rule(side=SIDES)
    def learn_fingerprint(self, side: str) -> None:
        expected = SERVER_CERTIFICATE if side == "client" else CLIENT_CERTIFICATE
        self.known[side] = True
        self.ends[side].set_peer_fingerprints([("sha-256", expected.fingerprint())], self.now)

    @rule(side=SIDES, request=st.booleans())
    def update_keys(self, side: str, request: bool) -> None:
        self.usage(lambda: self.ends[side].update_keys(self.now, request=request))

    @rule(side=SIDES, rtt=st.floats(0, 5), mtu=st.integers(0, 2000), off=st.booleans())
    def adjust(self, side: str, rtt: float, mtu: int, off: bool) -> None:
        end = self.ends[side]
        end.set_rtt(rtt, self.now)
        end.set_mtu(mtu)
        end.suspend_timers(off, self.now)

    @rule(side=SIDES)
    def export(self, side: str) -> None:
        self.usage(lambda: self.ends[side].export_keying_material(b"label", 16))

    @rule(side=SIDES)
    def look(self, side: str) -> None:
        self.ends[side].events()

    @rule(side=SIDES)
    def close(self, side: str) -> None:
        if self.count > 6:
            self.closed = True
            self.ends[side].close(self.now)

    @invariant()
    def timers_are_pure(self) -> None:
        for end in self.ends.values():
            assert end.get_timer() == end.get_timer()

    @invariant()
    def data_arrives_at_most_once(self) -> None:
        for side, got in self.got.items():
            assert len(set(got)) == len(got)
            assert set(got) <= set(self.sent[self.other(side)])

    @invariant()
    def nobody_fails(self) -> None:
        for end in self.ends.values():
            assert end.state is not DtlsState.FAILED

    def teardown(self) -> None:
        if self.closed:
            return
        for side, end in self.ends.items():
            self.learn_fingerprint(side)
            end.suspend_timers(False, self.now)
        self.start()
        for _ in range(200):
            for side, end in self.ends.items():
                for datagram in end.datagrams_to_send(self.now):
                    self.ends[self.other(side)].receive_datagram(datagram, self.now)
            if all(end.state is DtlsState.CONNECTED for end in self.ends.values()):
                break
            self.now += 0.5
            for end in self.ends.values():
                end.handle_timer(self.now)
        one, two = self.ends.values()
        assert one.state is two.state is DtlsState.CONNECTED
        assert one.export_keying_material(b"x", 8) == two.export_keying_material(b"x", 8)


class Dtls12Verbs(DtlsVerbs):
    versions = (DtlsVersion.DTLS12,)


TestVerbs13 = DtlsVerbs.TestCase
TestVerbs13.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestVerbs12 = Dtls12Verbs.TestCase
TestVerbs12.settings = settings(max_examples=30, stateful_step_count=60, deadline=None)
