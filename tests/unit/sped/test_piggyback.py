from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest

from warp.sped import Evidence, Piggyback, PiggybackState, SpedConfig, SpedDiscard
from warp.stun import (
    BINDING,
    Attribute,
    Message,
    MessageClass,
    build_message,
    parse_message,
)
from warp.trace import MemoryTrace

DATA = Attribute.META_DTLS_IN_STUN
ACK = Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT
REQUEST, SUCCESS = MessageClass.REQUEST, MessageClass.SUCCESS
DTLS12, DTLS13 = 0xFEFD, 0xFEFC
ROOM = 1068
S = PiggybackState


def datagram(tag: int, size: int = 200, first: int = 22) -> bytes:
    return bytes([first, 0xFE, 0xFD]) + bytes([tag]) * (size - 3)


F1, F2, F2B, F3 = datagram(1), datagram(2, 629), datagram(3, 300), datagram(4, 456, first=0x2E)


def crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def transaction(number: int) -> bytes:
    return number.to_bytes(12, "big")


def message(
    message_class: MessageClass = REQUEST,
    *,
    ack: bytes | None = None,
    data: bytes | None = None,
    number: int = 0,
    method: int = BINDING,
    others: Sequence[tuple[int, bytes]] = (),
) -> Message:
    attributes = list(others)
    if ack is not None:
        attributes.append((ACK, ack))
    if data is not None:
        attributes.append((DATA, data))
    return parse_message(
        build_message(method, message_class, transaction(number), attributes, integrity_key=None)
    )


class Side:
    """A piggyback with short words for what the tests say often."""

    def __init__(
        self, state: PiggybackState = S.TENTATIVE, config: SpedConfig | None = None
    ) -> None:
        self.trace = MemoryTrace()
        self.sped = Piggyback(config or SpedConfig(), self.trace)
        self.number = 1000
        if state in (S.CONFIRMED, S.COMPLETE):
            self.receive(ack=b"")
        if state is S.OFF:
            self.receive()
        if state in (S.PENDING, S.COMPLETE):
            self.sped.handle_handshake_complete(False, DTLS13, 0.0)
        if state is S.COMPLETE:
            self.receive(ack=b"")
        assert self.sped.state is state

    def receive(
        self,
        message_class: MessageClass = REQUEST,
        *,
        ack: bytes | None = None,
        data: bytes | None = None,
        number: int = 0,
    ) -> list[bytes]:
        return self.sped.receive_message(
            message(message_class, ack=ack, data=data, number=number), 0.0
        )

    def send(
        self, message_class: MessageClass = REQUEST, room: int = ROOM, number: int | None = None
    ) -> tuple[bytes | None, bytes | None]:
        self.number += 1
        number = self.number if number is None else number
        attributes = dict(self.sped.attributes_to_send(message_class, transaction(number), room))
        assert set(attributes) <= {ACK, DATA}
        return attributes.get(ACK), attributes.get(DATA)


# ---- wire


def test_acknowledgement_precedes_data() -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    attributes = side.sped.attributes_to_send(REQUEST, transaction(1), ROOM)
    assert attributes == [(0xC071, b""), (0xC070, F1)]


def test_one_datagram_per_message() -> None:
    side = Side()
    side.sped.capture_flight([F2, F2B], new_flight=True)
    for message_class in (REQUEST, SUCCESS):
        attributes = side.sped.attributes_to_send(message_class, transaction(1), ROOM)
        assert [kind for kind, _ in attributes] == [ACK, DATA]


@pytest.mark.parametrize("message_class", [MessageClass.ERROR, MessageClass.INDICATION])
def test_nothing_rides_in_errors_and_indications(message_class: MessageClass) -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    assert side.send(message_class) == (None, None)


@pytest.mark.parametrize("state", [S.TENTATIVE, S.CONFIRMED, S.PENDING])
@pytest.mark.parametrize("message_class", [REQUEST, SUCCESS])
def test_every_message_acknowledges_while_active(
    state: PiggybackState, message_class: MessageClass
) -> None:
    assert Side(state).send(message_class) == (b"", None)


@pytest.mark.parametrize(
    ("room", "ack", "data"),
    [
        (4 + 8 + 4 + 300, True, True),
        (4 + 8 + 4 + 299, True, False),
        (4 + 8, True, False),
        (4 + 7, False, False),
        (4, False, False),
    ],
)
def test_what_does_not_fit_waits(room: int, ack: bool, data: bool) -> None:
    side = Side()
    side.receive(data=F1)
    side.receive(data=F2)
    side.sped.capture_flight([F2B], new_flight=True)
    expected = crc(F1) + crc(F2) if ack else b""
    assert side.send(room=room) == (expected, F2B if data else None)
    assert side.sped.pending == (F2B,)


@pytest.mark.parametrize("room", [3, 0, -50])
def test_no_room_for_an_empty_acknowledgement(room: int) -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    assert side.send(room=room) == (None, None)


def test_padding_counts_as_room() -> None:
    side = Side()
    side.sped.capture_flight([datagram(9, 201)], new_flight=True)
    assert side.send(room=4 + 4 + 203) == (b"", None)
    assert side.send(room=4 + 4 + 204) == (b"", datagram(9, 201))


def test_a_smaller_datagram_goes_when_the_next_does_not_fit() -> None:
    side = Side()
    side.sped.capture_flight([F2, F2B], new_flight=True)
    assert side.send(room=400)[1] == F2B
    assert side.send()[1] == F2


# ---- receiving


def test_data_is_acknowledged_before_it_is_injected() -> None:
    """The response that carries the next flight acknowledges the request's datagram."""
    side = Side()
    assert side.receive(ack=b"", data=F1) == [F1]
    side.sped.capture_flight([F2], new_flight=True)
    assert side.send(SUCCESS) == (crc(F1), F2)


def test_acknowledgements_are_repeated_in_order_of_receipt() -> None:
    side = Side()
    for data in (F2B, F2, F1):
        side.receive(data=data)
    assert side.send()[0] == crc(F2B) + crc(F2) + crc(F1)
    assert side.send(SUCCESS)[0] == crc(F2B) + crc(F2) + crc(F1)


def test_the_oldest_acknowledgement_goes_beyond_four() -> None:
    side = Side()
    datagrams = [datagram(tag) for tag in range(10, 16)]
    for data in datagrams:
        side.receive(data=data)
        ack, _ = side.send()
        assert ack is not None and len(ack) <= 16 and len(ack) % 4 == 0
    assert side.send()[0] == b"".join(crc(data) for data in datagrams[2:])


def test_duplicates_are_injected_again_but_acknowledged_once() -> None:
    """DTLS may have had no keys for the first copy; its replay window drops the second."""
    side = Side()
    assert side.receive(data=F1) == [F1]
    assert side.receive(data=F1) == [F1]
    side.sped.receive_direct(F1)
    assert side.send()[0] == crc(F1)


def test_empty_data_is_neither_injected_nor_acknowledged() -> None:
    side = Side()
    side.receive(data=F1)
    assert side.receive(data=b"") == []
    assert side.send()[0] == crc(F1)


@pytest.mark.parametrize("junk", [b"hello, world, here", F1[:12], b"\x13" + F1, b"\x40" + F1])
def test_junk_is_dropped_and_not_acknowledged(junk: bytes) -> None:
    side = Side()
    assert side.receive(data=junk) == []
    assert side.sped.discards == {SpedDiscard.NOT_DTLS: 1}
    assert side.send() == (b"", None)
    assert side.receive(data=F1) == [F1]


@pytest.mark.parametrize("size", [3, 5, 1000])
def test_malformed_acknowledgement_is_ignored(size: int) -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.send(number=7)
    value = (crc(F1) * 300)[:size]
    side.receive(SUCCESS, ack=value, number=7)
    assert side.sped.discards == {SpedDiscard.MALFORMED_ACKNOWLEDGEMENT: 1}
    assert side.sped.pending == (F1,)
    assert side.sped.state is S.TENTATIVE


def test_malformed_acknowledgement_does_not_spoil_the_data_beside_it() -> None:
    side = Side()
    assert side.receive(ack=b"abc", data=F1) == [F1]
    assert side.sped.state is S.CONFIRMED


def test_five_acknowledgements_are_read() -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.receive(ack=bytes(16) + crc(F1))
    assert side.sped.pending == ()


def test_unknown_acknowledgement_is_ignored() -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.receive(ack=b"\xde\xad\xbe\xef")
    assert side.sped.pending == (F1,)
    assert side.sped.state is S.CONFIRMED


def test_direct_handshake_datagrams_are_acknowledged() -> None:
    side = Side()
    side.sped.receive_direct(F1)
    assert side.send()[0] == crc(F1)


@pytest.mark.parametrize("first", [23, 0x2F, 0x3F, 21, 128])
def test_direct_application_data_is_not_acknowledged(first: int) -> None:
    side = Side()
    side.sped.receive_direct(F1)
    for tag in range(10):
        side.sped.receive_direct(datagram(tag, 300, first))
    assert side.send()[0] == crc(F1)


def test_other_methods_and_indications_change_nothing() -> None:
    side = Side()
    for strange in (
        message(data=F1, method=3),
        message(MessageClass.INDICATION, data=F1),
        message(MessageClass.ERROR, ack=b"", data=F1),
    ):
        assert side.sped.receive_message(strange, 0.0) == []
    assert side.sped.state is S.TENTATIVE
    assert side.send() == (b"", None)


# ---- implicit acknowledgement


def test_response_acknowledges_what_its_request_carried() -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    assert side.send(number=1)[1] == F1
    side.receive(SUCCESS, ack=b"", number=1)
    assert side.sped.pending == ()


def test_response_with_data_alone_acknowledges_nothing() -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.send(number=1)
    assert side.receive(SUCCESS, data=F2, number=1) == [F2]
    assert side.sped.pending == (F1,)


def test_response_to_a_plain_check_acknowledges_nothing() -> None:
    side = Side()
    side.send(number=1)
    side.sped.capture_flight([F1], new_flight=True)
    side.receive(SUCCESS, ack=b"", number=1)
    assert side.sped.pending == (F1,)


def test_late_response_does_not_touch_a_new_flight() -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.send(number=1)
    side.sped.capture_flight([F3], new_flight=True)
    side.receive(SUCCESS, ack=b"", number=1)
    assert side.sped.pending == (F3,)


def test_wrong_hash_with_implicit_acknowledgement() -> None:
    """As Chromium: the hash is ignored, the response still shows that the request arrived."""
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.send(number=1)
    side.receive(SUCCESS, ack=b"\0\0\0\1", number=1)
    assert side.sped.pending == ()


def test_remembered_checks_are_bounded() -> None:
    side = Side(config=SpedConfig(remembered_checks=4))
    side.sped.capture_flight([F1], new_flight=True)
    for number in range(1, 8):
        side.send(number=number)
    side.receive(SUCCESS, ack=b"", number=1)
    assert side.sped.pending == (F1,)
    side.receive(SUCCESS, ack=b"", number=7)
    assert side.sped.pending == ()


# ---- support


@pytest.mark.parametrize("message_class", [REQUEST, SUCCESS])
@pytest.mark.parametrize(
    "attributes", [{"ack": b""}, {"data": b""}, {"data": F1}, {"ack": crc(F1)}]
)
def test_either_attribute_shows_support(
    message_class: MessageClass, attributes: dict[str, bytes]
) -> None:
    side = Side()
    side.send(number=1)
    side.receive(message_class, number=1, **attributes)
    assert side.sped.state is S.CONFIRMED
    assert side.send()[0] is not None


@pytest.mark.parametrize("message_class", [REQUEST, SUCCESS])
def test_neither_attribute_first_turns_off_and_keeps_the_flight(
    message_class: MessageClass,
) -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.send(number=1)
    side.receive(message_class, number=1)
    assert side.sped.state is S.OFF
    assert side.send() == (None, None)
    assert side.sped.pending == (F1,)
    assert side.sped.take_pending() == [F1]
    assert side.sped.pending == ()


def test_a_flight_captured_while_off_waits_for_a_path() -> None:
    side = Side(S.OFF)
    side.sped.capture_flight([F1], new_flight=True)
    side.sped.capture_flight([F2], new_flight=True)
    assert side.sped.take_pending() == [F2]


def test_a_handshake_that_completed_while_off_leaves_nothing_to_send_again() -> None:
    side = Side(S.OFF)
    side.sped.capture_flight([F2], new_flight=True)
    side.sped.handle_handshake_complete(False, DTLS13, 0.0)
    assert side.sped.take_pending() == []


def test_off_is_final() -> None:
    side = Side(S.OFF)
    assert side.receive(ack=b"", data=F1) == [F1]
    side.sped.handle_handshake_complete(True, DTLS13, 0.0)
    side.sped.handle_peer_data(Evidence.DTLS_ACKNOWLEDGEMENT, 0.0)
    assert side.sped.state is S.OFF
    assert side.send() == (None, None)


def test_neither_after_support_changes_nothing() -> None:
    side = Side(S.CONFIRMED)
    side.sped.capture_flight([F1], new_flight=True)
    side.receive()
    side.receive(SUCCESS)
    assert side.sped.state is S.CONFIRMED
    assert side.send() == (b"", F1)


def test_errors_are_no_evidence_and_lose_nothing() -> None:
    """487 (role conflict) comes first: both lists survive, the check is simply sent again."""
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.sped.receive_direct(F2)
    side.send(number=1)
    side.receive(MessageClass.ERROR, number=1)
    assert side.sped.state is S.TENTATIVE
    assert side.send() == (crc(F2), F1)


def test_response_to_a_request_that_is_not_ours_is_no_evidence() -> None:
    side = Side()
    side.receive(SUCCESS, number=99)
    assert side.sped.state is S.TENTATIVE


def test_lack_of_support_seen_after_a_direct_handshake_turns_off() -> None:
    side = Side()
    side.sped.capture_flight([F3], new_flight=True)
    side.sped.handle_handshake_complete(True, DTLS13, 0.0)
    side.receive()
    assert side.sped.state is S.OFF
    assert side.sped.take_pending() == [F3]


# ---- flights


def test_pending_datagrams_take_turns() -> None:
    side = Side()
    side.sped.capture_flight([F2, F2B], new_flight=True)
    assert [side.send()[1] for _ in range(4)] == [F2, F2B, F2, F2B]


def test_the_turn_survives_removal() -> None:
    a, b, c = datagram(1), datagram(2), datagram(3)
    side = Side()
    side.sped.capture_flight([a, b, c], new_flight=True)
    assert side.send()[1] == a
    side.receive(ack=crc(a))
    assert [side.send()[1] for _ in range(3)] == [b, c, b]
    side.receive(ack=crc(c))
    assert side.send()[1] == b
    side.receive(ack=crc(b))
    assert side.send() == (b"", None)


def test_the_turn_starts_over_with_a_new_flight() -> None:
    side = Side()
    side.sped.capture_flight([F1, F2, F2B], new_flight=True)
    side.send()
    side.send()
    side.sped.capture_flight([F3], new_flight=True)
    assert side.send()[1] == F3


def test_a_new_flight_replaces_the_last() -> None:
    side = Side()
    side.sped.capture_flight([F1], new_flight=True)
    side.sped.capture_flight([F2], new_flight=True)
    side.sped.capture_flight([F2B], new_flight=False)
    side.sped.capture_flight([F2B], new_flight=False)
    assert side.sped.pending == (F2, F2B)


def test_unacknowledged_datagrams_ride_again_unchanged() -> None:
    side = Side()
    side.sped.capture_flight([F2, F2B], new_flight=True)
    side.receive(ack=crc(F2))
    assert {side.send()[1] for _ in range(3)} == {F2B}


def test_only_handshake_datagrams_are_captured() -> None:
    side = Side()
    side.sped.capture_flight([b"junk", datagram(1, 60, 0x2F), F1, b""], new_flight=True)
    assert side.sped.pending == (F1,)
    assert side.sped.discards == {SpedDiscard.NOT_HANDSHAKE: 3}


# ---- the end


@pytest.mark.parametrize(("is_client", "version"), [(False, DTLS13), (True, DTLS12)])
def test_the_peers_last_flight_proves_ours(is_client: bool, version: int) -> None:
    side = Side(S.CONFIRMED)
    side.sped.capture_flight([F2], new_flight=True)
    side.sped.handle_handshake_complete(is_client, version, 0.0)
    assert side.sped.state is S.PENDING
    assert side.sped.pending == ()


@pytest.mark.parametrize(("is_client", "version"), [(True, DTLS13), (False, DTLS12)])
def test_our_last_flight_stays_until_acknowledged(is_client: bool, version: int) -> None:
    side = Side(S.CONFIRMED)
    side.sped.capture_flight([F3], new_flight=True)
    side.sped.handle_handshake_complete(is_client, version, 0.0)
    side.receive(ack=b"")
    side.receive()
    assert side.sped.state is S.PENDING
    assert side.send(number=5)[1] == F3
    side.receive(SUCCESS, ack=crc(F3), number=5)
    assert side.sped.state is S.COMPLETE
    assert side.send() == (None, None)


@pytest.mark.parametrize(
    ("is_client", "version", "evidence", "proves"),
    [
        (True, DTLS13, Evidence.DTLS_ACKNOWLEDGEMENT, True),
        (True, DTLS13, Evidence.APPLICATION_DATA, False),
        (True, DTLS13, Evidence.SRTP, False),
        (False, DTLS12, Evidence.APPLICATION_DATA, True),
        (False, DTLS12, Evidence.SRTP, True),
    ],
)
def test_what_proves_the_last_flight(
    is_client: bool, version: int, evidence: Evidence, proves: bool
) -> None:
    """A DTLS 1.3 server may send before it has the last flight, so its data proves nothing."""
    side = Side(S.CONFIRMED)
    side.sped.capture_flight([F3], new_flight=True)
    side.sped.handle_handshake_complete(is_client, version, 0.0)
    side.sped.handle_peer_data(evidence, 0.0)
    assert (side.sped.state is S.COMPLETE) is proves
    assert (side.sped.pending == ()) is proves


@pytest.mark.parametrize("evidence", list(Evidence))
def test_data_proves_when_the_server_is_known_to_wait(evidence: Evidence) -> None:
    side = Side(S.CONFIRMED, SpedConfig(peer_sends_early_data=False))
    side.sped.capture_flight([F3], new_flight=True)
    side.sped.handle_handshake_complete(True, DTLS13, 0.0)
    side.sped.handle_peer_data(evidence, 0.0)
    assert side.sped.state is S.COMPLETE


@pytest.mark.parametrize("state", [S.TENTATIVE, S.CONFIRMED])
@pytest.mark.parametrize("evidence", list(Evidence))
def test_nothing_completes_before_the_local_handshake(
    state: PiggybackState, evidence: Evidence
) -> None:
    side = Side(state)
    side.sped.capture_flight([F1], new_flight=True)
    side.sped.handle_peer_data(evidence, 0.0)
    assert side.sped.state is state
    assert side.sped.pending == (F1,)


def test_message_without_data_does_not_complete_before_the_local_handshake() -> None:
    side = Side(S.CONFIRMED)
    for _ in range(3):
        side.receive(ack=b"")
        side.receive()
        side.receive(data=b"")
    assert side.sped.state is S.CONFIRMED


def test_the_server_acknowledges_the_last_flight_in_its_response() -> None:
    """Complete only once the client sends none: it still needs the acknowledgement."""
    server = Side(S.CONFIRMED)
    server.sped.capture_flight([F2], new_flight=True)
    assert server.receive(ack=crc(F2), data=F3) == [F3]
    server.sped.handle_handshake_complete(False, DTLS13, 0.0)
    assert server.send(SUCCESS) == (crc(F3), None)
    assert server.receive(ack=crc(F2), data=F3) == [F3]  # that response was lost
    assert server.send(SUCCESS) == (crc(F3), None)
    server.receive()
    assert server.sped.state is S.COMPLETE
    assert server.send(SUCCESS) == (None, None)


def test_a_server_that_completes_early_never_acknowledges_in_stun() -> None:
    """libwebrtc as DTLS 1.3 server: its DTLS acknowledgement ends the embedding."""
    client = Side(S.CONFIRMED)
    client.sped.capture_flight([F3], new_flight=True)
    client.sped.handle_handshake_complete(True, DTLS13, 0.0)
    for number in range(1, 4):
        assert client.send(number=number)[1] == F3
        client.receive(SUCCESS, number=number)
    client.sped.handle_peer_data(Evidence.DTLS_ACKNOWLEDGEMENT, 0.0)
    assert client.sped.state is S.COMPLETE
    assert client.send() == (None, None)


def test_late_data_after_the_end_still_reaches_dtls() -> None:
    side = Side(S.COMPLETE)
    assert side.receive(ack=crc(F2), data=F3) == [F3]
    side.sped.receive_direct(F3)
    side.sped.capture_flight([F2], new_flight=True)
    side.sped.handle_handshake_complete(True, DTLS13, 0.0)
    assert side.sped.state is S.COMPLETE
    assert side.sped.pending == ()
    assert side.send() == (None, None)


@pytest.mark.parametrize("state", [S.TENTATIVE, S.CONFIRMED, S.PENDING, S.COMPLETE, S.OFF])
def test_failure_turns_off_and_keeps_nothing(state: PiggybackState) -> None:
    side = Side(state)
    side.sped.capture_flight([F2], new_flight=True)
    side.sped.handle_failed(0.0)
    assert side.sped.state is S.OFF
    assert side.sped.pending == ()
    assert not side.sped.active


def test_transitions_are_traced() -> None:
    side = Side(S.COMPLETE)
    moves = [(d["old"], d["new"]) for _, d in side.trace.named("sped:state_changed")]
    assert moves == [
        ("tentative", "confirmed"),
        ("confirmed", "pending"),
        ("pending", "complete"),
    ]


# ---- budget and sizes


def test_outstanding_bytes_are_limited() -> None:
    """Beyond 14 600 unanswered bytes (RFC 8445 appendix B.1) only an acknowledgement rides."""
    side = Side()
    part = datagram(1, 900)
    side.sped.capture_flight([part], new_flight=True)
    sent = [side.send(number=number) for number in range(1, 21)]
    carried = [data for _, data in sent if data is not None]
    assert sum(len(data) + 104 for data in carried) <= 14_600
    assert len(carried) == 14
    assert all(ack == b"" for ack, _ in sent)
    assert side.send(SUCCESS)[1] == part  # a response is paid for by its request
    side.receive(MessageClass.ERROR, number=1)
    assert side.send(number=30)[1] == part
    assert side.send(number=31)[1] is None


def test_lost_checks_do_not_spend_the_budget_for_ever() -> None:
    side = Side()
    side.sped.capture_flight([datagram(1, 900)], new_flight=True)
    sent = [side.send(number=number)[1] for number in range(1, 100)]
    assert any(data is not None for data in sent[-32:])


@pytest.mark.parametrize(
    ("local", "remote", "ipv6", "relayed", "mtu"),
    [
        ("abcd", "efgh", False, False, 900),
        ("a" * 256, "b" * 251, False, False, 608),
        ("a" * 200, "b" * 8, True, True, 856),
    ],
)
def test_mtu(local: str, remote: str, ipv6: bool, relayed: bool, mtu: int) -> None:
    side = Side()
    assert side.sped.mtu_for(local, remote, ipv6=ipv6, relayed=relayed) == mtu


def test_memory_falls_when_it_is_over() -> None:
    side = Side(S.CONFIRMED)
    side.sped.capture_flight([F2], new_flight=True)
    side.receive(data=F1)
    side.send()
    side.sped.handle_handshake_complete(False, DTLS13, 0.0)
    side.receive(ack=b"")
    assert not (side.sped._pending or side.sped._received or side.sped._checks)
