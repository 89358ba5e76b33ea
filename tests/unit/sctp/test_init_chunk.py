"""The INIT chunk that descriptions carry (RFC 9260 section 3.3.2, draft-hancke-tsvwg-snap 4)."""

from __future__ import annotations

import base64
from itertools import product

import pytest

from tests.unit.sctp.support import init_chunk
from warp.entropy import SeededEntropy, SystemEntropy
from warp.errors import Discard
from warp.sctp import InitChunk, SctpConfig, SctpDiscard, local_init, parse_init
from warp.sctp.init_chunk import parse_init_body


class Zeros:
    """Entropy whose first answers are 0."""

    def __init__(self, zeros: int) -> None:
        self.zeros = zeros

    def random_bytes(self, length: int) -> bytes:
        self.zeros -= 1
        return bytes(length) if self.zeros >= 0 else b"\x01" * length


def test_a_generated_value_is_what_a_description_may_carry() -> None:
    value = local_init(SctpConfig(), SystemEntropy()).to_bytes()
    assert base64.b64decode(base64.b64encode(value), validate=True) == value
    assert value[0] == 1
    assert value[1] == 0
    assert int.from_bytes(value[2:4], "big") == len(value)
    init = parse_init(value)
    assert init.initiate_tag != 0
    assert init.initial_tsn != 0
    assert init.a_rwnd == 5 * 1024 * 1024
    assert init.outbound_streams == init.inbound_streams == 65535


def test_neither_tag_nor_tsn_is_ever_0() -> None:
    init = local_init(SctpConfig(), Zeros(4))
    assert init.initiate_tag == init.initial_tsn == 0x01010101


@pytest.mark.parametrize(("interleaving", "zero"), list(product((False, True), repeat=2)))
def test_generated_parameters_follow_the_config(interleaving: bool, zero: bool) -> None:
    config = SctpConfig(interleaving=interleaving, zero_checksum=zero)
    init = local_init(config, SeededEntropy(1))
    extensions = b"\x82\xc0\x40\xc2" if interleaving else b"\x82\xc0"
    expected = [(0xC000, b""), (0x8001, b"\0\0\0\x01"), (0x8008, extensions)]
    assert list(init.parameters) == [p for p in expected if zero or p[0] != 0x8001]
    assert init.capabilities == (True, True, interleaving, zero)


@pytest.mark.slow
def test_generated_values_differ() -> None:
    entropy = SystemEntropy()
    made = [local_init(SctpConfig(), entropy) for _ in range(10_000)]
    # 10 000 draws of 32 bits meet once in 86 such runs by chance; ten times never
    assert len({init.initiate_tag for init in made}) > 9_990
    assert len({init.initial_tsn for init in made}) > 9_990
    assert len({init.to_bytes() for init in made}) == 10_000


@pytest.mark.parametrize(
    ("forward", "extensions", "shared"),
    [
        (True, (0x82,), (True, True, False, False)),
        (False, (0x82, 0xC0), (True, True, False, False)),
        (False, (0x82,), (False, True, False, False)),
        (True, (), (True, False, False, False)),
        (True, (0x40,), (True, False, False, False)),
        (True, (0x40, 0xC2), (True, False, True, False)),
    ],
)
def test_capabilities(forward: bool, extensions: tuple[int, ...], shared: tuple[bool, ...]) -> None:
    init = init_chunk(forward=forward, extensions=extensions)
    assert parse_init(init.to_bytes()).capabilities == shared


@pytest.mark.parametrize("value", [b"", b"\0\0\0\x02", b"\0\0\0\x01\0\0\0\0", b"\0\x01"])
def test_another_error_detection_method_is_not_ours(value: bytes) -> None:
    init = InitChunk(1, 1500, 1, 1, 1, ((0x8001, value),))
    assert not parse_init(init.to_bytes()).capabilities.zero_checksum


@pytest.mark.parametrize("length", [0, 1, 3, 4, 19])
def test_truncated_values_are_refused(length: int) -> None:
    with pytest.raises(Discard) as caught:
        parse_init(init_chunk().to_bytes()[:length])
    assert caught.value.reason is SctpDiscard.INVALID_INIT


def test_padding_up_to_three_zero_bytes_is_accepted() -> None:
    raw = init_chunk().to_bytes()
    for pad in range(4):
        assert parse_init(raw + bytes(pad)) == init_chunk()
    for tail in (bytes(4), b"\0\x01"):
        with pytest.raises(Discard):
            parse_init(raw + tail)


def test_values_over_2048_bytes_are_refused_unread() -> None:
    big = InitChunk(1, 1500, 1, 1, 1, ((0x8002, bytes(1500)), (0x8003, bytes(600))))
    with pytest.raises(Discard) as caught:
        parse_init(big.to_bytes())
    assert "bytes" in str(caught.value)


def test_flags_are_ignored() -> None:
    raw = bytearray(init_chunk().to_bytes())
    raw[1] = 0xFF
    assert parse_init(bytes(raw)) == init_chunk()


@pytest.mark.parametrize("outbound", [0, 1])
def test_no_streams_are_refused(outbound: int) -> None:
    with pytest.raises(Discard):
        parse_init(InitChunk(1, 1500, outbound, 1 - outbound, 1).to_bytes())


def test_smallest_legal_value() -> None:
    assert parse_init(InitChunk(1, 1500, 1, 1, 0).to_bytes()).initial_tsn == 0


@pytest.mark.parametrize(
    ("kind", "refused", "later_read", "reported"),
    [
        (0x3FFF, True, False, False),
        (0x7FFF, True, False, True),
        (0xBFFF, False, True, False),
        (0xFFFF, False, True, True),
    ],
)
def test_unknown_parameters_go_by_their_top_bits(
    kind: int, refused: bool, later_read: bool, reported: bool
) -> None:
    raw = InitChunk(1, 1500, 1, 1, 1, ((kind, b"abc"), (0xC000, b""))).to_bytes()
    if refused:
        with pytest.raises(Discard):
            parse_init(raw)
    else:
        parse_init(raw)
    # in a packet the INIT stands, and what asks to be reported is
    init = parse_init_body(raw[4:])
    assert init.capabilities.partial_reliability is later_read
    assert init.unrecognized == ((kind.to_bytes(2, "big") + b"\0\x07abc",) if reported else ())
