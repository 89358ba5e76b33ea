"""Whatever a client sends over HTTP is understood or refused with a reason."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from instant_connect.exchange import Refusal
from instant_connect.io.body import parse_form
from instant_connect.offers import parse_dcid, parse_object
from instant_connect.sdpfrag import MAX_CANDIDATES, parse_sdpfrag
from warp.sdp import SdpError

CANDIDATE = "a=candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host"


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
@example(b"7" * 5_000)
@example(b"[" * 100_000)
def test_any_bytes(data: bytes) -> None:
    fuzz_sdpfrag(data)
    fuzz_form(data)
    fuzz_company(data)


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
