"""What was learnt of one description must not change what the next one says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.sdp import SdpError, SessionDescription, layout, parse_description

OFFER = """v=0
o=- 4611731400430051336 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1
a=extmap-allow-mixed
m=audio 40000 UDP/TLS/RTP/SAVPF 111 126
c=IN IP4 192.0.2.1
a=candidate:1 1 udp 2113937151 192.0.2.1 40000 typ host
a=ice-ufrag:8hhY
a=ice-pwd:asd88fgpdd777uzjYhagZg8u
a=ice-options:trickle
a=fingerprint:sha-256 {sha}
a=setup:actpass
a=mid:0
a=sendrecv
a=rtcp-mux
a=rtpmap:111 opus/48000/2
a=fmtp:111 minptime=10;useinbandfec=1
a=rtpmap:126 telephone-event/8000
a=ssrc:1001 cname:a
a=msid:- track
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:8hhY
a=ice-pwd:asd88fgpdd777uzjYhagZg8u
a=fingerprint:sha-256 {sha}
a=setup:actpass
a=mid:1
a=sctp-port:5000
a=max-message-size:262144
a=ice-pacing:50
""".format(sha=":".join(["AB"] * 32))
LINES = OFFER.splitlines()
OTHERS = [
    "a=ice-ufrag:other", "a=ice-ufrag:x", "a=ice-pwd:0123456789012345678901", "a=ice-pwd:short",
    "a=fingerprint:sha-256 AB", "a=candidate:2 1 udp 1 192.0.2.9 9 typ host", "a=ssrc:7 cname:b",
    "a=ssrc:7", "a=msid:stream", "a=msid", "a=sctp-port:70000", "a=sctp-port:6000",
    "c=IN IP6 2001:db8::1", "c=IN", "m=audio 0 UDP/TLS/RTP/SAVPF 111", "m=audio 9 RTP/AVP 0",
    "m=video 9 UDP/TLS/RTP/SAVPF 96", "o=- 1 2 IN IP4 0.0.0.0", "o=-", "s=other", "t=1 2",
    "a=mid:0", "a=mid:9", "a=group:BUNDLE 0", "a=ice-lite", "a=setup:active", "x=1", "", "v=0",
    "a=tls-id:abcdefghijklmnopqrst", "a=sctp-init:AQAAFA==", "a=ice-pacing:9", "a=ice-pacing",
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    layout._known.clear()
    yield
    layout._known.clear()


def outcome(text: str) -> SessionDescription | tuple[object, ...]:
    try:
        return parse_description(text)
    except SdpError as error:
        return error.rule, error.line, str(error)


def test_the_same_peer_once_more_is_read_by_its_layout() -> None:
    parse_description(OFFER)
    again = OFFER.replace("8hhY", "Nyq2").replace("40000", "50123").replace(":1001", ":77")
    lines = again.splitlines()
    found = layout.read_alike(lines)
    assert found is not None
    layout._known.clear()
    assert found == parse_description(again)
    assert found.media[0].port == 50123 and found.media[0].sources[0].ssrc == 77
    assert found.media[1].transport.ufrag == "Nyq2"


def test_a_line_that_breaks_a_rule_is_named_all_the_same() -> None:
    parse_description(OFFER)
    with pytest.raises(SdpError) as caught:
        parse_description(OFFER.replace("sctp-port:5000", "sctp-port:70000"))
    assert caught.value.line == LINES.index("a=sctp-port:5000") + 1


def test_the_latest_kinds_of_description_are_remembered() -> None:
    for number in range(2 * layout.MAX_LAYOUTS):
        parse_description(OFFER.replace("s=-", f"s={number}"))
    assert len(layout._known) == layout.MAX_LAYOUTS
    assert layout.read_alike(LINES) is None


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["replace", "insert", "delete", "swap"]),
            st.integers(0, len(LINES) - 1),
            st.sampled_from(OTHERS + LINES),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_changed_description_says_what_it_says_to_who_knows_nothing(
    changes: list[tuple[str, int, str]],
) -> None:
    lines = list(LINES)
    for change, at, line in changes:
        at = min(at, len(lines) - 1)
        if change == "replace":
            lines[at] = line
        elif change == "insert":
            lines.insert(at, line)
        elif change == "delete":
            del lines[at]
        else:
            lines[at], lines[at - 1] = lines[at - 1], lines[at]
    text = "\n".join(lines)
    layout._known.clear()
    expected = outcome(text)
    layout._known.clear()
    parse_description(OFFER)
    assert outcome(text) == expected
    assert outcome(text) == expected
