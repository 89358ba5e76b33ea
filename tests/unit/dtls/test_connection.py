from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.unit.dtls.ends import (
    CLIENT_CERTIFICATE,
    CURVE,
    SERVER_CERTIFICATE,
    THIRTEEN,
    alert_of,
    carry,
    client,
    connected,
    failure,
    message,
    plain,
    seal,
    server,
    shake,
)
from warp.crypto import NamedGroup
from warp.dtls import (
    Alert,
    CloseNotify,
    Connected,
    DtlsConfig,
    DtlsConnection,
    DtlsDiscard,
    DtlsRole,
    DtlsRule,
    DtlsState,
    DtlsVersion,
    EarlyWriteReady,
    FlightAcknowledged,
    HandshakeCompleted,
    Negotiated,
    PeerCertificateReceived,
    PeerDataReceived,
    Terminated,
)
from warp.dtls.acks import decode_ack, encode_ack
from warp.dtls.inbox import MAX_HELD
from warp.dtls.key_update import AES_HARD_LIMIT
from warp.dtls.messages import HandshakeType as Kind
from warp.dtls.records import ACK, ALERT, APPLICATION_DATA, HANDSHAKE
from warp.entropy import SeededEntropy
from warp.errors import (
    FingerprintMismatch,
    HandshakeTimedOut,
    InvalidState,
    MessageTooLarge,
    PeerAlerted,
)
from warp.trace import MemoryTrace

A, R = Alert, DtlsRule
TICKET = bytes(8) + b"\0" + b"\0\1t" + b"\0\0"


def kinds(end) -> list[type]:
    return [type(event) for event in end.events()]


def acks_in(datagrams: list[bytes], receiver) -> list[list[tuple[int, int]]]:
    """The ACKs among datagrams, opened with the receiver's keys (and used up by it)."""
    return [
        decode_ack(record.content)
        for datagram in datagrams
        for record in receiver._handshake.intake.receive(datagram, 0.0)
        if record.content_type == ACK
    ]


def flights() -> tuple[DtlsConnection, DtlsConnection, bytes]:
    """A client that is done, a server that waits for the last flight, and that flight."""
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    carry(one, two)
    carry(two, one)
    (last,) = one.datagrams_to_send(0.0)
    return one, two, last


# the happy way ----------------------------------------------------------------------------------


def test_events_in_order():
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    shake(one, two)
    assert kinds(one) == [
        Negotiated,
        PeerCertificateReceived,
        HandshakeCompleted,
        Connected,
        FlightAcknowledged,
    ]
    assert kinds(two) == [
        Negotiated,
        EarlyWriteReady,
        PeerCertificateReceived,
        HandshakeCompleted,
        Connected,
    ]
    assert one.events() == []


def test_what_is_known_afterwards():
    one, two = connected()
    for end, certificate in ((one, SERVER_CERTIFICATE), (two, CLIENT_CERTIFICATE)):
        assert end.version is DtlsVersion.DTLS13
        assert end.outcome.group is NamedGroup.X25519
        assert end.outcome.suite == 0x1301
        assert end.srtp_profile == 7
        assert end.peer_certificate == certificate.der
        assert end.can_send
        assert end.overhead == 22
        assert len(end.srtp_keying_material()) == 56
    assert one.srtp_keying_material() == two.srtp_keying_material()
    assert one.export_keying_material(b"x", 100) == two.export_keying_material(b"x", 100)


@pytest.mark.parametrize(("profile", "length"), [(1, 60), (2, 60), (7, 56), (8, 88)])
def test_length_of_the_keys_for_srtp(profile, length):
    one, two = connected(srtp_profiles=(profile,))
    assert len(one.srtp_keying_material()) == length
    assert one.srtp_keying_material() == two.srtp_keying_material()


def test_the_answer_to_a_hello_is_there_at_once_and_fits_one_datagram():
    """So that it can ride in the response to the check that brought the hello."""
    one, two = client(**THIRTEEN, mtu=900), server(**THIRTEEN, mtu=900)
    one.start(0.0)
    (hello,) = one.datagrams_to_send(0.0)
    two.receive_datagram(hello, 0.0)
    (flight,) = two.datagrams_to_send(0.0)
    assert len(hello) <= 220
    assert len(flight) <= 660


def test_hybrid_hello_takes_two_datagrams():
    group = (NamedGroup.X25519MLKEM768, NamedGroup.X25519)
    hybrid = {"groups": group, "share_groups": group, **THIRTEEN}
    one, two = client(**hybrid), server(**hybrid)
    one.start(0.0)
    assert len(carry(one, two)) == 2
    first, second = two.datagrams_to_send(0.0)
    assert len(first) <= 1200
    assert second[0] == 0x2E  # the protected part in one record


def test_same_seed_same_bytes():
    def run() -> list[bytes]:
        one, two = client(7), server(7)
        one.start(0.0)
        out = []
        for _ in range(4):
            out += carry(one, two) + carry(two, one)
        return out

    assert run() == run()


def test_data_both_ways_in_order():
    one, two = connected(**THIRTEEN)
    for number in range(300):
        one.send_data(b"%d" % number, 0.0)
    carry(one, two)
    assert two.received_data() == [b"%d" % number for number in range(300)]
    assert two.received_data() == []


@pytest.mark.parametrize("size", [0, 1, 1200, 1 << 14])
def test_sizes_of_data(size):
    one, two = connected()
    one.send_data(bytes(size), 0.0)
    carry(one, two)
    assert two.received_data() == [bytes(size)]
    with pytest.raises(MessageTooLarge):
        one.send_data(bytes((1 << 14) + 1), 0.0)


def test_data_in_12():
    one, two = connected(versions=(DtlsVersion.DTLS12,))
    one.send_data(b"hello", 0.0)
    carry(one, two)
    assert two.received_data() == [b"hello"]
    with pytest.raises(InvalidState):
        one.update_keys(0.0)


def test_a_trace_tells_the_story():
    trace = MemoryTrace()
    one = DtlsConnection(
        DtlsRole.CLIENT,
        DtlsConfig(**CURVE),
        certificate=CLIENT_CERTIFICATE,
        entropy=SeededEntropy(1),
        trace=trace,
    )
    one.set_peer_fingerprints([("sha-256", SERVER_CERTIFICATE.fingerprint())], 0.0)
    shake(one, server())
    names = [name for _, name, _ in trace.records]
    assert names.count("dtls:state") == 3
    assert {"dtls:negotiated", "dtls:flight_sent", "dtls:ack_received"} <= set(names)


def test_key_log_only_when_asked():
    lines: list[str] = []
    trace = MemoryTrace()
    one = DtlsConnection(
        DtlsRole.CLIENT,
        DtlsConfig(**CURVE),
        certificate=CLIENT_CERTIFICATE,
        entropy=SeededEntropy(1),
        trace=trace,
        keylog=lines.append,
    )
    one.set_peer_fingerprints([("sha-256", SERVER_CERTIFICATE.fingerprint())], 0.0)
    shake(one, server())
    assert [line.split()[0] for line in lines] == [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
    ]
    secrets = [line.split()[2] for line in lines]
    shown = repr(trace.records) + repr(one) + repr(one.outcome) + str(one.discards)
    assert not any(secret in shown for secret in secrets)


def test_an_idle_connection_is_small():
    pairs = [connected(**THIRTEEN) for _ in range(2)]  # caches fill
    gc.collect()
    tracemalloc.start()
    pairs = [connected(**THIRTEEN) for _ in range(10)]
    gc.collect()
    each = tracemalloc.get_traced_memory()[0] / 20
    tracemalloc.stop()
    assert len(pairs) == 10
    assert each < 16 * 1024


# before and after -------------------------------------------------------------------------------


def test_calls_at_the_wrong_time():
    one = client()
    for call in (
        lambda: one.send_data(b"x", 0.0),
        lambda: one.export_keying_material(b"x", 1),
        lambda: one.srtp_keying_material(),
        lambda: one.update_keys(0.0),
    ):
        with pytest.raises(InvalidState):
            call()
    one.start(0.0)
    with pytest.raises(InvalidState):
        one.start(0.0)
    one.handle_timer(0.0)
    one.close(0.0)
    one.close(0.0)
    assert one.events() == []
    with pytest.raises(InvalidState):
        one.start(0.0)


def test_the_timer_is_pure_and_early_calls_are_harmless():
    one = client()
    assert one.get_timer() is None
    one.start(0.0)
    assert one.get_timer() == one.get_timer() == pytest.approx(0.4)
    one.datagrams_to_send(0.0)
    for moment in (0.0, 0.1, 0.3999):
        one.handle_timer(moment)
        assert one.datagrams_to_send(moment) == []
    one.handle_timer(5.0)
    assert one.get_timer() == pytest.approx(5.8)
    assert len(one.datagrams_to_send(5.0)) == 1


def test_no_timer_on_a_server_that_waits():
    two = server()
    assert two.get_timer() is None
    two.start(0.0)
    assert two.get_timer() is None


def test_deadline():
    one = client()
    one.start(0.0)
    moments = []
    while one.get_timer() is not None:
        moments.append(one.get_timer())
        one.handle_timer(moments[-1])
    assert moments[-1] == pytest.approx(30.0)
    assert isinstance(failure(one), HandshakeTimedOut)
    gaps = [b - a for a, b in zip([0.0, *moments], moments[:-1], strict=False)]
    assert gaps == pytest.approx([0.4, 0.8, 1.6, 3.2, 6.4, 10.0])


def test_the_number_of_timeouts_can_be_limited():
    one = client(max_timeouts=3, deadline_s=None)
    one.start(0.0)
    for _ in range(4):
        one.handle_timer(one.get_timer())
    assert isinstance(failure(one), HandshakeTimedOut)


def test_the_limit_holds_for_a_last_flight_too():
    one, two = client(**THIRTEEN, max_timeouts=3), server(**THIRTEEN)
    one.start(0.0)
    carry(one, two)
    carry(two, one)
    assert one.state is DtlsState.CONNECTED
    for _ in range(4):
        assert one.flight_outstanding
        one.handle_timer(one.get_timer())
    assert isinstance(failure(one), HandshakeTimedOut)


def test_a_last_flight_that_is_never_acknowledged_is_given_up_without_harm():
    one, _, _ = flights()
    for _ in range(13):
        assert one.get_timer() is not None
        one.handle_timer(one.get_timer())
    assert not one.flight_outstanding
    assert one.state is DtlsState.CONNECTED


def test_rtt_and_suspended_timers():
    one = client()
    one.set_rtt(0.1, 0.0)
    one.start(0.0)
    assert one.get_timer() == pytest.approx(0.2)
    one.set_rtt(0.03, 0.01)
    assert one.get_timer() == pytest.approx(0.06)
    one.suspend_timers(True, 0.02)
    assert one.get_timer() == pytest.approx(30.0)
    one.suspend_timers(False, 1.0)
    assert one.get_timer() == pytest.approx(1.06)


def test_mtu_of_the_next_flight():
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    two.set_mtu(300)
    one.start(0.0)
    carry(one, two)
    assert all(len(datagram) <= 300 for datagram in two.datagrams_to_send(0.0))


# flights apart from the rest --------------------------------------------------------------------


def test_flights_can_be_taken_apart_from_the_rest():
    one, two, last = flights()
    two.receive_datagram(last, 0.0)
    one.send_data(b"data", 0.0)
    assert one.take_handshake_datagrams(0.0) == ([], False)
    one.handle_timer(one.get_timer())
    flight, new = one.take_handshake_datagrams(0.4)
    assert new and len(flight) == 1
    assert len(one.datagrams_to_send(0.4)) == 1
    # an ACK is not a flight: nothing would ever acknowledge it
    assert two.take_handshake_datagrams(0.0) == ([], False)
    assert len(two.datagrams_to_send(0.0)) == 1


def test_taking_and_draining_give_everything_once():
    one = client()
    one.start(0.0)
    flight, new = one.take_handshake_datagrams(0.0)
    assert (len(flight), new) == (1, True)
    assert one.datagrams_to_send(0.0) == []
    assert one.take_handshake_datagrams(0.0) == ([], False)


def test_data_follows_the_flight_it_needs():
    one, _two, _last = flights()
    one.send_data(b"data", 0.0)
    one.handle_timer(one.get_timer())
    out = one.datagrams_to_send(0.4)
    assert [datagram[0] for datagram in out] == [0x2E, 0x2F]


# fingerprints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", [(DtlsVersion.DTLS13,), (DtlsVersion.DTLS12,)])
@pytest.mark.parametrize("late", [DtlsRole.CLIENT, DtlsRole.SERVER])
def test_late_fingerprint(versions, late):
    one = client(versions=versions, known=late is not DtlsRole.CLIENT)
    two = server(versions=versions, known=late is not DtlsRole.SERVER)
    shake(one, two)
    waiting, other = (one, two) if late is DtlsRole.CLIENT else (two, one)
    expected = SERVER_CERTIFICATE if late is DtlsRole.CLIENT else CLIENT_CERTIFICATE
    assert waiting.state is DtlsState.UNVERIFIED
    assert HandshakeCompleted in kinds(waiting)
    other.send_data(b"early", 0.0)
    carry(other, waiting)
    assert waiting.received_data() == []
    assert not waiting.can_send
    if not (late is DtlsRole.SERVER and versions == (DtlsVersion.DTLS13,)):
        with pytest.raises(InvalidState):
            waiting.srtp_keying_material()
    waiting.set_peer_fingerprints([("sha-256", expected.fingerprint())], 1.0)
    assert waiting.state is DtlsState.CONNECTED
    assert waiting.received_data() == [b"early"]
    assert waiting.srtp_keying_material() == other.srtp_keying_material()


@pytest.mark.parametrize("versions", [(DtlsVersion.DTLS13,), (DtlsVersion.DTLS12,)])
def test_late_fingerprint_that_does_not_match(versions):
    one, two = client(versions=versions, known=False), server(versions=versions)
    shake(one, two)
    two.send_data(b"evil", 0.0)
    carry(two, one)
    one.set_peer_fingerprints([("sha-256", CLIENT_CERTIFICATE.fingerprint())], 1.0)
    assert one.state is DtlsState.FAILED
    assert isinstance(failure(one), FingerprintMismatch)
    assert one.received_data() == []
    assert alert_of(one, two) is A.BAD_CERTIFICATE
    with pytest.raises(InvalidState):
        one.srtp_keying_material()


@pytest.mark.parametrize("algorithm", ["sha-1", "md5", "sha-224"])
def test_weak_fingerprints_match_nothing(algorithm):
    one = client(known=False)
    one.set_peer_fingerprints([(algorithm, "AA")], 0.0)
    shake(one, server())
    assert isinstance(failure(one), FingerprintMismatch)


def test_what_is_held_is_bounded():
    one, two = client(**THIRTEEN, known=False), server(**THIRTEEN)
    shake(one, two)
    for _ in range(100):
        two.send_data(bytes(1000), 0.0)
    carry(two, one)
    assert one.discards[DtlsDiscard.BUFFER_FULL] == 100 - MAX_HELD // 1000
    one.set_peer_fingerprints([("sha-256", SERVER_CERTIFICATE.fingerprint())], 1.0)
    assert len(one.received_data()) == MAX_HELD // 1000


# early data -------------------------------------------------------------------------------------


def test_server_with_early_data():
    one, two = client(**THIRTEEN), server(**THIRTEEN, early_data=True)
    one.start(0.0)
    carry(one, two)
    assert EarlyWriteReady in kinds(two)
    assert two.can_send
    early = two.srtp_keying_material()
    two.send_data(b"good morning", 0.0)
    flight, data = two.datagrams_to_send(0.0)
    one.receive_datagram(data, 0.0)  # overtakes the flight
    assert one.received_data() == []
    one.receive_datagram(flight, 0.0)
    assert one.received_data() == [b"good morning"]
    assert one.srtp_keying_material() == early
    assert kinds(one).count(PeerDataReceived) == 1


def test_server_without_early_data_may_export_but_not_send():
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    carry(one, two)
    assert not two.can_send
    assert len(two.srtp_keying_material()) == 56
    with pytest.raises(InvalidState):
        two.send_data(b"x", 0.0)


def test_data_of_the_client_before_its_finished_waits():
    one, two, last = flights()
    one.send_data(b"first", 0.0)
    carry(one, two)
    assert two.received_data() == []
    two.receive_datagram(last, 0.0)
    assert two.received_data() == [b"first"]


def test_data_in_the_handshake_epoch_is_fatal():
    one, two, _last = flights()
    two.receive_datagram(seal(one, 23, b"data", epoch=2), 0.0)
    assert failure(two).rule is R.UNEXPECTED_RECORD


@pytest.mark.parametrize("content_type", [20, 24, 99])
def test_senseless_types_under_protection_are_fatal(content_type):
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, content_type, b"\1"), 0.0)
    assert alert_of(two, one) is A.UNEXPECTED_MESSAGE


# flights, repetitions, ACKs ---------------------------------------------------------------------


def test_last_flight_is_acknowledged_at_once_in_the_data_epoch():
    one, two, last = flights()
    two.receive_datagram(last, 0.0)
    (ack,) = two.datagrams_to_send(0.0)
    assert ack[0] == 0x2F
    assert len(ack) == 40
    assert acks_in([ack], one) == [[(2, 0)]]


@pytest.mark.parametrize("mtu", [256, 300])
def test_the_ack_of_many_small_records_fits_the_mtu(mtu):
    one, two = client(**THIRTEEN), server(**THIRTEEN, mtu=mtu)
    one.start(0.0)
    carry(one, two)
    carry(two, one)
    crumbs = small_records(one, 20)
    for crumb in crumbs:
        two.receive_datagram(crumb, 0.0)
    assert two.state is DtlsState.CONNECTED
    assert max(map(len, two.datagrams_to_send(0.0))) in range(mtu - 16, mtu + 1)


def small_records(end: DtlsConnection, size: int) -> list[bytes]:
    """What a client has not sent yet of its last flight, `size` bytes to a record."""
    end.datagrams_to_send(0.0)
    return [
        seal(
            end,
            HANDSHAKE,
            message(m.message_type, m.message_seq, m.body[at : at + size], at, len(m.body)),
            2,
        )
        for m in end._handshake.flight.outstanding
        for at in range(0, len(m.body), size)
    ]


def test_a_part_of_the_answer_acknowledges_our_flight():
    """RFC 9147 section 7.1: who answers has all of it, whichever part of the answer comes first."""
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    carry(one, two)
    carry(two, one)
    first, second, *rest = small_records(one, 100)
    two.receive_datagram(plain(HANDSHAKE, message(11, 1, bytes(9), 0, 99), 9), 0.0)
    assert two.flight_outstanding  # anyone can say that
    two.receive_datagram(second, 0.0)
    assert not two.flight_outstanding
    two.handle_timer(two.get_timer())
    assert acks_in(two.datagrams_to_send(0.1), one) == [[(2, 2)]]
    for crumb in (first, *rest):
        two.receive_datagram(crumb, 0.2)
    assert two.state is DtlsState.CONNECTED


def test_every_repetition_of_the_last_flight_is_acknowledged_for_minutes():
    one, two, last = flights()
    two.receive_datagram(last, 0.0)
    two.datagrams_to_send(0.0)
    for number in range(1, 6):
        one.handle_timer(one.get_timer())
        (again,) = one.datagrams_to_send(0.0)
        two.receive_datagram(again, 0.0)
        (numbers,) = acks_in(two.datagrams_to_send(0.0), one)
        assert numbers == [(2, n) for n in range(3 * number + 1)]  # all that came of the flight
    two.handle_timer(240.0)
    one.handle_timer(one.get_timer())
    two.receive_datagram(one.datagrams_to_send(0.0)[0], 241.0)
    assert two.datagrams_to_send(241.0) == []


def test_retransmitted_message_numbers_do_not_change():
    one = client(**THIRTEEN)
    one.start(0.0)
    (first,) = one.datagrams_to_send(0.0)
    one.handle_timer(0.4)
    (second,) = one.datagrams_to_send(0.4)
    assert first[13:] == second[13:]
    assert (first[10], second[10]) == (0, 1)


def test_repeated_flight_of_the_peer_is_answered_once_in_half_a_timeout():
    one, two, _ = flights()
    two.handle_timer(two.get_timer())
    (again,) = two.datagrams_to_send(0.4)
    one.receive_datagram(again, 0.41)
    (resent,) = one.datagrams_to_send(0.41)
    assert resent[0] == 0x2E
    two.handle_timer(two.get_timer())
    one.receive_datagram(two.datagrams_to_send(1.2)[0], 0.42)
    assert one.datagrams_to_send(0.42) == []


def test_acks_name_no_data_alerts_or_acks():
    one, two, last = flights()
    one.send_data(b"x", 0.0)
    data = one.datagrams_to_send(0.0)
    two.receive_datagram(last, 0.0)
    two.receive_datagram(data[0], 0.0)
    two.receive_datagram(seal(one, ACK, encode_ack([])), 0.0)
    two.receive_datagram(seal(one, HANDSHAKE, message(24, 4, b"\0")), 0.0)
    found = acks_in(two.datagrams_to_send(0.0), one)
    assert found == [[(2, 0)], [(2, 0), (3, 2)]]


def test_message_beyond_the_window_is_neither_kept_nor_acknowledged():
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, HANDSHAKE, message(24, 4 + 9, b"\0")), 0.0)
    assert two.datagrams_to_send(0.0) == []
    two.receive_datagram(seal(one, HANDSHAKE, message(24, 4 + 8, b"\0")), 0.0)
    assert len(acks_in(two.datagrams_to_send(0.0), one)) == 1


@pytest.mark.parametrize(
    "numbers",
    [[], [(0, 0)], [(2, 0)], [(3, 9)], [(2**64 - 1, 2**64 - 1)], [(2, 5), (2, 5), (0, 7)]],
)
def test_strange_acks_are_tolerated(numbers):
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, ACK, encode_ack(numbers)), 0.0)
    one.send_data(b"x", 0.0)
    carry(one, two)
    assert two.received_data() == [b"x"]


def test_malformed_ack_under_protection():
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, ACK, b"\0\x0f" + bytes(15)), 0.0)
    assert alert_of(two, one) is A.DECODE_ERROR


def test_plaintext_acks_do_no_harm():
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    two.receive_datagram(plain(ACK, encode_ack([(0, 0)])), 0.0)
    assert two.discards == {DtlsDiscard.TOO_EARLY: 1}
    one.start(0.0)
    carry(one, two)
    flight = two.datagrams_to_send(0.0)
    two.receive_datagram(plain(ACK, encode_ack([(2, 0)]), 1), 0.0)  # what NSS does
    two.receive_datagram(plain(ACK, b"\0\7", 2), 0.0)
    assert two.flight_outstanding
    two.receive_datagram(plain(ACK, encode_ack([(0, 0)]), 3), 0.0)
    assert two.flight_outstanding
    for datagram in flight:
        one.receive_datagram(datagram, 0.0)
    shake(one, two)
    assert two.state is DtlsState.CONNECTED


@pytest.mark.parametrize("version", list(DtlsVersion))
def test_datagrams_longer_than_a_record_can_be_change_nothing(version):
    one, two = connected(versions=(version,))
    one.send_data(b"first", 0.0)
    carry(one, two)
    two.receive_datagram(seal(one, APPLICATION_DATA, bytes(20_000)), 0.0)
    assert two.discards[DtlsDiscard.TOO_LONG] == 1
    one.send_data(b"second", 0.0)
    carry(one, two)
    assert two.received_data() == [b"first", b"second"]


def test_strict_servers_refuse_acks_from_a_lower_epoch():
    one, two = client(**THIRTEEN), server(**THIRTEEN, strict_plaintext=True)
    one.start(0.0)
    carry(one, two)
    two.receive_datagram(plain(ACK, encode_ack([(2, 0)]), 1), 0.0)
    assert failure(two).rule is R.MALFORMED_ACK


def test_type_26_in_12_is_dropped():
    one, two = connected(versions=(DtlsVersion.DTLS12,))
    two.receive_datagram(plain(ACK, encode_ack([])), 0.0)
    assert two.state is DtlsState.CONNECTED
    two.receive_datagram(seal(one, ACK, encode_ack([])), 0.0)
    assert two.discards[DtlsDiscard.TOO_EARLY] == 1
    assert two.state is DtlsState.CONNECTED


def test_tickets_are_acknowledged_each_time_and_are_no_answer_to_our_flight():
    one, two, last = flights()
    record = seal(two, HANDSHAKE, message(Kind.NEW_SESSION_TICKET, 6, TICKET))
    one.receive_datagram(record, 0.0)
    assert acks_in(one.datagrams_to_send(0.0), two) == []  # the server cannot read epoch 3 yet
    assert one.flight_outstanding
    two.receive_datagram(last, 0.0)
    carry(two, one)
    again = seal(two, HANDSHAKE, message(Kind.NEW_SESSION_TICKET, 6, TICKET))
    one.receive_datagram(again, 0.1)
    (numbers,) = acks_in(one.datagrams_to_send(0.1), two)
    assert numbers == [(3, 0), (3, 2)]
    assert one.state is DtlsState.CONNECTED


@pytest.mark.parametrize(
    "kind", [Kind.CERTIFICATE_REQUEST, 9, 10, Kind.FINISHED, Kind.CLIENT_HELLO, 99]
)
def test_other_messages_after_the_handshake_are_fatal(kind):
    one, two = connected(**THIRTEEN)
    one.receive_datagram(seal(two, HANDSHAKE, message(kind, 6, b"\0")), 0.0)
    assert alert_of(one, two) is A.UNEXPECTED_MESSAGE


def test_a_client_may_not_hand_out_tickets():
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, HANDSHAKE, message(Kind.NEW_SESSION_TICKET, 4, TICKET)), 0.0)
    assert failure(two).rule is R.UNEXPECTED_MESSAGE


def test_message_that_straddles_a_change_of_keys():
    """The start of a further message behind Finished, in the handshake's epoch."""
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    carry(one, two)
    (flight,) = two.datagrams_to_send(0.0)
    one.receive_datagram(seal(two, HANDSHAKE, message(4, 6, TICKET[:3], total=15), epoch=2), 0.0)
    one.receive_datagram(flight, 0.0)
    assert failure(one).rule is R.LEFTOVER_FRAGMENTS


def test_finished_in_the_data_epoch_is_not_taken():
    """The client's epoch 3 is not readable before its Finished, and then it is too late."""
    one, two, last = flights()
    two.receive_datagram(seal(one, HANDSHAKE, message(20, 3, bytes(32)), epoch=3), 0.0)
    assert two.state is DtlsState.HANDSHAKING
    two.receive_datagram(last, 0.0)
    assert two.state is DtlsState.CONNECTED


def test_malformed_fragments_under_protection_are_fatal():
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, HANDSHAKE, message(24, 4, b"\0")[:-1]), 0.0)
    assert alert_of(two, one) is A.DECODE_ERROR


# alerts and the end -----------------------------------------------------------------------------


def test_close():
    one, two = connected(**THIRTEEN)
    one.send_data(b"last words", 0.0)
    one.close(0.0)
    assert one.state is DtlsState.CLOSED
    carry(one, two)
    assert two.received_data() == [b"last words"]
    assert kinds(two)[-1] is CloseNotify
    assert two.state is DtlsState.CLOSED
    (reply,) = two.datagrams_to_send(0.0)
    one.receive_datagram(reply, 0.0)
    assert one.datagrams_to_send(0.0) == two.datagrams_to_send(0.0) == []
    assert one.events() == []
    for end in (one, two):
        assert end.get_timer() is None
        assert not end.can_send
        with pytest.raises(InvalidState):
            end.send_data(b"x", 0.0)


def test_late_data_around_a_close_notify():
    one, two = connected(**THIRTEEN)
    one.send_data(b"before", 0.0)
    (before,) = one.datagrams_to_send(0.0)
    notify = seal(one, ALERT, b"\1\0")
    after = seal(one, 23, b"after")
    for datagram in (notify, after, before, notify):
        two.receive_datagram(datagram, 0.0)
    assert two.received_data() == [b"before"]
    assert two.discards[DtlsDiscard.AFTER_CLOSE] == 1
    assert len(two.datagrams_to_send(0.0)) == 1  # one reply


def test_keys_can_still_be_exported_after_a_close():
    one, _two = connected(**THIRTEEN)
    one.close(0.0)
    assert len(one.srtp_keying_material()) == 56


@pytest.mark.parametrize("level", [1, 2])
def test_protected_alert(level):
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, ALERT, bytes((level, A.INTERNAL_ERROR))), 0.0)
    error = failure(two)
    assert isinstance(error, PeerAlerted)
    assert error.description == A.INTERNAL_ERROR


def test_unknown_alert():
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, ALERT, b"\2\xee"), 0.0)
    assert failure(two).description == 0xEE


def test_user_canceled_is_ignored():
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, ALERT, bytes((1, A.USER_CANCELED))), 0.0)
    assert two.state is DtlsState.CONNECTED


@pytest.mark.parametrize("body", [b"", b"\2", b"\2\x28\0"])
def test_malformed_alerts(body):
    one, two = connected(**THIRTEEN)
    two.receive_datagram(plain(ALERT, body or b"\2\x28\0"), 0.0)
    assert two.state is DtlsState.CONNECTED
    two.receive_datagram(seal(one, ALERT, body), 0.0)
    assert alert_of(two, one) is A.DECODE_ERROR


def test_plaintext_alert_counts_only_before_the_peer_has_keys():
    one = client(**THIRTEEN)
    one.start(0.0)
    one.receive_datagram(plain(ALERT, b"\1\x28"), 0.0)  # a warning says nothing
    one.receive_datagram(plain(ALERT, b"\2"), 0.0)
    assert one.state is DtlsState.HANDSHAKING
    one.receive_datagram(plain(ALERT, b"\2\x28", 1), 0.0)
    assert failure(one).description == A.HANDSHAKE_FAILURE

    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    carry(one, two)
    two.receive_datagram(plain(ALERT, b"\2\x28", 1), 0.0)
    carry(two, one)
    one.receive_datagram(plain(ALERT, b"\2\x28", 1), 0.0)
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED
    two.receive_datagram(plain(ALERT, b"\2\x28", 2), 0.0)
    assert two.state is DtlsState.CONNECTED
    assert two.discards[DtlsDiscard.UNAUTHENTICATED_ALERT] == 1


def test_our_alert_is_repeated_a_few_times_to_who_keeps_talking():
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, 20, b"\1"), 0.0)
    assert len(two.datagrams_to_send(0.0)) == 1
    for number in range(6):
        one.send_data(b"hello?", 0.0)
        carry(one, two)
        assert len(two.datagrams_to_send(0.0)) == (1 if number < 3 else 0)
    assert two.received_data() == []
    assert two.get_timer() is None


def test_the_last_sequence_number_closes_the_connection():
    one, _two = connected(**THIRTEEN)
    updater = one._handshake.key_updater
    updater.soft_limit = updater.hard_limit = 1 << 47
    one._rekey_at = 1 << 47
    one._handshake.epochs.newest_write.next_sequence = (1 << 47) - 1
    one.send_data(b"x", 0.0)
    assert one.state is DtlsState.FAILED
    assert failure(one).rule is R.KEYS_EXHAUSTED
    assert AES_HARD_LIMIT < 1 << 47


# junk -------------------------------------------------------------------------------------------


def test_a_second_hello_does_not_disturb_a_live_connection():
    one, two = connected(**THIRTEEN)
    stranger = client(99)
    stranger.start(0.0)
    for datagram in stranger.datagrams_to_send(0.0):
        two.receive_datagram(datagram, 0.0)
    assert two.datagrams_to_send(0.0) == []
    one.send_data(b"still here", 0.0)
    carry(one, two)
    assert two.received_data() == [b"still here"]


def test_forged_records_of_a_next_epoch_are_harmless():
    one, two = connected(**THIRTEEN)
    for first in range(0x20, 0x40):
        two.receive_datagram(bytes((first,)) + b"\xff\xff\0\x30" + bytes(48), 0.0)
    one.send_data(b"still here", 0.0)
    carry(one, two)
    assert two.received_data() == [b"still here"]
    assert two.datagrams_to_send(0.0) == []


def test_flood_of_fragments_before_the_handshake_is_bounded():
    two = server()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    sequence = 0
    for seq in range(12):
        for offset in range(0, 30_000, 1000):
            sequence += 1
            body = message(1, seq, bytes(1000), offset, 32_000)
            two.receive_datagram(plain(HANDSHAKE, body, sequence), 0.0)
    spent = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert spent < 80 * 1024
    one = client()
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED


def test_events_that_tell_when_the_peer_is_done():
    """What embeds a last flight stops once an ACK or data of the peer has come."""
    one, two, last = flights()
    assert one.flight_outstanding
    one.events()
    two.receive_datagram(last, 0.0)
    carry(two, one)
    assert kinds(one) == [FlightAcknowledged]
    two.send_data(b"x", 0.0)
    carry(two, one)
    assert kinds(one) == [PeerDataReceived]
    assert not [e for e in one.events() if isinstance(e, Terminated)]
