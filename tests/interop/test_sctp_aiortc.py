"""aiortc's SCTP against ours without a network: its codec, its association on a short wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.vectors.sctp import PACKETS, packet
from warp.entropy import SeededEntropy
from warp.sctp import Association, PeerAborted, SctpConfig, State, StreamsReset, Terminated
from warp.sctp.chunks import (
    BEGIN,
    END,
    ChunkType,
    Data,
    ForwardTsn,
    Skip,
    encode_chunk,
    encode_data,
    encode_forward_tsn,
    encode_sack,
    parse_data,
    parse_forward_tsn,
    parse_sack,
    split_chunks,
)
from warp.sctp.init_chunk import local_init, parse_init_body
from warp.sctp.packet import build_packet
from warp.sctp.parameters import (
    OutgoingReset,
    encode_causes,
    encode_outgoing_reset,
    encode_parameters,
)

pytestmark = pytest.mark.interop
TAG = 0x12345678


@pytest.fixture
def theirs(require_peer: Callable[[str], None]) -> Any:
    """The module that holds aiortc's SCTP."""
    require_peer("aiortc")
    import aiortc.rtcsctptransport

    return aiortc.rtcsctptransport


def one(raw: bytes) -> tuple[int, int, bytes]:
    [found] = split_chunks(raw)
    return found


# -- codec


def test_it_reads_what_we_write(theirs: Any) -> None:
    def read(chunk: bytes) -> Any:
        source, destination, tag, [found] = theirs.parse_packet(
            build_packet(5001, 5002, TAG, chunk)
        )
        assert (source, destination, tag) == (5001, 5002, TAG)
        return found

    for size in (1, 2, 3, 4, 1000):
        data = read(encode_data(Data(BEGIN | END, 0xFFFFFFFF, 7, 8, 51, bytes(size))))
        assert (data.flags, data.tsn, data.stream_id) == (3, 0xFFFFFFFF, 7)
        assert (data.stream_seq, data.protocol, data.user_data) == (8, 51, bytes(size))
    sack = read(encode_sack(5, 6, [(2, 3), (5, 9)], [1, 0xFFFFFFFF]))
    assert (sack.cumulative_tsn, sack.advertised_rwnd) == (5, 6)
    assert (sack.gaps, sack.duplicates) == ([(2, 3), (5, 9)], [1, 0xFFFFFFFF])
    forward = read(encode_forward_tsn(ForwardTsn(9, (Skip(1, False, 2), Skip(3, False, 4)))))
    assert (forward.cumulative_tsn, forward.streams) == (9, [(1, 2), (3, 4)])
    init = local_init(SctpConfig(), SeededEntropy(1))
    found = read(init.to_bytes() + bytes(-len(init.to_bytes()) % 4))
    assert (found.initiate_tag, found.initial_tsn) == (init.initiate_tag, init.initial_tsn)
    assert found.params == [(int(kind), value) for kind, value in init.parameters]
    request = OutgoingReset(1, 2, 3, (4, 5, 6))
    body = encode_parameters([encode_outgoing_reset(request)])
    [(kind, value)] = read(encode_chunk(ChunkType.RE_CONFIG, 0, body)).params
    assert kind == 13
    reset = theirs.StreamResetOutgoingParam.parse(value)
    assert (reset.request_sequence, reset.last_tsn, reset.streams) == (1, 3, [4, 5, 6])
    abort = read(encode_chunk(ChunkType.ABORT, 0, encode_causes([(12, b"bye")])))
    assert abort.params == [(12, b"bye")]


def test_we_read_what_it_writes(theirs: Any) -> None:
    def write(chunk: Any) -> tuple[int, int, bytes]:
        return one(theirs.serialize_packet(5001, 5002, TAG, chunk))

    data = theirs.DataChunk(flags=3)
    data.tsn, data.stream_id, data.stream_seq, data.protocol = 0xFFFFFFFE, 1, 2, 53
    data.user_data = b"payload"
    kind, flags, body = write(data)
    assert (kind, parse_data(flags, body)) == (0, Data(3, 0xFFFFFFFE, 1, 2, 53, b"payload"))
    sack = theirs.SackChunk()
    sack.cumulative_tsn, sack.advertised_rwnd = 7, 8
    sack.gaps, sack.duplicates = [(2, 4)], [9]
    assert parse_sack(write(sack)[2]) == (7, 8, ((2, 4),), (9,))
    forward = theirs.ForwardTsnChunk()
    forward.cumulative_tsn, forward.streams = 7, [(1, 2)]
    assert parse_forward_tsn(write(forward)[2]) == ForwardTsn(7, (Skip(1, False, 2),))
    init = theirs.InitChunk()
    init.initiate_tag, init.advertised_rwnd, init.initial_tsn = 1, 131072, 5
    init.outbound_streams, init.inbound_streams = 10, 20
    init.params = [(0xC000, b""), (0x8008, b"\xc0\x82")]
    found = parse_init_body(write(init)[2])
    assert (found.initiate_tag, found.a_rwnd, found.initial_tsn) == (1, 131072, 5)
    assert found.capabilities == (True, True, False, False)


@pytest.mark.parametrize("name", sorted(set(PACKETS) - {"V2"}))
def test_it_reads_the_vectors(theirs: Any, name: str) -> None:
    *_, chunks = theirs.parse_packet(packet(name))
    known = [k for k, _, _ in split_chunks(packet(name)) if k in theirs.CHUNK_TYPES]
    assert [chunk.type for chunk in chunks] == known


# -- association


class Line:
    """Stands where aiortc expects its DTLS transport; hands packets to our association."""

    def __init__(self, role: str, ours: Association) -> None:
        self.state = "connected"
        self._role = role
        self.ours = ours
        self.out: list[bytes] = []
        self.receiver: Any = None
        self.count = 0

    async def _send_data(self, data: bytes) -> None:
        self.out.append(data)

    def _register_data_receiver(self, receiver: Any) -> None:
        self.receiver = receiver

    def _unregister_data_receiver(self, receiver: Any) -> None:
        self.receiver = None

    async def carry(self, *, lose: Callable[[int], bool] = lambda n: False) -> None:
        """Carry packets both ways until both sides are quiet; `lose` drops some of ours."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(0)
            packets = self.ours.datagrams_to_send(clock())
            if not packets and not self.out:
                return
            for each in packets:
                self.count += 1
                if self.receiver is not None and not lose(self.count):
                    await self.receiver._handle_data(each)
            out, self.out = self.out, []
            for each in out:
                self.ours.receive_datagram(each, clock())


class Call:
    """Our association and aiortc's transport, connected."""

    def __init__(self, theirs: Any, role: str = "client") -> None:
        config = SctpConfig(heartbeat_interval_s=None)
        self.ours = Association(config, local_init=None, entropy=SeededEntropy(1))
        self.line = Line(role, self.ours)
        self.sctp = theirs.RTCSctpTransport(self.line)
        self.capabilities = theirs.RTCSctpCapabilities(maxMessageSize=262144)
        self.heard: list[Any] = []

    def channel(self, theirs: Any, stream_id: int) -> Any:
        parameters = theirs.RTCDataChannelParameters(label="x", negotiated=True, id=stream_id)
        channel = theirs.RTCDataChannel(self.sctp, parameters)
        channel.on("message", self.heard.append)
        return channel

    async def start(self, *, we_first: bool = True) -> None:
        now = asyncio.get_running_loop().time()
        if we_first:
            self.ours.start(now)
        await self.sctp.start(self.capabilities, 5000)
        if not we_first:
            self.ours.start(now)
        await self.line.carry()
        assert self.ours.established
        assert self.sctp.state == "connected"


@pytest.mark.parametrize("we_first", [False, True])
@pytest.mark.parametrize("role", ["client", "server"])
def test_messages_both_ways(theirs: Any, role: str, we_first: bool) -> None:
    async def call() -> None:
        call = Call(theirs, role)
        channel = call.channel(theirs, 4)
        await call.start(we_first=we_first)
        now = asyncio.get_running_loop().time()
        sizes = [1, 1159, 1160, 1161, 20_000, 200_000]
        for size in sizes:
            call.ours.send_message(4, 53, bytes([size & 255]) * size, now)
            channel.send(bytes([size & 255]) * size)
        call.ours.send_message(4, 51, "grüße".encode(), now)
        await call.line.carry()
        assert [len(m) for m in call.heard[:-1]] == sizes
        assert call.heard[-1] == "grüße"
        received = call.ours.messages()
        assert [(sid, ppid, len(m)) for sid, ppid, m in received] == [(4, 53, n) for n in sizes]
        assert call.ours._transmission is not None
        assert call.ours._transmission.flight_size == 0
        await call.sctp.stop()
        await call.line.carry()
        [*_, ended] = call.ours.events()
        assert isinstance(ended, Terminated)
        assert isinstance(ended.error, PeerAborted)

    asyncio.run(call())


def test_our_losses_are_repaired(theirs: Any) -> None:
    async def call() -> None:
        call = Call(theirs)
        call.channel(theirs, 4)
        await call.start()
        loop = asyncio.get_running_loop()
        payload = bytes(range(256)) * 1000
        call.ours.send_message(4, 53, payload, loop.time())
        lost = {call.line.count + n for n in (3, 4, 9, 40, 41)}
        await call.line.carry(lose=lambda n: n in lost)
        assert call.heard == [payload]
        await call.sctp.stop()

    asyncio.run(call())


def test_streams_are_reset_by_either_side(theirs: Any) -> None:
    async def call() -> None:
        call = Call(theirs)
        channel = call.channel(theirs, 4)
        await call.start()
        now = asyncio.get_running_loop().time()
        channel.close()
        await call.line.carry()
        call.ours.reset_streams([4], now)
        await call.line.carry()
        resets = [e.incoming for e in call.ours.events() if isinstance(e, StreamsReset)]
        assert sorted(resets) == [False, True]
        assert channel.readyState == "closed"
        again = call.channel(theirs, 4)
        call.ours.send_message(4, 51, b"again", now)
        again.send("and back")
        await call.line.carry()
        assert call.heard == ["again"]
        assert call.ours.messages() == [(4, 51, b"and back")]
        await call.sctp.stop()

    asyncio.run(call())


def test_our_abort_ends_it(theirs: Any) -> None:
    async def call() -> None:
        call = Call(theirs)
        await call.start()
        call.ours.abort(asyncio.get_running_loop().time(), "enough")
        await call.line.carry()
        assert call.sctp.state == "closed"
        assert call.ours.state is State.CLOSED

    asyncio.run(call())


def test_given_up_messages_do_not_hold_up_the_rest(theirs: Any) -> None:
    async def call() -> None:
        call = Call(theirs)
        call.channel(theirs, 4)
        await call.start()
        loop = asyncio.get_running_loop()
        first = call.line.count + 1
        for n in range(12):
            call.ours.send_message(4, 51, b"%d" % n * 600, loop.time(), max_retransmits=0)
        await call.line.carry(lose=lambda n: n in (first, first + 2))
        await call.line.carry()
        texts = [text[:1] for text in call.heard]
        assert len(call.heard) >= 8
        assert call.heard == sorted(call.heard, key=lambda t: int(t[: len(t) // 600]))
        assert texts[-1] == "1"
        await call.sctp.stop()

    asyncio.run(call())
