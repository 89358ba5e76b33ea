"""What the SCTP tests share: pairs, a scripted peer that speaks raw chunks, and a lossless pump."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.vectors.sctp import TAG_A, TAG_B
from warp.entropy import SeededEntropy
from warp.sctp import Association, InitChunk, SctpConfig, local_init
from warp.sctp.chunks import (
    BEGIN,
    END,
    ChunkType,
    Data,
    IData,
    Sack,
    encode_chunk,
    encode_data,
    encode_i_data,
    encode_sack,
    parse_data,
    parse_i_data,
    parse_sack,
    split_chunks,
)
from warp.sctp.packet import build_packet

WHOLE = BEGIN | END
Chunk = tuple[int, int, bytes]


def init_chunk(
    *,
    tag: int = TAG_B,
    tsn: int = 1,
    a_rwnd: int = 5 * 1024 * 1024,
    extensions: Sequence[int] = (0x82, 0xC0),
    forward: bool = True,
    zero_checksum: bool = False,
    streams: int = 65535,
) -> InitChunk:
    """An INIT with exactly these fields."""
    parameters: list[tuple[int, bytes]] = []
    if forward:
        parameters.append((0xC000, b""))
    if zero_checksum:
        parameters.append((0x8001, b"\0\0\0\x01"))
    parameters.append((0x8008, bytes(extensions)))
    return InitChunk(tag, a_rwnd, streams, streams, tsn, tuple(parameters))


class Script:
    """An association of ours, and a peer that says whatever a test wants it to say.

    Our side has tag A and starts at TSN `ours`; the peer has tag B and starts at TSN `theirs`.
    """

    def __init__(
        self,
        config: SctpConfig | None = None,
        *,
        local: InitChunk | None = None,
        remote: InitChunk | None = None,
        now: float = 0.0,
    ) -> None:
        # without heartbeats every timer that shows is the one under test
        self.config = config or SctpConfig(heartbeat_interval_s=None)
        self.local = local or init_chunk(tag=TAG_A, tsn=1000, a_rwnd=self.config.a_rwnd)
        self.remote = remote or init_chunk()
        self.us = Association(self.config, local_init=self.local, entropy=SeededEntropy(7))
        self.us.start_snap(self.remote, now)
        self.tsn = self.remote.initial_tsn
        self.packets: list[bytes] = []

    def packet(self, *chunks: bytes, tag: int | None = None, zero: bool = False) -> bytes:
        """A packet of the peer's."""
        config = self.config
        return build_packet(
            config.remote_port,
            config.port,
            self.local.initiate_tag if tag is None else tag,
            b"".join(chunks),
            zero_checksum=zero,
        )

    def says(self, *chunks: bytes, now: float = 0.0, tag: int | None = None) -> None:
        """The peer sends one packet with these chunks."""
        self.us.receive_datagram(self.packet(*chunks, tag=tag), now)

    def data(
        self,
        payload: bytes = b"x",
        *,
        flags: int = WHOLE,
        stream: int = 0,
        ssn: int = 0,
        ppid: int = 53,
        tsn: int | None = None,
    ) -> bytes:
        """A DATA chunk; without `tsn` the peer's next one."""
        if tsn is None:
            tsn = self.tsn
            self.tsn += 1
        return encode_data(Data(flags, tsn & 0xFFFFFFFF, stream, ssn, ppid, payload))

    def i_data(
        self,
        payload: bytes = b"x",
        *,
        flags: int = WHOLE,
        stream: int = 0,
        mid: int = 0,
        word: int = 53,
        tsn: int | None = None,
    ) -> bytes:
        """An I-DATA chunk; `word` is the PPID of a first fragment, else its FSN."""
        if tsn is None:
            tsn = self.tsn
            self.tsn += 1
        return encode_i_data(IData(flags, tsn & 0xFFFFFFFF, stream, mid, word, payload))

    def sacks(
        self,
        cumulative: int,
        gaps: Sequence[tuple[int, int]] = (),
        *,
        a_rwnd: int = 5 * 1024 * 1024,
        now: float = 0.0,
    ) -> None:
        """The peer acknowledges."""
        self.says(encode_sack(cumulative & 0xFFFFFFFF, a_rwnd, gaps), now=now)

    def hears(self, now: float = 0.0) -> list[Chunk]:
        """Everything we send now, chunk by chunk; the packets are kept in `packets`."""
        self.packets = self.us.datagrams_to_send(now)
        return [chunk for packet in self.packets for chunk in split_chunks(packet)]

    def hears_data(self, now: float = 0.0) -> list[Data]:
        """The DATA chunks that we send now."""
        return [parse_data(f, body) for k, f, body in self.hears(now) if k == ChunkType.DATA]

    def hears_i_data(self, now: float = 0.0) -> list[IData]:
        """The I-DATA chunks that we send now."""
        return [parse_i_data(f, body) for k, f, body in self.hears(now) if k == ChunkType.I_DATA]

    def hears_sacks(self, now: float = 0.0) -> list[Sack]:
        """The SACKs that we send now."""
        return [parse_sack(body) for k, _, body in self.hears(now) if k == ChunkType.SACK]

    def send(self, size: int = 1, *, stream: int = 0, now: float = 0.0, **options: object) -> None:
        """We send a message of `size` bytes."""
        self.us.send_message(stream, 53, bytes(size), now, **options)  # type: ignore[arg-type]


def kinds(chunks: Iterable[Chunk]) -> list[int]:
    """The types of chunks."""
    return [kind for kind, _, _ in chunks]


def chunk(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    """A padded chunk."""
    return encode_chunk(kind, flags, body)


def snap_pair(
    config: SctpConfig | None = None, server: SctpConfig | None = None, *, now: float = 0.0
) -> tuple[Association, Association]:
    """Two associations of ours, established by SNAP."""
    ours, theirs = config or SctpConfig(), server or config or SctpConfig()
    first, second = local_init(ours, SeededEntropy(1)), local_init(theirs, SeededEntropy(2))
    a = Association(ours, local_init=first, entropy=SeededEntropy(3))
    b = Association(theirs, local_init=second, entropy=SeededEntropy(4))
    a.start_snap(second, now)
    b.start_snap(first, now)
    return a, b


def classic_pair(config: SctpConfig | None = None) -> tuple[Association, Association]:
    """Two associations that have not started."""
    made = [
        Association(config or SctpConfig(), local_init=None, entropy=SeededEntropy(seed))
        for seed in (3, 4)
    ]
    return made[0], made[1]


def exchange(a: Association, b: Association, now: float = 0.0, rounds: int = 200) -> int:
    """Carry packets both ways without loss until both are quiet; return how many there were."""
    count = 0
    for _ in range(rounds):
        out, back = a.datagrams_to_send(now), b.datagrams_to_send(now)
        if not out and not back:
            return count
        for packet in out:
            b.receive_datagram(packet, now)
        for packet in back:
            a.receive_datagram(packet, now)
        count += len(out) + len(back)
    raise AssertionError(f"still talking after {rounds} rounds")
