"""Whoever floods a connection makes it keep little: strangers nothing, its own peer not much.

What is counted is the size of what is kept, by `tracemalloc` or in the containers themselves.
"""

from __future__ import annotations

import gc
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.scenarios.live_call import STRANGER, LiveCall
from tests.scenarios.start import OPUS, WARP, Start, established
from tests.sim.pair import CLIENT, SERVER
from tests.unit.dtls.ends import message, plain
from tests.unit.io.support import FakeLoop, FakeSocket
from warp.contract import Flow
from warp.crypto import HmacSha1
from warp.datachannel import DcepOpen
from warp.datachannel.dcep import Ppid
from warp.io.driver import Driver
from warp.peer import ConnectionState
from warp.rtp.rtcp import CongestionFeedback, build_rtcp
from warp.rtp.transport_feedback import TransportFeedback
from warp.sctp.chunks import BEGIN, Data, ForwardTsn, Skip, encode_data, encode_forward_tsn
from warp.sctp.packet import build_packet
from warp.sctp.reasons import SctpRule
from warp.sdp import SdpError, SdpRule, parse_description
from warp.stun import BINDING, Attribute, MessageClass, build_message

pytestmark = pytest.mark.slow

KIB = 1024
MIB = 1024 * KIB


@contextmanager
def keeps_at_most(limit: int) -> Iterator[None]:
    """Fail when more than `limit` bytes, allocated inside, are still alive at the end."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= limit, f"{kept} bytes are kept, {limit} at most"


def check(username: str, password: str, number: int, *extra: tuple[int, bytes]) -> bytes:
    """A request for the server, with a transaction id of its own."""
    attributes = [
        (int(Attribute.USERNAME), username.encode()),
        (int(Attribute.PRIORITY), struct.pack("!I", 1845501695)),
        (int(Attribute.ICE_CONTROLLING), bytes(8)),
        *extra,
    ]
    return build_message(
        BINDING,
        MessageClass.REQUEST,
        number.to_bytes(12, "big"),
        attributes,
        integrity_key=HmacSha1(password.encode()),
    )


def met(start: Start = WARP) -> LiveCall:
    """A server that has heard one check of its client and no DTLS."""
    call = LiveCall(start)
    call.inject("server", check("serv:clie", "password-of-the-server", 1))
    call.said["server"].clear()
    return call


def up(start: Start = WARP) -> LiveCall:
    call = LiveCall(start)
    assert call.until_connected()
    return call


# -- nobody has been authenticated ---------------------------------------------------------------


def test_strangers_leave_nothing_and_get_nothing() -> None:
    """Checks with a wrong password, DTLS and media, each from an address of its own."""
    call = LiveCall(WARP)
    server = call.ends["server"]
    server.events()
    requests = [check("serv:clie", "not-the-password-at-all", n) for n in range(200)]
    with keeps_at_most(16 * KIB):
        for number in range(5000):
            flow = Flow(SERVER, (f"198.51.100.{number & 255}", 1024 + number))
            server.receive_datagram(requests[number % 200], flow, call.now)
            server.receive_datagram(plain(22, message(1, 0, bytes(200))), flow, call.now)
            server.receive_datagram(b"\x80\x6f" + bytes(100), flow, call.now)
            assert server.datagrams_to_send(call.now) == []
        assert server.events() == []
    assert call.until_connected()


def test_a_port_remembers_no_stranger() -> None:
    """Every way to be nobody's datagram, 20 000 of them, at a server's socket."""
    loop = FakeLoop()
    driver = Driver(loop)
    raw = FakeSocket(SERVER)
    port = driver.add_port(raw)
    call = LiveCall(WARP)
    call.ends["server"].events()

    class Session:
        peer = call.ends["server"]
        deadline = None
        touched = 0
        routes: list = []  # noqa: RUF012

        def receive_events(self, now: float) -> None:
            assert self.peer.events() == []

    port.by_ufrag = {"serv": Session()}
    kinds = [
        check("serv:clie", "not-the-password-at-all", 1),
        check("nobo:clie", "password-of-the-server", 1),
        build_message(BINDING, MessageClass.SUCCESS, bytes(12), [], integrity_key=None),
        plain(22, message(1, 0, bytes(200))),
        b"\x80\x6f" + bytes(160),
        b"\xff",
        b"",
    ]
    with keeps_at_most(64 * KIB):
        for number in range(20_000):
            address = (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 5000)
            raw.arrived.append((kinds[number % len(kinds)], address))
            if not number % 50:
                loop.readers[raw.number]()
        loop.readers[raw.number]()
    assert port.routes == 0
    assert raw.sent == []
    assert port.unroutable > 10_000


# -- somebody knows the ICE password -------------------------------------------------------------


@pytest.mark.parametrize("start", [WARP, Start(lite=False)], ids=["lite", "full"])
def test_one_password_and_many_addresses(start: Start) -> None:
    """Each address is authentic; of all of them only a few are kept."""
    call = met(start)
    server = call.ends["server"]
    requests = [check("serv:clie", "password-of-the-server", n) for n in range(1200)]
    with keeps_at_most(320 * KIB):
        for number, request in enumerate(requests):
            flow = Flow(SERVER, (f"198.51.100.{number & 255}", 1024 + number))
            server.receive_datagram(request, flow, call.now)
            server.datagrams_to_send(call.now)
            server.events()
    transport = server._bundle.transport
    assert len(transport.flows) <= 16
    assert len(transport.rider.budget._credit) <= 16
    assert len(transport.ice._context.outbox) == 0
    assert call.until_connected()


def test_half_open_dtls_keeps_little() -> None:
    """Fragments of every number, size and epoch, from the flow that ICE has authenticated."""
    call = met()
    server = call.ends["server"]
    flow = call.flow("server")
    with keeps_at_most(256 * KIB):
        for number in range(1200):
            for data in (
                plain(22, message(1, number % 12, bytes(900), number * 7 % 30_000, 30_000), number),
                plain(22, message(11, number % 9, b"x", number % 500 * 64, 32_000), number),
                plain(22, message(1, 0, bytes(50), 0, 0xFFFFFF), number),
                plain(22, bytes(1000), number, epoch=1),
                b"\x2e" + number.to_bytes(2, "big") + b"\x03\xe8" + bytes(1000),
                b"\x2f" + number.to_bytes(2, "big") + b"\x03\xe8" + bytes(1000),
                plain(26, bytes(34), number),
            ):
                server.receive_datagram(data, flow, call.now)
            server.datagrams_to_send(call.now)
            server.events()
    assert server.state is ConnectionState.CONNECTING
    assert call.until_connected()


def test_media_ahead_of_its_keys_is_held_within_limits() -> None:
    call = met()
    server = call.ends["server"]
    flow = call.flow("server")
    with keeps_at_most(160 * KIB):
        for number in range(5000):
            packet = b"\x80\x6f" + number.to_bytes(2, "big") + bytes(1200)
            server.receive_datagram(packet, flow, call.now)
            server.receive_datagram(b"\x80\xc8" + packet, flow, call.now)
    held = server._bundle.transport.held_media
    assert len(held) <= 64
    assert held.dropped > 9_000


def test_candidates_without_end() -> None:
    """Trickled and described: what forms no pair is not kept."""
    call = LiveCall(Start(lite=False))
    client, server = call.ends["client"], call.ends["server"]
    with keeps_at_most(256 * KIB):
        for number in range(5000):
            line = f"candidate:{number} 1 udp {number} 10.1.{number >> 8}.{number & 255} 9 typ host"
            for end in (client, server):
                end.add_remote_candidate(line, call.now)
                end.events()
    assert call.until_connected()


# -- descriptions --------------------------------------------------------------------------------

HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n"


@pytest.mark.parametrize(
    "line",
    [
        "a=candidate:1 1 udp 1 10.0.0.1 9 typ host",
        "a=ssrc:1 cname:x",
        "a=rtpmap:111 opus/48000/2",
        "a=fmtp:111 x=1",
        "a=rtcp-fb:111 nack",
        "a=extmap:1 urn:x",
        "a=fingerprint:sha-256 AB:CD",
        "a=x-unknown:" + "y" * 10,
        "b=AS:1",
    ],
)
def test_ten_thousand_lines(line: str) -> None:
    """One more is refused; so many are read into no more than a small multiple of the text."""
    count = 10_000 - HEAD.count("\n")
    text = HEAD + f"{line}\r\n" * count
    if len(text) > 256 * KIB:
        count = (256 * KIB - len(HEAD)) // (len(line) + 2)
        text = HEAD + f"{line}\r\n" * count
    with keeps_at_most(32 * len(text)):
        try:
            description = parse_description(text)
        except SdpError as error:
            description = error
    assert description is not None
    with pytest.raises(SdpError) as refused:
        parse_description(HEAD + f"{line}\r\n" * 10_001)
    assert refused.value.rule in (SdpRule.TOO_MANY_LINES, SdpRule.TOO_LARGE)


# -- the authenticated peer itself ---------------------------------------------------------------


def from_peer(call: LiveCall, chunks: bytes) -> None:
    """Let the server's peer send it an SCTP packet of any content."""
    sender = call.ends["client"]._bundle.transport.dtls
    association = call.ends["server"]._bundle.data._association
    packet = build_packet(5000, 5000, association._local_tag, chunks, zero_checksum=False)
    sender.send_data(packet, call.now)
    for record in sender.datagrams_to_send(call.now):
        call.inject("server", record)


def next_tsn(call: LiveCall) -> int:
    return call.ends["server"]._bundle.data._association._inbound.tracker.cumulative + 1


def test_messages_that_never_end() -> None:
    """Beginnings on many streams, with gaps, and nothing behind them."""
    call = up()
    association = call.ends["server"]._bundle.data._association
    limit = association.config.a_rwnd
    first = next_tsn(call) + 2
    for number in range(12_000):
        chunk = encode_data(Data(BEGIN, first + 2 * number, number % 4000, 0, 53, bytes(1000)))
        from_peer(call, chunk)
        assert association._inbound.charge <= 2 * limit + 2000
        if call.ended:
            break
    error = call.ends["server"].error
    assert error is None or error.rule is SctpRule.RECEIVE_WINDOW_IGNORED


def test_skips_and_streams_without_end() -> None:
    """FORWARD-TSN for one stream after the other: a number for each is all that is kept."""
    call = up()
    with keeps_at_most(8 * MIB):
        for start in range(0, 20_000, 200):
            skips = tuple(Skip(stream, False, 5) for stream in range(start, start + 200))
            from_peer(call, encode_forward_tsn(ForwardTsn(next_tsn(call) & 0xFFFFFFFF, skips)))
    assert call.connected


def say(call: LiveCall, stream: int, ppid: int, data: bytes) -> None:
    """The client's application breaks every rule above SCTP: a message of any kind."""
    client = call.ends["client"]
    client._bundle.data._association.send_message(stream, ppid, data, call.now)
    call.collect("client")
    call.turn()


def test_channels_without_end() -> None:
    """OPEN on every stream of either parity, over and over: a bounded number of channels."""
    call = up()
    registry = call.ends["server"]._bundle.data._registry
    for stream in range(3000):
        say(call, stream, Ppid.DCEP, DcepOpen(f"channel {stream}").to_bytes())
        assert len(registry.channels) <= registry.config.max_channels + 1
    assert len(registry._closing._refused) <= 1024
    assert len(registry._closing._expected) <= 1024
    assert call.connected


def test_messages_for_no_channel_are_kept_within_limits() -> None:
    call = up()
    registry = call.ends["server"]._bundle.data._registry
    for number in range(2000):
        say(call, 1 + number % 500 * 2, Ppid.BINARY, bytes(600))
    assert registry._early._count <= registry.config.early_messages
    assert registry._early._bytes <= registry.config.early_bytes
    assert call.connected


def test_sources_without_end() -> None:
    """RTP of ever new SSRCs under the right keys: libsrtp opens a stream for few of them."""
    call = up()
    client, server = (call.ends[name]._bundle for name in ("client", "server"))
    packets = []
    for ssrc in range(3000):
        header = struct.pack("!BBHII", 0x80, 111, 1, 0, ssrc)
        packets.append(client.transport.srtp.protect_rtp(header + OPUS))
    with keeps_at_most(64 * KIB):
        for packet in packets:
            call.inject("server", packet)
    assert len(server.transport.srtp._sources) <= 32
    assert len(server.media.session.router._by_ssrc) <= 16
    assert call.connected


def test_feedback_without_end_is_not_kept() -> None:
    """Reports that nobody above listens to, e.g. transport-wide feedback, ten times a second."""
    call = up()
    client = call.ends["client"]._bundle
    server = call.ends["server"]._bundle
    feedback = TransportFeedback(1, 2, 0, 0, ((0, 0), (1, 4)))
    report = build_rtcp([CongestionFeedback(1, 2, feedback)])
    with keeps_at_most(64 * KIB):
        for _ in range(2000):
            call.inject("server", client.transport.srtp.protect_rtcp(report))
    assert server.media.session.events() == []


def test_a_copied_flow_gets_no_more_than_its_credit() -> None:
    """A request replayed from many addresses: each answer is no larger than what was sent."""
    call = LiveCall(WARP)
    call.turns(1)
    request = next(data for data in call.said["client"] if data[:2] == b"\0\1")
    sent = 0
    server = call.ends["server"]
    for number in range(500):
        flow = Flow(SERVER, (STRANGER[0], 1024 + number))
        server.receive_datagram(request, flow, call.now)
        for data, where in server.datagrams_to_send(call.now):
            if where.remote != CLIENT:
                sent += len(data)
    assert sent <= 3 * 500 * len(request)


def test_a_call_that_goes_on_keeps_nothing() -> None:
    """Audio both ways, reports, consent: after 30 s as much is kept as after 10."""
    call = established()
    pair = call.pair

    def forget() -> None:
        pair.ladder.clear()
        for node in pair.nodes.values():
            node.events.clear()

    pair.run_for(10)
    forget()
    with keeps_at_most(32 * KIB):
        pair.run_for(20)
        forget()
