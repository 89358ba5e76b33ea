"""What strangers can do to a call: nothing.

Unauthenticated datagrams are neither answered nor kept; an address that has not shown that it is
there gets at most three times what it sent; what somebody in the middle copies, breaks or makes
up leaves the call running; and nobody is heard before it is known who speaks.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.scenarios import forge
from tests.scenarios.start import (
    CERTIFICATES,
    OPUS,
    WARP,
    Call,
    Start,
    begin,
    connect,
    ended,
    established,
    heard,
    meddle,
    meet,
    open_channel,
    show,
)
from tests.scenarios.test_start_loss import COMBINATIONS
from tests.scenarios.test_start_table import DTLS12, DTLS13, name
from tests.sim.network import Transit
from tests.sim.pair import CLIENT, SERVER, Pair
from warp.contract import Address, Flow
from warp.dtls import DtlsState
from warp.errors import FingerprintMismatch, HandshakeTimedOut, NoPath, PeerAlerted, PeerError
from warp.peer import AudioReceived, ConnectionState, PeerConnection
from warp.stun import MessageClass

HYBRID = replace(WARP, hybrid=True)
DIRECT = replace(WARP, sped=False, snap=False)
STRANGER: Address = forge.ADDRESS
AT_SERVER = Flow(SERVER, CLIENT)
FROM_STRANGER = Flow(SERVER, STRANGER)
HELLO_INSIDE = [(forge.ACK, b""), (forge.DATA, forge.foreign_hello())]


def waiting_server(start: Start = WARP) -> tuple[PeerConnection, Pair]:
    """A server that has answered an offer and has not heard from its client yet."""
    pair = connect(start)
    return pair.server.endpoint, pair


# unauthenticated ----------------------------------------------------------------------------------

UNAUTHENTIC = {
    "wrong password": forge.request(HELLO_INSIDE, password="password-of-somebody-x"),
    "the client's password": forge.request(HELLO_INSIDE, password=forge.CLIENT_PASSWORD),
    "unknown ufrag": forge.request(HELLO_INSIDE, username=b"none:clie"),
    "unknown peer": forge.request(HELLO_INSIDE, username=b"serv:none"),
    "no USERNAME": forge.request(HELLO_INSIDE, username=None),
    "no integrity": forge.request(HELLO_INSIDE, password=None),
    "indication": forge.request(HELLO_INSIDE, message_class=MessageClass.INDICATION),
    "success response": forge.request(HELLO_INSIDE, message_class=MessageClass.SUCCESS),
    "error response": forge.request(HELLO_INSIDE, message_class=MessageClass.ERROR),
    "bare hello": forge.foreign_hello(),
    "bare hello of 1.2": forge.foreign_hello(version=DTLS12),
    "alert": bytes.fromhex("15fefd000000000000000000020228"),
    "application data": bytes([0x2F, 0, 1, 0, 40]) + bytes(40),
    "RTP": b"\x80\x6f" + bytes(50),
    "RTCP": b"\x80\xc9" + bytes(50),
    "nothing": b"",
}


@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
@pytest.mark.parametrize("datagram", UNAUTHENTIC.values(), ids=UNAUTHENTIC.keys())
def test_a_stranger_gets_no_answer(datagram: bytes, lite: bool) -> None:
    server, _ = waiting_server(replace(WARP, lite=lite))
    server.datagrams_to_send(1000.0)  # a full agent's own checks
    for flow in (FROM_STRANGER, AT_SERVER):
        server.receive_datagram(datagram, flow, 1000.0)
        assert server.datagrams_to_send(1000.0) == []
    transport = server._bundle.transport
    assert transport is not None and transport.dtls is not None
    assert transport.dtls.state is DtlsState.IDLE
    assert transport.ice.flow is None
    assert not transport.flows
    assert len(transport.held_media) == 0
    assert server.stats()["flow"] is None


@pytest.mark.slow
def test_strangers_take_no_memory() -> None:
    server, _ = waiting_server()
    crowd = [(f"198.51.{n % 250}.{n // 250 + 1}", 1024 + n) for n in range(300)]

    def visit() -> None:
        for address in crowd:
            for datagram in UNAUTHENTIC.values():
                server.receive_datagram(datagram, Flow(SERVER, address), 1000.0)
            server.datagrams_to_send(1000.0)

    visit()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    visit()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 4096


@pytest.mark.parametrize("start", [WARP, HYBRID, DIRECT], ids=name)
def test_a_call_starts_amid_strangers(start: Start) -> None:
    call = begin(start)
    for datagram in UNAUTHENTIC.values():
        call.pair.inject(datagram, STRANGER, SERVER)
    assert call.until_up()
    for datagram in UNAUTHENTIC.values():
        call.pair.inject(datagram, STRANGER, SERVER)
        call.pair.inject(datagram, STRANGER, CLIENT)
    assert call.works()
    assert not [step for step in call.pair.ladder if step.receiver == "nowhere"]


# three times ------------------------------------------------------------------------------------


def ledger(pair: Pair, end: float) -> Iterator[tuple[int, int]]:
    """Bytes that the server had received and sent, after each of its datagrams before `end`."""
    arrivals = sorted(
        (at, step.size) for step in pair.ladder if step.sender == "client" for at in step.arrivals
    )
    sent = 0
    for step in pair.sent("server"):
        if step.time >= end:
            return
        sent += step.size
        yield sum(size for at, size in arrivals if at <= step.time), sent


LITE = [start for start in COMBINATIONS if start.lite]


@pytest.mark.parametrize("start", LITE, ids=name)
def test_three_times_what_a_client_sent(start: Start) -> None:
    """Until its last flight is in, which only somebody at that address can make."""
    for seed in range(4):
        call = begin(replace(start, loss=0.15 if seed else 0.0, seed=seed), frame_s=0.02)
        assert call.until_up(), show(call.pair)
        connected = call.server.stats()["milestones"]["dtls_connected"]
        pairs = list(ledger(call.pair, connected))
        assert pairs
        assert all(sent <= 3 * received for received, sent in pairs)


@pytest.mark.parametrize("start", LITE, ids=name)
def test_three_times_what_a_mute_client_sent(start: Start) -> None:
    """Its first checks get through, and nothing of the answers: for ever."""
    call = begin(start, frame_s=0.02)
    call.pair.down.down = True
    call.pair.run_for(8.0)
    pairs = list(ledger(call.pair, float("inf")))
    assert all(sent <= 3 * received for received, sent in pairs)


@pytest.mark.parametrize("start", LITE, ids=name)
def test_three_times_what_a_spoofed_client_sent(start: Start) -> None:
    """Somebody who saw one first flight repeats it as from a third party's address."""
    call = begin(start, frame_s=0.02)
    call.pair.run_for(0.0)
    stolen = [step.data for step in call.pair.sent("client")]
    call.pair.up.down = True
    heard_bytes = 0
    for _ in range(40):
        for datagram in stolen:
            call.server.receive_datagram(datagram, FROM_STRANGER, call.pair.now)
            heard_bytes += len(datagram)
        call.pair.run_for(0.03)
        reflected = sum(s.size for s in call.pair.ladder if s.receiver == "nowhere")
        assert reflected <= 3 * heard_bytes
    assert heard_bytes


@pytest.mark.parametrize("start", [s for s in COMBINATIONS if not s.lite], ids=name)
def test_a_full_server_pays_for_its_checks_only(start: Start) -> None:
    """RFC 8445 paces checks; everything else is rationed until one of them is answered."""
    call = begin(start, frame_s=0.02)
    call.pair.down.down = True
    call.pair.run_for(4.0)
    rationed = [
        step
        for step in call.pair.sent("server")
        if step.kind != "stun" or step.data[:2] != b"\x00\x01"
    ]
    arrivals = [(at, s.size) for s in call.pair.sent("client") for at in s.arrivals]
    sent = 0
    for step in rationed:
        sent += step.size
        assert sent <= 3 * sum(size for at, size in arrivals if at <= step.time)


# the ClientHello race -----------------------------------------------------------------------------


@pytest.mark.parametrize("start", COMBINATIONS, ids=name)
def test_a_foreign_client_at_another_address(start: Start) -> None:
    """It is first, it insists, and it is not even refused: ICE does not know it."""
    call = begin(start)
    for version in (DTLS12, DTLS13):
        for seed in range(3):
            hello = forge.foreign_hello(seed=seed, version=version)
            for moment in (0.0, 0.03, 0.08, 0.13, 0.2):
                call.pair.at(
                    call.began + moment,
                    lambda now, hello=hello: call.pair.inject(hello, STRANGER, SERVER),
                )
    assert call.until_up()
    assert not [step for step in call.pair.ladder if step.receiver == "nowhere"]
    assert call.works()


@pytest.mark.parametrize("moment", [0.0, 0.049, 0.051, 0.1, 0.149, 0.16])
@pytest.mark.parametrize("start", [WARP, HYBRID, replace(WARP, lite=False)], ids=name)
def test_a_foreign_client_at_the_right_address(start: Start, moment: float) -> None:
    """With SPED the hello comes in a check: before that nobody's counts, afterwards no other."""
    call = begin(start)
    hello = forge.foreign_hello()
    call.pair.at(
        call.began + moment,
        lambda now: call.server.receive_datagram(hello, AT_SERVER, now),
    )
    assert call.until_up(), show(call.pair)
    assert call.works()


def test_a_race_that_is_lost_ends_and_tells_nobody_anything() -> None:
    """Without SPED a hello is anybody's; whose certificate it is decides in the end."""
    call = begin(replace(DIRECT, version=DTLS13, connect_timeout_s=5.0))
    hello = forge.foreign_hello()
    call.pair.at(call.began + 0.14, lambda now: call.server.receive_datagram(hello, AT_SERVER, now))
    call.until_up(timeout_s=10.0)
    if call.server.state is not ConnectionState.CONNECTED:
        assert isinstance(ended(call.pair.server)[0], (HandshakeTimedOut, PeerAlerted))
        assert not heard(call.pair.client)
        assert not heard(call.pair.server)


# copies, damage, junk -----------------------------------------------------------------------------


def flip(data: bytes, luck: random.Random) -> bytes:
    index = luck.randrange(len(data))
    return data[:index] + bytes([data[index] ^ 1 << luck.randrange(8)]) + data[index + 1 :]


def cut(data: bytes, luck: random.Random) -> bytes:
    return data[: luck.randrange(len(data))]


def grow(data: bytes, luck: random.Random) -> bytes:
    return data + luck.randbytes(luck.randrange(1, 40))


def noise(data: bytes, luck: random.Random) -> bytes:
    return data[:1] + luck.randbytes(len(data) - 1)


HANDSHAKES = [start for start in COMBINATIONS if start.snap]
"""What SCTP does afterwards makes no difference to damage."""
DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [flip, cut, grow, noise]
FIRST = 12


def damaged(start: Start, side: str, index: int, luck: random.Random, *, before: bool) -> Call:
    """A call in which damaged copies of one datagram arrive beside the clean one."""
    call = begin(start, frame_s=0.1)
    count = 0

    def act(sender: str, data: bytes, copies: list[Transit]) -> list[Transit]:
        nonlocal count
        if sender == side:
            count += 1
            if count == index + 1:
                clean = copies[0]
                at = clean.arrives_at + (-0.001 if before else 0.001)
                bad = [
                    Transit(damage(data, luck), clean.source, clean.destination, at)
                    for damage in DAMAGES
                    for _ in range(3)
                ]
                return [*copies, *bad]
        return copies

    meddle(call.pair, act)
    return call


@pytest.mark.slow
@pytest.mark.parametrize("start", HANDSHAKES, ids=name)
def test_damaged_copies_come_to_nothing(start: Start) -> None:
    for side in ("client", "server"):
        for index in range(FIRST):
            luck = random.Random(f"{side}{index}")
            call = damaged(start, side, index, luck, before=False)
            assert call.until_up(), f"{side} {index}\n{show(call.pair)}"


@pytest.mark.slow
@pytest.mark.parametrize("start", HANDSHAKES, ids=name)
def test_damaged_copies_that_are_first(start: Start) -> None:
    """Checks, and what rides in them, are authentic; bare plaintext of DTLS is not.

    There a forgery that wins the race may end the attempt, and then with a reason.
    """
    authentic = start.sped and start.version is DTLS13 and (start.passive or not start.lite)
    for side in ("client", "server"):
        for index in range(FIRST):
            luck = random.Random(f"{side}{index}")
            call = damaged(replace(start, connect_timeout_s=4.0), side, index, luck, before=True)
            up = call.until_up(timeout_s=6.0)
            if up:
                continue
            errors = ended(call.pair.client) + ended(call.pair.server)
            assert not authentic or start.hybrid, f"{side} {index}\n{show(call.pair)}"
            assert errors and isinstance(errors[0], (PeerError, HandshakeTimedOut))


@pytest.mark.parametrize("start", [WARP, HYBRID, replace(WARP, lite=False)], ids=name)
def test_every_datagram_of_a_start_replayed(start: Start) -> None:
    """All of it again, backwards and from elsewhere too, in the middle of the call."""
    call = begin(start)
    assert call.until_up()
    call.pair.run_for(1.0)
    recorded = list(call.pair.ladder)
    for step in [*recorded, *reversed(recorded)]:
        here, there = (CLIENT, SERVER) if step.sender == "client" else (SERVER, CLIENT)
        call.pair.inject(step.data, here, there)
        call.pair.inject(step.data, STRANGER, there)
    assert call.works()
    assert call.client.state is call.server.state is ConnectionState.CONNECTED
    texts = call.messages(call.pair.server)
    assert len(texts) == len(set(texts))


@pytest.mark.slow
def test_junk_with_every_first_byte() -> None:
    luck = random.Random(1)
    call = established()
    for first in range(256):
        for size in (0, 1, 11, 12, 19, 60, 1400):
            junk = bytes([first]) + luck.randbytes(size)
            call.pair.inject(junk, CLIENT, SERVER)
            call.pair.inject(junk, SERVER, CLIENT)
            call.pair.inject(junk, STRANGER, SERVER)
    assert call.works()
    assert call.client.state is call.server.state is ConnectionState.CONNECTED


def test_junk_with_every_first_byte_during_the_start() -> None:
    luck = random.Random(2)
    for moment in (0.0, 0.02, 0.07, 0.12):
        call = begin(WARP)
        junk = [bytes([first]) + luck.randbytes(40) for first in range(256)]

        def throw(now: float, call: Call = call, junk: list[bytes] = junk) -> None:
            for data in junk:
                call.server.receive_datagram(data, AT_SERVER, now)
                call.client.receive_datagram(data, Flow(CLIENT, SERVER), now)

        call.pair.at(call.began + moment, throw)
        assert call.until_up(), show(call.pair)


# who is heard, and when --------------------------------------------------------------------------


def test_early_media_is_heard_once_the_server_is_known() -> None:
    """It leaves at 0.5, overtakes the flight, waits, and none of it is lost."""
    call = begin(WARP, frame_s=0.02)

    def slow_flight(sender: str, data: bytes, copies: list[Transit]) -> list[Transit]:
        if sender == "server" and (data[0] < 4 or 20 <= data[0] <= 63):
            for copy in copies:
                copy.arrives_at += 0.07
        return copies

    meddle(call.pair, slow_flight)
    assert call.until_up()
    sent = [step for step in call.pair.sent("server", "rtp") if step.arrivals]
    early = [step for step in sent if step.arrivals[0] < call.began + 0.17]
    assert len(early) >= 3
    first_heard, event = call.pair.client.named(AudioReceived)[0]
    known = call.client.stats()["milestones"]["dtls_connected"]
    assert min(s.arrivals[0] for s in early) < known <= first_heard
    assert not any(frame.gap for frame in event.frames)
    call.pair.run_for(0.5)
    frames = [f for _, e in call.pair.client.named(AudioReceived) for f in e.frames]
    assert [f.gap for f in frames] == [False] * len(frames)
    assert len(frames) >= len(early)
    sequences = [frame.sequence for frame in frames]
    assert sequences == list(range(sequences[0], sequences[0] + len(frames)))


def impostor(start: Start, *, at_server: bool) -> Call:
    """One end has another certificate than its description says."""
    pair = meet(start)
    ends = [pair.client, pair.server]
    node = ends[1] if at_server else ends[0]
    true = CERTIFICATES[node.name].fingerprint()
    false = CERTIFICATES["stranger"].fingerprint()
    client, server = pair.client.endpoint, pair.server.endpoint
    now = pair.now
    offer = client.create_offer(now)
    client.set_local_description("offer", offer, now)
    server.set_remote_description("offer", offer.replace(true, false), now)
    answer = server.create_answer(now)
    server.set_local_description("answer", answer, now)
    client.set_remote_description("answer", answer.replace(true, false), now)
    open_channel(start, pair)
    return Call(start, pair)


@pytest.mark.parametrize("at_server", [True, False], ids=["server", "client"])
@pytest.mark.parametrize("start", COMBINATIONS, ids=name)
def test_another_certificate_than_promised(start: Start, at_server: bool) -> None:
    call = impostor(start, at_server=at_server)
    assert not call.until_up(timeout_s=5.0)
    deceived = call.pair.client if at_server else call.pair.server
    other = call.pair.server if at_server else call.pair.client
    [error] = ended(deceived)
    assert isinstance(error, FingerprintMismatch)
    assert deceived.endpoint.state is ConnectionState.FAILED
    assert not heard(deceived) and not call.messages(deceived)
    # the deceived sent nothing that is meant for the one it knows
    assert all(isinstance(e, PeerAlerted) for e in ended(other))
    assert not call.messages(other)
    if at_server:
        assert not heard(other)


def test_early_media_of_an_impostor_is_never_heard() -> None:
    call = impostor(WARP, at_server=True)
    call.until_up(timeout_s=2.0)
    assert call.pair.sent("server", "rtp")
    assert not heard(call.pair.client)


def test_a_stranger_that_knows_the_password_hears_only_the_greeting() -> None:
    """Whoever has the description may be greeted; what is personal waits for the certificate."""
    call = impostor(replace(WARP, early_data=True), at_server=False)
    server = call.server
    personal: list[bool] = []
    call.pair.after_step.append(
        lambda node, now: (
            personal.append(server.send_audio(OPUS, 0, now)) if node.name == "server" else None
        )
    )
    call.until_up(timeout_s=2.0)
    assert personal and not any(personal)
    assert call.pair.sent("server", "rtp")


def test_a_server_without_early_data_says_nothing_before() -> None:
    call = begin(replace(WARP, early_data=False))
    assert call.until_up()
    known = call.server.stats()["milestones"]["dtls_connected"]
    assert call.pair.sent("server", "rtp")[0].time >= known


def test_a_client_that_never_comes() -> None:
    """Nothing is sent, and after its time the session ends by itself."""
    server, _ = waiting_server(replace(WARP, connect_timeout_s=7.0))
    moment = server.get_timer()
    while moment is not None:
        server.handle_timer(moment)
        assert server.datagrams_to_send(moment) == []
        last, moment = moment, server.get_timer()
        assert moment is None or moment > last
    assert last == pytest.approx(1007.0)
    assert server.state is ConnectionState.FAILED
    assert isinstance(server.error, NoPath)


def test_a_client_that_only_checks() -> None:
    """It has a path and never a handshake: timed out, not without a path."""
    call = begin(replace(DIRECT, connect_timeout_s=3.0))
    meddle(call.pair, lambda sender, data, copies: copies if data[0] < 4 else [])
    call.pair.run_for(5.0)
    for node in (call.pair.client, call.pair.server):
        [error] = ended(node)
        assert isinstance(error, HandshakeTimedOut)
