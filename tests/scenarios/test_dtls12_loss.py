"""DTLS 1.2 between two of ours on a bad network: single accidents, then many at once."""

from __future__ import annotations

import pytest

from tests.sim.network import LinkConfig, drop, duplicate, swap
from tests.sim.pair import Pair
from tests.unit.dtls.ends import message
from warp.crypto import Certificate, NamedGroup
from warp.dtls import (
    Connected,
    DtlsConfig,
    DtlsConnection,
    DtlsDiscard,
    DtlsRole,
    DtlsVersion,
    Terminated,
)
from warp.entropy import SeededEntropy

ONE = Certificate.generate(SeededEntropy(1), 1.7e9)
TWO = Certificate.generate(SeededEntropy(2), 1.7e9)
ACCIDENTS = {"drop": drop, "duplicate": duplicate, "swap": swap}
LABEL = b"EXTRACTOR-dtls_srtp"


def ours(role: DtlsRole, own: Certificate, peer: Certificate, **config) -> DtlsConnection:
    values = {"versions": (DtlsVersion.DTLS12,), "groups": (NamedGroup.X25519,)}
    values["share_groups"] = (NamedGroup.X25519,)
    connection = DtlsConnection(
        role,
        DtlsConfig(**(values | config)),
        certificate=own,
        entropy=SeededEntropy(repr((role, config))),
    )
    connection.set_peer_fingerprints([("sha-256", peer.fingerprint())], 0.0)
    return connection


class Talk(Pair):
    """A client and a server of ours, both of 1.2 alone unless told otherwise."""

    def __init__(self, *, link: LinkConfig | None = None, seed: int = 0, **config) -> None:
        self.one = ours(DtlsRole.CLIENT, ONE, TWO, **config)
        self.two = ours(DtlsRole.SERVER, TWO, ONE, **config)
        super().__init__(self.one, self.two, config=link or LinkConfig(delay_s=0.02), seed=seed)
        self.began = self.now
        self.one.start(self.now)

    def connected(self) -> bool:
        return bool(self.client.named(Connected)) and bool(self.server.named(Connected))

    def finish(self, timeout_s: float = 29.0) -> None:
        self.run(until=self.connected, timeout_s=timeout_s)
        assert self.connected()
        assert self.one.version is self.two.version is DtlsVersion.DTLS12
        material = [end.export_keying_material(LABEL, 56) for end in (self.one, self.two)]
        assert material[0] == material[1]
        self.up.rules.clear()
        self.down.rules.clear()
        self.one.send_data(b"ping", self.now)
        self.two.send_data(b"pong", self.now)
        self.run_for(1.2)

    def finish_and_talk(self) -> None:
        self.finish()
        assert self.two.received_data() == [b"ping"]
        assert self.one.received_data() == [b"pong"]

    def second_flight(self) -> list[bytes]:
        """What a client sends one round trip after its beginning, on a clean network."""
        moment = pytest.approx(self.began + 0.04)
        return [step.data for step in self.sent("client") if step.time == moment]


def test_two_round_trips():
    talk = Talk()
    talk.finish_and_talk()
    assert talk.client.named(Connected)[0][0] - talk.began == pytest.approx(0.08)
    assert [len(talk.sent(end)) for end in ("client", "server")] == [3, 3]


@pytest.mark.parametrize("mtu", [300, 1200])
@pytest.mark.parametrize("accident", list(ACCIDENTS))
@pytest.mark.parametrize("way", ["up", "down"])
def test_one_accident(way, accident, mtu):
    for index in range(6 if mtu == 300 else 3):
        talk = Talk(mtu=mtu)
        getattr(talk, way).rules.append(ACCIDENTS[accident](index))
        talk.finish_and_talk()
        assert all(step.size <= mtu for step in talk.ladder)


@pytest.mark.parametrize("seed", range(5))
def test_a_third_of_everything_lost(seed):
    link = LinkConfig(delay_s=0.02, loss=0.3, reorder=0.2, duplicate=0.1)
    Talk(link=link, seed=seed, mtu=400, deadline_s=None).finish(timeout_s=300)


def test_finished_overtakes_change_cipher_spec_and_verify():
    """RFC 6347 section 4.1: what comes too early for its keys is held, not lost."""
    talk = Talk(mtu=300)
    talk.run(until=lambda: bool(talk.sent("client")[1:]))
    flight = [step.data for step in talk.sent("client")[1:]]
    records = [record for datagram in flight for record in split(datagram)]
    server = ours(DtlsRole.SERVER, TWO, ONE, mtu=300)
    server.receive_datagram(talk.sent("client")[0].data, talk.now)
    server.datagrams_to_send(talk.now)
    # the same seeds make the same server, so that the recorded flight fits it
    for record in reversed(records):
        assert not [e for e in server.events() if isinstance(e, Connected)]
        server.receive_datagram(record, talk.now)
    assert [e for e in server.events() if isinstance(e, Connected)]


def split(datagram: bytes) -> list[bytes]:
    out = []
    while datagram:
        end = 13 + int.from_bytes(datagram[11:13], "big")
        out.append(datagram[:end])
        datagram = datagram[end:]
    return out


def test_lost_last_flight_is_sent_again_on_demand():
    """RFC 6347 section 4.2.4: the server has no timer; the client's repetition asks for it."""
    talk = Talk()
    talk.down.rules += [drop(1), drop(2)]
    talk.finish_and_talk()
    assert talk.server.named(Connected)[0][0] < talk.began + 0.1
    assert talk.two.get_timer() is None or talk.two.get_timer() > talk.now + 100


def test_the_last_flight_is_sent_again_as_often_as_it_takes():
    talk = Talk(deadline_s=None)
    talk.down.rules += [drop(index) for index in range(1, 9)]
    talk.finish(timeout_s=200)
    assert talk.client.named(Connected)[0][0] > talk.began + 20
    assert len(talk.server.named(Connected)) == 1


def test_a_client_in_a_hurry_is_answered_each_time():
    """Some repeat after 50 ms, before half of our own timeout is over."""
    talk = Talk(deadline_s=None)
    talk.one.set_rtt(0.025, 0.0)
    talk.down.rules += [drop(1), drop(2)]
    talk.finish(timeout_s=2)
    finals = [step.time - talk.began for step in talk.sent("server") if step.data[0] == 20]
    assert finals == pytest.approx([0.06, 0.11, 0.21])


def test_one_repetition_in_crumbs_is_answered_once():
    talk = Talk()
    talk.finish_and_talk()
    flight = talk.one._handshake.flight
    write = talk.one._handshake.epochs.newest_write
    for at in range(0, 12, 2):
        crumb = message(20, flight.next_message_seq - 1, bytes(2), at, 12)
        talk.two.receive_datagram(write.seal(22, crumb), talk.now)
    assert len(talk.two.datagrams_to_send(talk.now)) == 1


def test_a_replayed_flight_is_not_answered():
    """A repetition has new record numbers; a copy of old datagrams asks for nothing."""
    talk = Talk()
    talk.finish_and_talk()
    before = len(talk.sent("server"))
    talk.run_for(100)
    for datagram in talk.second_flight():
        talk.two.receive_datagram(datagram, talk.now)
    talk.run_for(1)
    assert len(talk.sent("server")) == before
    assert not talk.server.named(Terminated)


def test_explicit_nonces_are_epoch_and_sequence():
    """RFC 5288 section 3: strictly rising, never random, over retransmissions too."""
    talk = Talk()
    talk.down.rules.append(drop(1))
    talk.finish_and_talk()
    for end in ("client", "server"):
        nonces = [
            (record[3:11], record[13:21])
            for step in talk.sent(end)
            for record in split(step.data)
            if record[3:5] == b"\0\1"
        ]
        assert len(nonces) >= 2
        assert all(number == nonce for number, nonce in nonces)
        assert nonces == sorted(set(nonces))


def test_application_data_in_epoch_0_is_dropped():
    talk = Talk()
    talk.finish_and_talk()
    for end in (talk.one, talk.two):
        end.receive_datagram(b"\x17\xfe\xfd" + bytes(7) + b"\x09\0\4evil", talk.now)
        assert end.received_data() == []
        assert not [e for e in end.events() if isinstance(e, Terminated)]


def test_our_server_never_asks_for_a_cookie():
    """ICE has proved where the client is; a cookie would cost a round trip."""
    talk = Talk()
    talk.finish_and_talk()
    assert not [s for s in talk.sent("server") if s.data[0] == 22 and s.data[13] == 3]


def test_every_bit_of_the_handshake_flipped_once():
    """A damaged copy before the good one: no crash; protected records survive it."""
    talk = Talk()
    talk.finish()
    finished = [s.data for s in talk.sent("client") if s.time == pytest.approx(talk.began + 0.04)][
        -1
    ]
    for position in range(len(finished)):
        damaged = bytearray(finished)
        damaged[position] ^= 1
        talk.two.receive_datagram(bytes(damaged), talk.now)
    assert not [e for e in talk.two.events() if isinstance(e, Terminated)]


def test_a_ticket_that_nobody_asked_for_is_not_taken():
    """RFC 5077 section 3.3 wants the extension first. In plaintext anyone can forge one."""
    talk = Talk()
    talk.down.rules.append(drop(1))  # the server's Finished
    talk.run(until=lambda: bool(talk.server.named(Connected)))
    seq = 5  # after ServerHello, Certificate, ServerKeyExchange, CertificateRequest, Done
    body = bytes(4) + b"\0\1t"
    message = b"\4\0\0\7" + seq.to_bytes(2, "big") + b"\0\0\0\0\0\7" + body
    record = b"\x16\xfe\xfd\0\0\0\0\0\0\0\x63" + len(message).to_bytes(2, "big") + message
    talk.one.receive_datagram(record, talk.now)
    assert talk.one.discards[DtlsDiscard.MISPLACED_MESSAGE] == 1
    talk.finish_and_talk()


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(2))
def test_a_damaged_datagram_ends_the_attempt_or_nothing(offset):
    """Plaintext cannot tell damage from malice; it must never raise nor lead to unequal keys."""
    for turn in range(4):
        size = 1
        position = offset
        while position < size:
            size = _handshake_with_damage(turn, position)
            position += 7


def _handshake_with_damage(turn: int, position: int) -> int:
    """Flip bits of one byte in the datagram of this turn; return the datagram's size."""
    ends = [ours(DtlsRole.CLIENT, ONE, TWO), ours(DtlsRole.SERVER, TWO, ONE)]
    ends[0].start(0.0)
    size = 0
    for step in range(6):
        for datagram in ends[step % 2].datagrams_to_send(0.0):
            if step == turn and not size:
                size = len(datagram)
                damaged = bytearray(datagram)
                damaged[position] ^= 0xA5
                datagram = bytes(damaged)
            ends[1 - step % 2].receive_datagram(datagram, 0.0)
    if all(end.can_send for end in ends):
        assert len({end.export_keying_material(LABEL, 56) for end in ends}) == 1
    return size
