"""Tickets, ufrags and the texts of Instant Connect on any bytes: a value or a refusal, no harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instant_connect.attempt import decode_attempt, encode_attempt, make_attempt
from instant_connect.bundle import parse_bundle
from instant_connect.client import Wallet, parse_wallet
from instant_connect.decisions import Answered, Arrived, Dropped, Queued
from instant_connect.keyring import Epoch, Keyring, parse_keyring, parse_relay_keys
from instant_connect.ticket import TICKET_BYTES, Grant, Route, peek_route, seal_ticket
from instant_connect.ufrag import compose_ufrag, decode_ufrag, open_ufrag, peek_ufrag_route
from tests.fuzz.test_stun import reseal
from tests.unit.instant_connect import door
from tests.unit.instant_connect.door import make_host
from tests.vectors import instant_connect as vector
from warp.entropy import SeededEntropy
from warp.errors import Discard, InvalidConfig

NOW = 1_790_000_000.0
RING = Keyring(1, Epoch(0, bytes(32), vector.CERTIFICATE))
TICKET = seal_ticket(RING.current, Route(1), Grant(int(NOW) + 60), SeededEntropy(1))
ATTEMPT = make_attempt(vector.FINGERPRINT, 111, SeededEntropy(2), sctp=(1, 2))
SEEDS = [
    compose_ufrag(TICKET, ATTEMPT),
    vector.UFRAG,
    RING.to_text(),
    RING.relay_keys().to_text(),
]
BUNDLE = make_host().bundle(door.NOW)
WALLET = Wallet()
WALLET.put(BUNDLE, NOW)
TEXTS = [
    *SEEDS[2:],
    BUNDLE.to_json(),
    WALLET.to_text(NOW, NOW, vector.CERTIFICATE),
]


def fuzz_open_ufrag(data: bytes) -> None:
    """What opens composes again to the same text: nobody has two names."""
    text = data.decode("latin-1")
    for keys in (RING, RING.relay_keys()):
        try:
            peek_ufrag_route(text, keys)
            peek_route(data.ljust(17, b"\0"), keys)
        except Discard:
            pass
    try:
        raw = decode_ufrag(text)
        opened = open_ufrag(text, RING, NOW)
    except Discard:
        return
    assert opened.ticket.raw == raw[:TICKET_BYTES]
    assert compose_ufrag(opened.ticket.raw, opened.attempt) == text


def fuzz_decode_attempt(data: bytes) -> None:
    try:
        attempt = decode_attempt(data)
    except Discard:
        return
    assert encode_attempt(attempt) == data


def fuzz_parse_texts(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for parse in (parse_keyring, parse_relay_keys, parse_bundle):
        try:
            parse(text)
        except InvalidConfig as error:
            assert len(str(error)) < 200
    try:
        parse_wallet(text, NOW, NOW)
    except InvalidConfig as error:
        assert len(str(error)) < 200


HOST = make_host()
KNOCKERS = [door.Knocker(seed) for seed in range(4)]
CHECKS = [
    KNOCKERS[0].check(),
    KNOCKERS[1].check(door.CONTROLLING, door.PRIORITY, door.SPED_HELLO),
    KNOCKERS[2].check(door.CONTROLLING, door.NOMINATED),
    door.HELLO,
]


def fuzz_receive_unknown(data: bytes) -> None:
    """The first byte is the client; whatever comes, little is said and little is kept."""
    now = door.NOW + len(data) % 7
    flow = door.flow(data[0] % 8 if data else 0)
    decision = HOST.receive_unknown(data[1:], flow, now)
    if isinstance(decision, Arrived):
        for datagram in decision.datagrams:
            decision.session.peer.receive_datagram(datagram, flow, now)
        sent = sum(len(out) for out, _ in decision.session.peer.datagrams_to_send(now))
        assert sent <= 3 * sum(map(len, decision.datagrams))
        HOST.sessions.end(decision.session)
    elif isinstance(decision, Answered):
        assert len(decision.datagram) <= len(data)
    else:
        assert isinstance(decision, Dropped | Queued)
    stats = HOST.stats()
    assert stats["sessions"] == stats["half_open"] == 0
    assert stats["waiting"] <= len(KNOCKERS)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_ufrags(data: bytes) -> None:
    fuzz_open_ufrag(data)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4), st.integers(0, 8))
def test_damaged_ufrags(changes: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(SEEDS[0].encode())
    for position, value in changes:
        damaged[position % len(damaged)] = value
    fuzz_open_ufrag(bytes(damaged[: len(damaged) - cut]))


@given(st.binary(max_size=120), st.integers(0, 3), st.integers(96, 127))
def test_attempts(data: bytes, flags: int, payload_type: int) -> None:
    fuzz_decode_attempt(data)
    fuzz_decode_attempt(bytes([flags, payload_type]) + data)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_texts(data: bytes, at: int) -> None:
    fuzz_parse_texts(data)
    for seed in TEXTS:
        fuzz_parse_texts(seed.encode()[:at] + data + seed.encode()[at + len(data) :])


@given(
    st.sampled_from(CHECKS),
    st.integers(0, 255),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4),
    st.booleans(),
)
def test_first_datagrams(
    seed: bytes, client: int, changes: list[tuple[int, int]], sealed: bool
) -> None:
    damaged = bytearray(seed)
    for position, value in changes:
        damaged[position % len(damaged)] = value
    data = reseal(bytes(damaged)) if sealed else bytes(damaged)
    fuzz_receive_unknown(bytes([client]) + data)


@given(st.binary(max_size=300))
def test_any_datagrams(data: bytes) -> None:
    fuzz_receive_unknown(data)
