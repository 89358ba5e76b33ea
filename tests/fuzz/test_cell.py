"""What the servers and relays of a cell read from each other, and a relay from anybody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instant_connect.envelope import OVERHEAD_BYTES, Envelope, decode_envelope, seal_envelope
from instant_connect.handover import Handed, decode_handover, encode_handover
from instant_connect.relay import Relay, RelayConfig, Upstream, parse_upstream
from instant_connect.router import Journey
from tests.fuzz.mutation import Script, mutate
from tests.unit.instant_connect import door
from warp.errors import Discard, InvalidConfig

KEYS = door.RING.relay_keys()
FLOW = door.flow()
HANDED = encode_handover(Handed(door.HELLO, FLOW, Journey(1, 2)))
ENVELOPE = seal_envelope(Envelope(door.CLIENT, door.HELLO, 2), KEYS)
CHECK = door.Knocker().check()
UPSTREAMS = (Upstream(0, 3, ("10.0.0.1", 443)), Upstream(4, 4, ("10.0.0.2", 443)))
RELAY = Relay(KEYS, UPSTREAMS, RelayConfig(max_flows=4, max_unanswered=4), now=door.NOW)


def fuzz_decode_handover(data: bytes) -> None:
    try:
        message = decode_handover(data)
    except Discard:
        return
    assert decode_handover(encode_handover(message)) == message


def fuzz_decode_envelope(data: bytes) -> None:
    """Only what has the keys gets through, and it is what it was."""
    try:
        envelope = decode_envelope(data, door.RING)
    except Discard:
        return
    assert seal_envelope(envelope, KEYS) == data


def fuzz_relay(data: bytes) -> None:
    """The first byte is the client. What goes on is what came, and little is kept."""
    now = door.NOW + len(data) % 40
    client = (f"192.0.2.{data[0] % 16}" if data else "192.0.2.0", 4000)
    passed = RELAY.receive_client(data[1:], client, now)
    if passed is not None:
        assert passed.data.endswith(data[1:])
        assert len(passed.data) <= len(data) - 1 + OVERHEAD_BYTES
    RELAY.receive_upstream(data, len(data) % 2, now)
    RELAY.handle_timer(now)
    RELAY.events()
    assert len(RELAY) <= 8


def fuzz_parse_upstream(data: bytes) -> None:
    try:
        first, last, host, port = parse_upstream(data.decode("utf-8", "replace"))
    except InvalidConfig:
        return
    assert first <= last < 65_536 and 0 < port < 65_536 and host


@given(st.binary(max_size=100))
def test_anything(data: bytes) -> None:
    fuzz_decode_handover(data)
    fuzz_decode_envelope(data)
    fuzz_relay(data)
    fuzz_parse_upstream(data)


@given(st.sampled_from([HANDED, ENVELOPE, CHECK]), st.binary(max_size=20), st.integers(0, 255))
def test_damaged(seed: bytes, script: bytes, client: int) -> None:
    damaged = mutate(seed, Script(script))
    fuzz_decode_handover(damaged)
    fuzz_decode_envelope(damaged)
    fuzz_relay(bytes([client]) + damaged)


@given(st.text("0123456789=-:[]ab.", max_size=30))
def test_upstreams(text: str) -> None:
    fuzz_parse_upstream(text.encode())
