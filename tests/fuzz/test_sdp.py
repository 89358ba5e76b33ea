"""Any text is a description or an `SdpError`; what is read survives writing."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.sdp import shapes
from tests.unit.sdp.build import CAPTURES, OWN_INIT, local
from warp.sdp import (
    SdpError,
    create_answer,
    decode_sctp_init,
    negotiate,
    parse_description,
)
from warp.sdp.attributes import COMMON_ATTRIBUTES, OWN_ATTRIBUTES

SEEDS = [path.read_text() for path in sorted(CAPTURES.glob("*.sdp"))] + list(shapes.ALL.values())


def fuzz_sdp(data: bytes) -> None:
    """Read, write, read again, answer, agree: nothing but SdpError may come out."""
    try:
        description = parse_description(data.decode("utf-8", "replace"))
    except SdpError:
        return
    assert parse_description(str(description)) == description
    try:
        answer = create_answer(description, local(), sctp_init=OWN_INIT)
        negotiate(answer, description, is_offerer=False)
    except SdpError:
        return
    assert parse_description(str(answer)) == answer


def fuzz_sctp_init(data: bytes) -> None:
    """One value never raises."""
    chunk, fault = decode_sctp_init([data.decode("latin-1")])
    assert (chunk is None) is (fault is not None)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    fuzz_sdp(data)
    fuzz_sctp_init(data)


WORDS = st.sampled_from(
    [
        "", "0", "1", "111", "65535", "70000", "opus/48000/2", "red/48000/2", "111/111", "x",
        "sha-256 AB", "actpass", "active", "sendonly", "BUNDLE 0 1", "transport-cc", "AQ==", "\r",
        "webrtc-datachannel", "candidate", "5000 webrtc-datachannel", "cname:y", "*", "é", "\x1c",
    ]
)  # fmt: skip
LINES = st.one_of(
    st.builds(
        lambda name, words: f"a={name}:" + " ".join(words),
        st.sampled_from([*sorted(COMMON_ATTRIBUTES), *sorted(OWN_ATTRIBUTES), "x-unknown"]),
        st.lists(WORDS, max_size=4),
    ),
    st.sampled_from(
        [
            "m=audio 9 UDP/TLS/RTP/SAVPF 111 0 63 063", "m=video 0 UDP/TLS/RTP/SAVPF 96",
            "m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "m=application 9 DTLS/SCTP 5000",
            "m=application 9 DTLS/SCTP x", "c=IN IP6 ::1", "c=IN IP4 /", "s=again", "t=1 1",
            "b=AS:1", "a=mid:0", "a=mid:1", "a=ice-pwd:" + "p" * 22, "a=rtcp-mux",
            "a=rtpmap:111 opus/48000/2", "a=fingerprint:sha-256 " + shapes.FINGERPRINT,
            "a=group:BUNDLE 0 1", "a=bundle-only", "a=ice-ufrag:abcd", "a=fmtp:063 x",
            "a=setup:actpass",
        ]
    ),
)  # fmt: skip
HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"


@given(st.lists(LINES, max_size=40))
@example(["m=application 9 DTLS/SCTP ٣"])
def test_any_lines(lines: list[str]) -> None:
    fuzz_sdp((HEAD + "\r\n".join(lines)).encode())


@given(st.sampled_from(SEEDS), st.data())
def test_damaged_real_descriptions(seed: str, data: st.DataObject) -> None:
    lines = seed.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(lines) - 1))
        action = data.draw(st.sampled_from(["drop", "double", "cut", "swap", "insert"]))
        if action == "drop" and len(lines) > 1:
            del lines[index]
        elif action == "double":
            lines.insert(index, lines[index])
        elif action == "cut":
            lines[index] = lines[index][: data.draw(st.integers(0, len(lines[index])))]
        elif action == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[index], lines[other] = lines[other], lines[index]
        else:
            lines.insert(index, data.draw(LINES))
    fuzz_sdp("\r\n".join(lines).encode())
