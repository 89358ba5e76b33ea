from __future__ import annotations

import pytest

from tests.unit.dtls.ends import (
    THIRTEEN,
    alert_of,
    carry,
    client,
    connected,
    failure,
    message,
    seal,
    server,
    shake,
)
from warp.crypto import NamedGroup
from warp.dtls import Alert, CipherSuite, DtlsRule, DtlsState, DtlsVersion
from warp.dtls.epochs import MAX_EPOCH
from warp.dtls.key_update import AES_HARD_LIMIT, AES_SOFT_LIMIT
from warp.dtls.records import APPLICATION_DATA
from warp.errors import InvalidState


def write_epoch(end) -> int:
    return end._handshake.epochs.newest_write.epoch


def read_epoch(end) -> int:
    return end._handshake.epochs.newest_read


def talk(one, two, now=1.0) -> None:
    for source, target in ((one, two), (two, one)):
        source.send_data(b"hello", now)
        carry(source, target, now)
        assert target.received_data() == [b"hello"]


def settle(one, two, now=1.0) -> None:
    for _ in range(6):
        carry(one, two, now)
        carry(two, one, now)


@pytest.mark.parametrize("request_peer", [False, True])
def test_update(request_peer):
    one, two = connected(**THIRTEEN)
    one.update_keys(1.0, request=request_peer)
    assert write_epoch(one) == 3  # not before the peer has acknowledged it
    settle(one, two)
    assert (write_epoch(one), read_epoch(two)) == (4, 4)
    assert (write_epoch(two), read_epoch(one)) == ((4, 4) if request_peer else (3, 3))
    talk(one, two)


def test_both_at_once():
    one, two = connected(**THIRTEEN)
    one.update_keys(1.0, request=True)
    two.update_keys(1.0, request=True)
    settle(one, two)
    assert {write_epoch(one), write_epoch(two), read_epoch(one), read_epoch(two)} == {4}
    talk(one, two)


@pytest.mark.parametrize("request_peer", [False, True])
def test_many_epochs(request_peer):
    """Each side counts its own: the ACK of an epoch may come in one far behind it."""
    one, two = connected(**THIRTEEN)
    for number in range(9):
        one.update_keys(1.0 + number, request=request_peer)
        settle(one, two, 1.0 + number)
        assert not one.flight_outstanding
        talk(one, two, 1.0 + number)
    assert write_epoch(one) == read_epoch(two) == 12
    assert read_epoch(one) == write_epoch(two) == (12 if request_peer else 3)


def test_epochs_with_the_same_bits_are_told_apart():
    """Data came in epoch 3 last, and what comes now in epoch 7 looks the same (section 4.2.2)."""
    one, two = connected(**THIRTEEN)
    talk(one, two)
    for number in range(5):
        one.update_keys(2.0 + number)
        settle(one, two, 2.0 + number)
    assert write_epoch(one) == read_epoch(two) == 8
    talk(one, two, 9.0)


def test_one_at_a_time():
    one, _two = connected(**THIRTEEN)
    one.update_keys(1.0)
    one.update_keys(1.0)
    one.update_keys(1.0, request=True)
    assert len(one.datagrams_to_send(1.0)) == 1
    assert one._handshake.flight.next_message_seq == 5


def test_lost_update_is_repeated_in_its_epoch():
    one, two = connected(**THIRTEEN)
    one.update_keys(1.0)
    (lost,) = one.datagrams_to_send(1.0)
    one.handle_timer(one.get_timer())
    (again,) = one.datagrams_to_send(1.4)
    assert lost[0] == again[0] == 0x2F
    two.receive_datagram(again, 1.4)
    settle(one, two, 1.4)
    talk(one, two, 1.5)


def test_lost_acknowledgement():
    """The peer has moved on; the old epoch stays readable, so the repetition is acknowledged."""
    one, two = connected(**THIRTEEN)
    one.update_keys(1.0)
    carry(one, two, 1.0)
    two.datagrams_to_send(1.0)  # lost
    one.send_data(b"still the old keys", 1.1)
    carry(one, two, 1.1)
    assert two.received_data() == [b"still the old keys"]
    one.handle_timer(one.get_timer())
    settle(one, two, 1.4)
    assert write_epoch(one) == 4
    assert read_epoch(two) == 4  # the duplicate has not moved it further
    talk(one, two, 1.5)


def test_old_keys_are_kept_until_the_new_ones_are_seen_and_some_time_longer():
    one, two = connected(**THIRTEEN)
    settle(one, two)
    two.handle_timer(240.0)
    assert two._handshake.epochs.read_keys(2) is None
    one.update_keys(300.0)
    carry(one, two, 300.0)
    assert two.get_timer() == pytest.approx(540.0)
    two.handle_timer(540.0)  # nothing has come in epoch 4 yet
    assert two._handshake.epochs.read_keys(3) is not None
    settle(one, two, 541.0)
    talk(one, two, 541.0)
    two.handle_timer(780.0)
    assert two._handshake.epochs.read_keys(3) is None
    assert two.get_timer() is None
    talk(one, two, 781.0)


def test_late_data_under_keys_that_are_forgotten_is_dropped():
    """Though the last data came under them, and they were at hand."""
    one, two = connected(**THIRTEEN)
    late = [seal(one, APPLICATION_DATA, text) for text in (b"late", b"too late")]
    one.update_keys(1.0)
    settle(one, two)
    talk(one, two)
    two.receive_datagram(late[0], 2.0)
    assert two.received_data() == [b"late"]
    two.handle_timer(241.0)
    two.receive_datagram(late[1], 241.0)
    assert two.received_data() == []
    talk(one, two, 241.0)


def test_update_by_itself_before_a_key_has_protected_too_much():
    one, two = connected(**THIRTEEN)
    updater = one._handshake.key_updater
    assert AES_SOFT_LIMIT * 3 // 4 <= updater.soft_limit <= AES_SOFT_LIMIT
    one._handshake.epochs.newest_write.next_sequence = updater.soft_limit - 1
    two._handshake.epochs.read_keys(3)._top = updater.soft_limit - 2
    one.send_data(b"the last one", 1.0)
    settle(one, two)
    assert two.received_data() == [b"the last one"]
    assert write_epoch(one) == 4


def test_chacha_needs_no_updates():
    one, two = connected(**THIRTEEN, suites=(CipherSuite.CHACHA20_POLY1305_SHA256,))
    assert one._handshake.key_updater.soft_limit > 1 << 40
    talk(one, two)


def test_keys_that_are_used_up_end_the_connection():
    one, _ = connected(**THIRTEEN)
    one.update_keys(1.0)
    one._handshake.epochs.newest_write.next_sequence = AES_HARD_LIMIT
    one._rekey_at = AES_HARD_LIMIT
    one.send_data(b"too many", 1.0)
    assert one.state is DtlsState.FAILED
    assert failure(one).rule is DtlsRule.KEYS_EXHAUSTED


@pytest.mark.parametrize(
    ("body", "alert"),
    [
        (b"\2", Alert.ILLEGAL_PARAMETER),
        (b"", Alert.DECODE_ERROR),
        (b"\0\0", Alert.DECODE_ERROR),
    ],
)
def test_bad_bodies(body, alert):
    one, two = connected(**THIRTEEN)
    two.receive_datagram(seal(one, 22, message(24, 4, body)), 1.0)
    assert two.state is DtlsState.FAILED
    assert alert_of(two, one) is alert


def test_a_message_after_it_in_the_old_epoch():
    one, two = connected(**THIRTEEN)
    one.receive_datagram(seal(two, 22, message(24, 6, b"\0")), 1.0)
    assert read_epoch(one) == 4
    ticket = bytes(8) + b"\0" + b"\0\1t" + b"\0\0"
    one.receive_datagram(seal(two, 22, message(4, 7, ticket)), 1.0)
    assert failure(one).rule is DtlsRule.UNEXPECTED_MESSAGE


def test_epochs_never_wrap():
    one, two = connected(**THIRTEEN)
    two._handshake.epochs.newest_read = MAX_EPOCH
    two.receive_datagram(seal(one, 22, message(24, 4, b"\0")), 1.0)
    assert two.state is DtlsState.FAILED


def test_message_numbers_never_wrap():
    """Nor does a peer that asks and asks for our KeyUpdates bring us to an error."""
    one, two = connected(**THIRTEEN)
    two._handshake.flight.next_message_seq = 0xFFFF
    one._driver._reassembler.next_seq = 0xFFFF
    for asked in range(3):
        one.update_keys(1.0 + asked, request=True)
        settle(one, two, 1.0 + asked)
    assert (write_epoch(one), read_epoch(two)) == (6, 6)
    assert (write_epoch(two), read_epoch(one)) == (4, 4)  # the last number served for one
    talk(one, two, 5.0)
    one.receive_datagram(seal(two, 22, message(24, 0, b"not a KeyUpdate")), 5.0)
    assert one.state is DtlsState.CONNECTED  # number 0 is of long ago, and acknowledged as such
    assert len(one.datagrams_to_send(5.0)) == 1


def test_only_when_connected_and_only_in_13():
    with pytest.raises(InvalidState):
        client(**THIRTEEN).update_keys(0.0)
    one, two = client(versions=(DtlsVersion.DTLS12,)), server()
    shake(one, two)
    assert one.state is DtlsState.CONNECTED
    with pytest.raises(InvalidState):
        one.update_keys(0.0)


def test_update_while_the_last_flight_is_not_acknowledged():
    """It takes effect once everything before it is acknowledged too."""
    groups = (NamedGroup.X25519,)
    one = client(**THIRTEEN | {"groups": groups, "share_groups": groups})
    two = server(**THIRTEEN)
    one.start(0.0)
    carry(one, two)
    carry(two, one)
    (last,) = one.datagrams_to_send(0.0)
    assert one.state is DtlsState.CONNECTED
    one.update_keys(0.0)
    carry(one, two)
    carry(two, one)
    assert write_epoch(one) == 3
    two.receive_datagram(last, 0.1)
    settle(one, two, 0.1)
    for _ in range(3):
        if one.get_timer() and one.get_timer() < 60:
            now = one.get_timer()
            one.handle_timer(now)
            settle(one, two, now)
    assert write_epoch(one) == 4
    talk(one, two, 5.0)
