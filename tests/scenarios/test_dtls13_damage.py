"""Every byte of every datagram of a handshake, damaged, in front of its clean copy.

What is protected: the damage is dropped and the handshake goes on as if it had not come. What is
plaintext anyone can damage or forge: there the handshake may fail or stall until its deadline,
but it never raises, and never completes with different keys.
"""

from __future__ import annotations

import pytest

from tests.unit.dtls.ends import THIRTEEN, client, server
from warp.dtls import DtlsConnection, DtlsState

BITS = (0x01, 0x80)


def handshake(damage: tuple[int, int, int] | None = None) -> tuple[DtlsConnection, DtlsConnection]:
    """Run a handshake; `damage` = (datagram number, byte, mask): a spoilt copy comes first."""
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    number = 0
    for _ in range(8):
        quiet = True
        for source, target in ((one, two), (two, one)):
            for datagram in source.datagrams_to_send(0.0):
                quiet = False
                if damage is not None and number == damage[0]:
                    spoilt = bytearray(datagram)
                    spoilt[damage[1]] ^= damage[2]
                    target.receive_datagram(bytes(spoilt), 0.0)
                target.receive_datagram(datagram, 0.0)
                number += 1
        if quiet:
            break
    return one, two


def sizes() -> list[int]:
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    found = []
    for _ in range(4):
        for source, target in ((one, two), (two, one)):
            for datagram in source.datagrams_to_send(0.0):
                found.append(len(datagram))
                target.receive_datagram(datagram, 0.0)
    return found


SIZES = sizes()
HELLO_END = 13 + 12 + 86  # the plaintext part of the server's datagram


def end_of_time(*ends: DtlsConnection) -> None:
    for end in ends:
        for _ in range(40):
            deadline = end.get_timer()
            if deadline is None:
                break
            end.handle_timer(deadline)
            assert end.get_timer() is None or end.get_timer() > deadline


def test_shape():
    assert len(SIZES) == 4  # hello, answer, last flight, ACK


@pytest.mark.slow
@pytest.mark.parametrize("mask", BITS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_damage_to_protected_bytes_is_as_if_it_had_not_come(number, mask):
    start = HELLO_END if number == 1 else 0
    for position in range(start, SIZES[number]):
        one, two = handshake((number, position, mask))
        assert one.state is two.state is DtlsState.CONNECTED, position
        assert not one.flight_outstanding


@pytest.mark.slow
@pytest.mark.parametrize("mask", BITS)
@pytest.mark.parametrize("number", [0, 1])
def test_damage_to_plaintext_never_raises_and_never_confuses(number, mask):
    survived = 0
    stop = SIZES[0] if number == 0 else HELLO_END
    for position in range(stop):
        one, two = handshake((number, position, mask))
        if one.state is two.state is DtlsState.CONNECTED:
            survived += 1
            assert one.srtp_keying_material() == two.srtp_keying_material()
        else:
            end_of_time(one, two)
            assert DtlsState.CONNECTED not in (one.state, two.state)
    # headers, lengths and other things that cannot be right: the clean copy still gets through
    assert survived >= 25


@pytest.mark.slow
def test_truncation_and_garbage_behind():
    for number, size in enumerate(SIZES):
        for cut in range(0, size, 7):
            one, two = client(**THIRTEEN), server(**THIRTEEN)
            one.start(0.0)
            count = 0
            for _ in range(6):
                for source, target in ((one, two), (two, one)):
                    for datagram in source.datagrams_to_send(0.0):
                        if count == number:
                            target.receive_datagram(datagram[:cut], 0.0)
                            datagram += b"\xff" * 20
                        target.receive_datagram(datagram, 0.0)
                        count += 1
            assert one.state is two.state is DtlsState.CONNECTED, (number, cut)
