"""A whole peer connection before, during and after its start: damaged real datagrams do no harm.

The real ones come from a start between two of ours. They arrive damaged, from the peer's address
or a stranger's, some with an integrity that holds (a hostile peer that knows the password).
"""

from __future__ import annotations

import contextlib
from functools import lru_cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import Script, mutate, mutate_lines, resign
from tests.scenarios.live_call import OTHER, PASSWORDS, STRANGER, LiveCall
from tests.scenarios.start import PLAIN, Start
from warp.errors import InternalError, MessageTooLarge, UsageError
from warp.peer import ConnectionState, Kind, classify
from warp.sctp.packet import build_packet
from warp.stun import MessageClass, is_stun, parse_message

pytestmark = pytest.mark.slow

STARTS = (
    Start(),
    Start(hybrid=True),
    PLAIN,
    Start(passive=False),
    Start(lite=False, snap=False),
    Start(sped=False, hybrid=True),
)
MAX_INJECTED = 24
SCRIPTS = st.binary(max_size=120)


def fuzz_demux(data: bytes) -> None:
    """Every datagram is one kind, by its first two bytes alone."""
    kind = classify(data)
    assert kind is classify(data[:2])
    assert (kind is Kind.UNKNOWN) or len(data) >= 2


@lru_cache(maxsize=len(STARTS))
def recorded(number: int) -> LiveCall:
    """A start that went well: where real datagrams come from."""
    call = LiveCall(STARTS[number])
    assert call.until_connected()
    return call


def damaged(name: str, said: list[bytes], script: Script, *, knows_password: bool) -> bytes:
    """One of the datagrams that were sent to `name`, damaged."""
    data = said[script.below(len(said))]
    if knows_password and is_stun(data) and script.below(2):
        message = parse_message(data)
        # a request is signed for its receiver, a response for its sender
        request = message.message_class is MessageClass.REQUEST
        return resign(message, PASSWORDS[OTHER[name] if request else name], script)
    return mutate(data, script, said)


def attack(
    call: LiveCall, said: dict[str, list[bytes]], script: Script, *, knows_password: bool = True
) -> None:
    """Inject what the script says, a while, at both ends."""
    for _ in range(MAX_INJECTED):
        if not script:
            return
        choice = script.byte()
        name = "server" if choice & 1 else "client"
        data = damaged(name, said[OTHER[name]], script, knows_password=knows_password)
        call.inject(name, data, STRANGER if choice & 2 else None)
        if choice & 4:
            call.turn()


def fuzz_peer_before_start(data: bytes) -> None:
    """Descriptions are set, nothing has arrived: the damaged ones come first."""
    script = Script(data)
    number = script.below(len(STARTS))
    call = LiveCall(STARTS[number])
    attack(call, recorded(number).said, script)
    call.until_connected()
    assert all(end.state in ConnectionState for end in call.ends.values())


def fuzz_peer_during_start(data: bytes) -> None:
    """Between the real ones of this very start, damaged copies of them."""
    script = Script(data)
    call = LiveCall(STARTS[script.below(len(STARTS))])
    call.turns(1 + script.below(8))
    attack(call, call.said, script)
    call.until_connected()
    assert all(end.state in ConnectionState for end in call.ends.values())


LIVE: dict[int, LiveCall] = {}


def fuzz_peer_after_start(data: bytes) -> None:
    """A call that is up stays up: damage and replays of those without its secrets do not end it."""
    script = Script(data)
    number = script.below(len(STARTS))
    call = LIVE.get(number)
    if call is None or call.now > 3000.0:
        call = LIVE[number] = LiveCall(STARTS[number])
        assert call.until_connected()
    attack(call, call.said, script, knows_password=False)
    assert call.connected
    for said in call.said.values():
        del said[40:]


def fuzz_hostile_peer(data: bytes) -> None:
    """The authenticated peer itself sends damage: SCTP, RTP and RTCP under the right keys."""
    script = Script(data)
    call = LiveCall(STARTS[script.below(len(STARTS))])
    assert call.until_connected()
    for _ in range(MAX_INJECTED):
        if not script:
            break
        name = "server" if script.below(2) else "client"
        datagram = sealed(call, OTHER[name], name, script)
        if datagram is not None:
            call.inject(name, datagram)
    call.turns(20)


def sealed(call: LiveCall, sender: str, receiver: str, script: Script) -> bytes | None:
    """What a peer with keys could send: raw or nearly right, protected as it should be."""
    transport, kind = call.ends[sender]._bundle.transport, script.below(4)
    if transport.dtls is None or transport.srtp is None or not transport.dtls.can_send:
        return None
    payload = script.take(200)
    try:
        if kind == 0:
            transport.dtls.send_data(payload, call.now)
            return transport.dtls.datagrams_to_send(call.now)[-1]
        if kind == 1:
            tag = call.ends[receiver]._bundle.data._association._local_tag
            packet = build_packet(5000, 5000, tag, payload, zero_checksum=False)
            transport.dtls.send_data(packet, call.now)
            return transport.dtls.datagrams_to_send(call.now)[-1]
        if kind == 2:
            return transport.srtp.protect_rtp(b"\x90\x6f" + payload)
        return transport.srtp.protect_rtcp(b"\x81" + bytes((200 + script.below(8),)) + payload)
    except (MessageTooLarge, InternalError, UsageError):
        return None  # our own end refuses to send it


def fuzz_remote_description(data: bytes) -> None:
    """A damaged offer or answer, of the first negotiation or a second one.

    It raises `UsageError` and has changed nothing, so that the real one is still welcome; or it
    is in force.
    """
    script = Script(data)
    call = LiveCall(STARTS[script.below(len(STARTS))], signalled=bool(script.below(2)))
    client, server, now = call.ends["client"], call.ends["server"], call.now
    offer = client.create_offer(now)
    client.set_local_description("offer", offer, now)
    if script.below(2):
        wrong = mutate_lines(offer, script)
        with contextlib.suppress(UsageError):
            server.set_remote_description("offer", wrong, now)
    # an offer that was not answered may be replaced
    server.set_remote_description("offer", offer, now)
    answer = server.create_answer(now)
    server.set_local_description("answer", answer, now)
    wrong = mutate_lines(answer, script)
    try:
        client.set_remote_description("answer", wrong, now)
    except UsageError:
        client.set_remote_description("answer", answer, now)
        assert call.until_connected()
    call.until_connected()


def fuzz_remote_candidate(data: bytes) -> None:
    """A trickled line: taken, or `UsageError`; the call comes up all the same."""
    script = Script(data)
    call = LiveCall(STARTS[0])
    for end in call.ends.values():
        line = b"candidate:1 1 udp 1 192.0.2.9 9 typ host generation 0"
        text = mutate(line, script).decode("utf-8", "replace")
        try:
            end.add_remote_candidate(text, call.now)
        except UsageError:
            continue
    assert call.until_connected()


@given(st.binary(max_size=8))
def test_demux(data: bytes) -> None:
    fuzz_demux(data)


@settings(max_examples=40)
@given(SCRIPTS)
def test_before_the_start(data: bytes) -> None:
    fuzz_peer_before_start(data)


@settings(max_examples=40)
@given(SCRIPTS)
def test_during_the_start(data: bytes) -> None:
    fuzz_peer_during_start(data)


@settings(max_examples=60)
@given(SCRIPTS)
def test_after_the_start(data: bytes) -> None:
    fuzz_peer_after_start(data)


@settings(max_examples=40)
@given(SCRIPTS)
def test_a_hostile_peer(data: bytes) -> None:
    fuzz_hostile_peer(data)


@settings(max_examples=40)
@given(SCRIPTS)
@example(b"")
def test_remote_descriptions(data: bytes) -> None:
    fuzz_remote_description(data)


@settings(max_examples=30)
@given(SCRIPTS)
def test_remote_candidates(data: bytes) -> None:
    fuzz_remote_candidate(data)
