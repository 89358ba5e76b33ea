"""Whatever a client sends over HTTP is understood or refused with a reason."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from instant_connect.calls import CallSession
from instant_connect.config import SignallingConfig
from instant_connect.exchange import SDP, SDP_FRAGMENT, Ask, Refusal, Reply
from instant_connect.io.body import parse_form
from instant_connect.offers import Kind, parse_dcid, parse_object
from instant_connect.sdpfrag import MAX_CANDIDATES, parse_sdpfrag
from instant_connect.signalling import Signalling
from tests.fuzz.mutation import Script, mutate_lines
from tests.unit.sdp import shapes
from tests.unit.sdp.build import CAPTURES
from warp.crypto import Certificate
from warp.entropy import SeededEntropy
from warp.peer import PeerConfig, PeerConnection
from warp.sdp import SdpError

CANDIDATE = "a=candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host"
OFFERS = [path.read_text() for path in sorted(CAPTURES.glob("*_offer.sdp"))]
OFFERS = [offer.replace("\n", "\r\n") for offer in OFFERS] + list(shapes.ALL.values())
RESTART = f"a=ice-ufrag:fresh\r\na=ice-pwd:{'f' * 24}\r\n"
FRAGMENTS = [
    f"{RESTART}m=audio 9 X 0\r\na=mid:0\r\n{CANDIDATE}\r\n",
    f"{CANDIDATE}\r\na=end-of-candidates\r\n",
]
CERTIFICATE = Certificate.generate(SeededEntropy(1), 1_790_000_000.0)


class PureSession:
    """A session of the stack without sockets."""

    def __init__(self, offer: str, seed: int) -> None:
        config = PeerConfig(lite=True)
        self._peer = PeerConnection(config, certificate=CERTIFICATE, entropy=SeededEntropy(seed))
        self._peer.add_local_address(("198.51.100.4", 3478), 0.0)
        self.answer = self.accept_offer(offer)

    @property
    def remote_description(self) -> str:
        return self._peer.remote_description

    def accept_offer(self, sdp: str) -> str:
        self._peer.set_remote_description("offer", sdp, 0.0)
        self.answer = self._peer.create_answer(0.0)
        self._peer.set_local_description("answer", self.answer, 0.0)
        return self.answer

    def add_remote_candidate(self, line: str | None) -> None:
        self._peer.add_remote_candidate(line, 0.0)

    def stats(self) -> dict[str, Any]:
        return self._peer.stats()

    async def close(self) -> None:
        self._peer.close(0.0)


class PureServer:
    """What answers offers, without sockets."""

    def __init__(self) -> None:
        self._seeds = itertools.count()

    def accept_offer(self, sdp: str) -> CallSession:
        return PureSession(sdp, next(self._seeds))


def fuzz_call(data: bytes) -> None:
    """A damaged offer, fragment and second offer: each is served, or refused for what it is."""
    script = Script(data)
    signalling = Signalling(
        PureServer(), SignallingConfig(), entropy=SeededEntropy(1), welcome=lambda call: None
    )

    def damaged(seeds: list[str]) -> bytes:
        seed = seeds[script.below(len(seeds))]
        return (mutate_lines(seed, script) if script.below(4) else seed).encode()

    made = _served(lambda body: signalling.open(_ask(SDP, body), Kind.WHIP, float), damaged(OFFERS))
    if made is None:
        return
    [call] = signalling.calls.list()
    name = call.info.id
    for _ in range(2):
        _served(lambda body: signalling.patch(_ask(SDP_FRAGMENT, body), name), damaged(FRAGMENTS))
        _served(lambda body: signalling.reoffer(_ask(SDP, body), name), damaged(OFFERS))
    assert call.etag


def _ask(kind: str, body: bytes) -> Ask:
    return Ask(content_type=kind, body=body, if_match="*")


def _served(serve: Any, body: bytes) -> Reply | None:
    try:
        reply: Reply = serve(body)
    except Refusal as refusal:
        # never our fault, never a lack of room
        assert 400 <= refusal.status < 500, refusal
        return None
    assert reply.status in (200, 201, 204)
    return reply


def fuzz_sdpfrag(data: bytes) -> None:
    """Read a fragment: nothing but SdpError may come out, and never a secret in it."""
    try:
        fragment = parse_sdpfrag(data.decode("utf-8", "replace"))
    except SdpError as error:
        assert error.line is None or error.line > 0
        return
    assert len(fragment.candidates) <= MAX_CANDIDATES
    assert fragment.ufrag or not fragment.pwd
    assert all(line.startswith("candidate:") for line in fragment.candidates)


def fuzz_form(data: bytes) -> None:
    """Read a form whose boundary is its first line: parts, or a refusal of 400."""
    boundary, _, _ = data.partition(b"\r\n")
    kind = "multipart/form-data; boundary=" + boundary[2:].decode("latin-1")
    try:
        parts = parse_form(kind, data)
    except Refusal as refusal:
        assert refusal.status == 400
        return
    assert sum(map(len, parts.values())) <= len(data)


def fuzz_company(data: bytes) -> None:
    """Read what comes along with an offer: a number and an object, or refusals of 400."""
    text = data.decode("utf-8", "replace")
    for read in (parse_dcid, parse_object):
        try:
            read(text)
        except Refusal as refusal:
            assert refusal.status == 400
            assert len(str(refusal)) < 300


@given(st.binary(max_size=400))
@example(b"")
@example(b"--x\r\n")
@example(b"a=candidate")
@example(b"7" * 5_000)
@example(b"[" * 100_000)
def test_any_bytes(data: bytes) -> None:
    fuzz_sdpfrag(data)
    fuzz_form(data)
    fuzz_company(data)


@given(st.binary(max_size=200))
@example(b"")
def test_damaged_calls(data: bytes) -> None:
    fuzz_call(data)


LINES = st.sampled_from(
    [
        "a=ice-ufrag:EsAw", "a=ice-ufrag:other", "a=ice-ufrag:x", "a=ice-pwd:" + "p" * 24,
        "a=ice-pwd:short", "m=audio 9 RTP/AVP 0", "m=", "m=audio 9", "a=mid:0", CANDIDATE,
        "a=candidate:", "a=end-of-candidates", "a=ice-lite", "a=x", "v=0", "", "a=group:BUNDLE 0",
        "a=ice-options:trickle", "\r", "é",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=30))
@example([CANDIDATE] * (MAX_CANDIDATES + 1))
def test_any_lines(lines: list[str]) -> None:
    fuzz_sdpfrag("\r\n".join(lines).encode())


PIECES = st.sampled_from(
    [
        b"--x\r\n", b"--x--\r\n", b"--x--", b"\r\n", b"\r\n--x\r\n", b"\r\n--x--\r\n",
        b'Content-Disposition: form-data; name="sdp"\r\n\r\n',
        b"Content-Disposition: form-data\r\n",
        b"Content-Disposition: ", b"a: b\r\n", b"v=0\r\n", b"\x00\xff", b'name="sdp"; name*=utf-8',
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12))
@example([b'Content-Disposition: form-data; name="sdp"\r\n\r\n', b"v=0", b"\r\n--x--\r\n"])
def test_any_pieces_of_a_form(pieces: list[bytes]) -> None:
    fuzz_form(b"--x\r\n" + b"".join(pieces))
