"""SCTP in every state of an association: damaged real packets, under the right tag and checksum.

The damage is done to the chunks, so that it gets past the front door: DTLS has authenticated the
peer, which may be hostile all the same.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import Script, mutate
from warp.entropy import SeededEntropy
from warp.sctp import Association, SctpConfig, State, local_init
from warp.sctp.chunks import ChunkType, encode_chunk
from warp.sctp.packet import build_packet
from warp.sctp.states import RUNNING

pytestmark = pytest.mark.slow

A_RWND = 40_000
PLAIN = SctpConfig(a_rwnd=A_RWND, zero_checksum=False)
KINDS = (
    SctpConfig(a_rwnd=A_RWND),
    PLAIN,
    SctpConfig(a_rwnd=A_RWND, interleaving=True),
)
HEADER = 12
HEARTBEAT = encode_chunk(ChunkType.HEARTBEAT, 0, b"\0\x01\0\x08abcd")
MAX_INJECTED = 24
MAX_PACKETS = 300


class Talk:
    """Two associations, what is under way and what was said."""

    def __init__(self, config: SctpConfig, *, snap: bool) -> None:
        inits = [local_init(config, SeededEntropy(seed)) for seed in (1, 2)]
        self.ends = [
            Association(config, local_init=init, entropy=SeededEntropy(seed))
            for seed, init in enumerate(inits, 3)
        ]
        self.waiting: list[list[bytes]] = [[], []]
        self.said: list[list[bytes]] = [[], []]
        self.now = 0.0
        self.config = config
        for at, end in enumerate(self.ends):
            if snap:
                end.start_snap(inits[1 - at], 0.0)
            elif at == 0:
                end.start(0.0)
            self.collect(at)

    def speak(self, at: int) -> None:
        """Give an end something to say: fragments, two reliabilities, a reset."""
        end = self.ends[at]
        if end.state is State.ESTABLISHED:
            end.send_message(1, 53, bytes(2600), self.now)
            end.send_message(2, 51, b"short", self.now, ordered=False, max_retransmits=0)
            end.reset_streams([2], self.now)
            self.collect(at)

    def inject(self, to: int, packet: bytes) -> None:
        self.ends[to].receive_datagram(packet, self.now)
        self.collect(to)

    def collect(self, at: int) -> None:
        end = self.ends[at]
        out = end.datagrams_to_send(self.now)
        assert len(out) <= MAX_PACKETS
        self.waiting[at] += out
        self.said[at] += out
        end.events()
        end.messages()
        deadline = end.get_timer()
        if deadline is not None and deadline <= self.now:
            end.handle_timer(self.now)
            left = end.get_timer()
            assert left is None or left > self.now
        if end._inbound is not None:
            assert 0 <= end._inbound.charge <= 2 * A_RWND + 3000

    def step(self) -> bool:
        for at in (0, 1):
            if self.waiting[at]:
                packet = self.waiting[at].pop(0)
                if self.ends[1 - at].state is State.NEW:
                    self.ends[1 - at].start(self.now)
                self.inject(1 - at, packet)
                return True
        due = [at for end in self.ends if (at := end.get_timer()) is not None]
        if not due:
            return False
        self.now = max(self.now, min(due))
        for at in (0, 1):
            self.collect(at)
        return True


def damaged(talk: Talk, to: int, script: Script) -> bytes:
    """One real packet for this end with other chunks, its header made to fit."""
    said = talk.said[1 - to] or talk.said[to] or [bytes(HEADER) + HEARTBEAT]
    packet = said[script.below(len(said))]
    chunks = mutate(packet[HEADER:], script, [one[HEADER:] for one in said])
    choice = script.below(8)
    tag = 0 if choice == 0 else talk.ends[to]._local_tag
    if choice == 1:
        tag = int.from_bytes(packet[4:8], "big")
    config = talk.config
    return build_packet(config.remote_port, config.port, tag, chunks, zero_checksum=choice == 2)


def fuzz_sctp_states(data: bytes) -> None:
    """Begin one way or the other, talk, perhaps close; damage all the way."""
    script = Script(data)
    talk = Talk(KINDS[script.below(len(KINDS))], snap=bool(script.below(2)))
    for _ in range(MAX_INJECTED):
        if not script:
            break
        choice = script.byte()
        for _ in range(choice & 3):
            talk.step()
        if choice & 4:
            talk.speak(choice >> 3 & 1)
        end = talk.ends[choice >> 4 & 1]
        if choice & 0xE0 == 0xE0 and end.state in RUNNING:
            end.close(talk.now)
        to = script.below(2)
        talk.inject(to, damaged(talk, to, script))
    for _ in range(60):
        if not talk.step():
            break
    assert all(end.state in State for end in talk.ends)


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_any_state(data: bytes) -> None:
    fuzz_sctp_states(data)
