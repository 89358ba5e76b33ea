"""DTLS 1.3 on a bad network: every single accident in both directions, then many at once."""

from __future__ import annotations

import pytest

from tests.sim.network import LinkConfig, delay, drop, duplicate, swap
from tests.sim.pair import Pair
from tests.unit.dtls.ends import CURVE, RETRY, THIRTEEN, client, server
from warp.crypto import NamedGroup
from warp.dtls import Connected, DtlsVersion, Terminated
from warp.dtls.driver import HandshakeDriver
from warp.dtls.reassembly import FRAGMENT_HEADER_LENGTH, split_fragments

HYBRID = {
    "groups": (NamedGroup.X25519MLKEM768, NamedGroup.X25519),
    "share_groups": (NamedGroup.X25519MLKEM768, NamedGroup.X25519),
}
SHAPES = {
    "curve": ({**CURVE}, {**CURVE}),
    "hybrid": ({**HYBRID}, {**HYBRID}),
    "retry": (RETRY["client"], RETRY["server"]),
    "cookie": ({**CURVE}, {**CURVE, "require_cookie": True}),
}
ACCIDENTS = {
    "drop": drop,
    "duplicate": duplicate,
    "swap": swap,
    "delay": lambda index: delay(index, 0.3),
}
LABEL = b"EXTRACTOR-dtls_srtp"


class Talk(Pair):
    """A client and a server of ours that talk as soon as they can."""

    def __init__(self, shape="curve", *, link=None, seed=0, early=False, **config) -> None:
        one, two = SHAPES[shape]
        self.one = client(seed, **(THIRTEEN | one | config))
        self.two = server(seed, **(THIRTEEN | two | config | {"early_data": early}))
        super().__init__(self.one, self.two, config=link or LinkConfig(delay_s=0.02), seed=seed)
        self.began = self.now
        self.one.start(self.now)

    def connected(self) -> bool:
        return bool(self.client.named(Connected)) and bool(self.server.named(Connected))

    def finish(self, timeout_s: float = 29.0) -> None:
        assert self.run(until=self.connected, timeout_s=timeout_s), self.ladder
        assert self.one.version is self.two.version is DtlsVersion.DTLS13
        material = [end.export_keying_material(LABEL, 56) for end in (self.one, self.two)]
        assert material[0] == material[1]
        # the client's last flight is answered by an ACK, however many were lost
        assert self.run(until=lambda: not self.one.flight_outstanding, timeout_s=timeout_s)
        self.up.rules.clear()
        self.down.rules.clear()

    def finish_and_talk(self) -> None:
        self.finish()
        self.one.send_data(b"ping", self.now)
        self.two.send_data(b"pong", self.now)
        self.run_for(1.0)
        assert self.two.received_data() == [b"ping"]
        assert self.one.received_data() == [b"pong"]
        assert not self.client.named(Terminated) + self.server.named(Terminated)


def test_one_round_trip_and_a_half():
    talk = Talk()
    talk.finish_and_talk()
    assert talk.client.named(Connected)[0][0] - talk.began == pytest.approx(0.04)
    assert talk.server.named(Connected)[0][0] - talk.began == pytest.approx(0.06)
    flights = [[step.size for step in talk.sent(end)][:2] for end in ("client", "server")]
    assert flights[0][0] <= 220  # one datagram each: hello, answer, last flight, ACK
    assert flights[1][0] <= 660
    assert [len(talk.sent(end)) for end in ("client", "server")] == [3, 3]


@pytest.mark.parametrize("mtu", [300, 548, 1200])
@pytest.mark.parametrize("accident", list(ACCIDENTS))
@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_one_accident(shape, way, accident, mtu):
    """Whichever datagram it hits, both ends connect, with the same keys, and talk."""
    clean = Talk(shape, mtu=mtu)
    clean.finish()
    count = len(clean.sent("client" if way == "up" else "server"))
    for index in range(count):
        talk = Talk(shape, mtu=mtu)
        getattr(talk, way).rules.append(ACCIDENTS[accident](index))
        talk.finish_and_talk()
        assert all(step.size <= mtu for step in talk.ladder)


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("way", ["up", "down"])
def test_two_neighbours_lost(shape, way):
    for index in range(4):
        talk = Talk(shape, mtu=300)
        getattr(talk, way).rules += [drop(index), drop(index + 1)]
        talk.finish_and_talk()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", ["curve", "hybrid", "retry"])
def test_a_third_of_everything_lost(shape, seed):
    link = LinkConfig(delay_s=0.02, loss=0.3, reorder=0.2, duplicate=0.1, jitter_s=0.01)
    Talk(shape, link=link, seed=seed, mtu=400, deadline_s=None).finish(timeout_s=300)


def test_lost_acknowledgement_of_the_last_flight():
    """The client repeats its last flight, the server acknowledges again, no keys change."""
    talk = Talk()
    talk.down.rules.append(drop(1))
    talk.finish_and_talk()
    acks = [step.size for step in talk.sent("server")[1:] if step.first_byte == 0x2F]
    assert acks[:2] == [40, 40 + 3 * 16]  # one record, then its three messages apart as well


def test_every_repetition_is_acknowledged_at_once_for_minutes():
    talk = Talk()
    talk.down.rules += [drop(n) for n in range(1, 5)]
    talk.finish_and_talk()
    assert len([step for step in talk.sent("client") if step.size > 400]) == 5


def test_partial_flight_is_acknowledged_after_a_quarter_of_the_timeout():
    talk = Talk("hybrid", mtu=300)
    talk.down.rules.append(drop(6))  # the end of the server's flight
    talk.run(until=lambda: len(talk.sent("client", "dtls")) > 5, timeout_s=3)
    ack = talk.sent("client")[5]
    assert ack.time - talk.began == pytest.approx(0.04 + 0.1)
    assert ack.size < 200
    talk.finish_and_talk()
    resent = [step for step in talk.sent("server") if step.time > talk.began + 0.1]
    assert resent[0].size < 300  # what was missing, not the flight


def test_early_data_of_the_server_arrives_before_its_time_and_is_kept():
    """Records of epoch 3 that overtake the end of the server's flight wait for their keys."""
    talk = Talk("hybrid", mtu=548, early=True)
    talk.down.rules.append(delay(2, 0.1))
    sent = []

    def greet(node, now):
        if node.name == "server" and talk.two.can_send and not sent:
            sent.append(now)
            talk.two.send_data(b"good morning", now)

    talk.after_step.append(greet)
    talk.finish()
    assert talk.one.received_data() == [b"good morning"]
    assert sent[0] < talk.server.named(Connected)[0][0]


def test_data_of_the_client_that_overtakes_its_finished_is_kept():
    talk = Talk()
    talk.up.rules.append(delay(1, 0.1))
    talk.run(until=lambda: bool(talk.client.named(Connected)))
    talk.one.send_data(b"first words", talk.now)
    talk.finish()
    assert talk.two.received_data() == [b"first words"]


def test_a_peer_that_drops_what_follows_a_message_it_has_seen(monkeypatch):
    """As NSS does with a record: resent messages each have a record of their own."""
    original = HandshakeDriver.receive_record

    def like_nss(self, record, now):
        fresh = 0
        for fragment in split_fragments(record.content, record.epoch, 256)[0]:
            if fragment.message_seq < self._reassembler.next_seq:
                self._repeated = True
                break
            fresh += FRAGMENT_HEADER_LENGTH + len(fragment.data)
        if fresh:
            original(self, record._replace(content=record.content[:fresh]), now)
        elif self._may_acknowledge(record.epoch):
            self._handshake.acks.note(record.epoch, record.sequence)

    monkeypatch.setattr(HandshakeDriver, "receive_record", like_nss)
    monkeypatch.setattr("warp.dtls.driver.ACK_DELAY", 1e6)  # its ACK is one that we disbelieve
    for index in range(7):
        talk = Talk("hybrid", mtu=400)
        talk.down.rules.append(drop(index))
        talk.run(until=lambda sim=talk: bool(sim.sent("server")))
        talk.two.set_mtu(440)  # other boundaries than before
        talk.finish_and_talk()


def test_nothing_gets_through():
    talk = Talk(link=LinkConfig(loss=1.0))
    assert talk.run(until=lambda: bool(talk.client.named(Terminated)), timeout_s=40)
    assert talk.client.named(Terminated)[0][0] - talk.began == pytest.approx(30.0)
    assert talk.one.get_timer() is None
