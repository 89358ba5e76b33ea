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
# what counts for sections stands above them, or says nothing where it stands
SPREAD = """v=0
o=mozilla...THIS_IS_SDPARTA-99.0 4611731400430051336 0 IN IP4 0.0.0.0
s=-
c=IN IP4 192.0.2.7
t=0 0
a=ice-ufrag:8hhY
a=ice-pwd:asd88fgpdd777uzjYhagZg8u
a=fingerprint:sha-256 {sha}
a=tls-id:abcdefghijklmnopqrst
a=ssrc:5 cname:above
a=candidate:9 1 udp 1 192.0.2.9 9 typ host
a=group:BUNDLE 0 1
m=audio 40000 UDP/TLS/RTP/SAVPF 111
a=candidate:1 1 udp 2113937151 192.0.2.1 40000 typ host
a=candidate:2 1 udp 2113937150 192.0.2.2 40001 typ host
a=end-of-candidates
a=setup:actpass
a=mid:0
a=rtcp-mux
a=rtpmap:111 opus/48000/2
a=ssrc:1001 cname:a
a=ssrc:1001 msid:- track
a=ssrc:1002 cname:b
a=sctp-port:5000
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:9hhY
a=ice-pwd:bsd88fgpdd777uzjYhagZg8u
a=fingerprint:sha-256 {sha}
a=fingerprint:sha-1 {short}
a=setup:actpass
a=mid:1
a=msid:stream
a=sctp-port:5000
a=sctp-init:AQAAFA==
""".format(sha=":".join(["AB"] * 32), short=":".join(["AB"] * 20))
OTHERS = [
    "a=ice-ufrag:other", "a=ice-ufrag:x", "a=ice-pwd:0123456789012345678901", "a=ice-pwd:short",
    "a=fingerprint:sha-256 AB", "a=candidate:2 1 udp 1 192.0.2.9 9 typ host", "a=ssrc:7 cname:b",
    "a=ssrc:7", "a=msid:stream", "a=msid", "a=sctp-port:70000", "a=sctp-port:6000",
    "c=IN IP6 2001:db8::1", "c=IN", "m=audio 0 UDP/TLS/RTP/SAVPF 111", "m=audio 9 RTP/AVP 0",
    "c=IN IP4 /127", "m=audio 40000", "m=audio 9/2 UDP/TLS/RTP/SAVPF 111 126",
    "m=audio 9 9 UDP/TLS/RTP/SAVPF 111", "m=audio  9 UDP/TLS/RTP/SAVPF 111 126",
    "m=audio\t9\tUDP/TLS/RTP/SAVPF\t111", "m=audio",
    "m=audio 70000 UDP/TLS/RTP/SAVPF 111", "m=video 9 UDP/TLS/RTP/SAVPF 96",
    "o=- 1 2 IN IP4 0.0.0.0", "o=-", "s=other", "t=1 2",
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


def test_lines_that_stand_above_the_sections_are_read_by_the_layout() -> None:
    parse_description(SPREAD)
    again = SPREAD.replace("8hhY", "Nyq2").replace("IP4 192.0.2.7", "IP4 192.0.2.8")
    again = again.replace("1002 cname:b", "1002 cname:c").replace("AQAAFA==", "AQAAFQ==")
    found = layout.read_alike(again.splitlines())
    assert found is not None
    layout._known.clear()
    assert found == parse_description(again)
    audio, data = found.media
    assert (audio.transport.ufrag, audio.address, len(audio.sources)) == ("Nyq2", "192.0.2.8", 2)
    assert (data.transport.ufrag, data.sctp and data.sctp.init) == ("9hhY", b"\x01\0\0\x15")


@pytest.mark.parametrize("line", ["a=ssrc:5 cname:above", "a=msid:stream", "a=sctp-port:5000"])
def test_a_line_that_counts_for_nothing_has_to_be_in_order_too(line: str) -> None:
    parse_description(SPREAD)
    wrong = line.partition(":")[0] + ":"
    with pytest.raises(SdpError) as caught:
        parse_description(SPREAD.replace(line, wrong, 1))
    assert caught.value.line == SPREAD.splitlines().index(line) + 1


def test_a_line_without_an_address_leaves_the_one_above() -> None:
    parse_description(SPREAD)
    audio, data = parse_description(SPREAD.replace("IP4 0.0.0.0\na=", "IP4 /127\na=")).media
    assert (audio.address, data.address) == ("192.0.2.7", "192.0.2.7")


@pytest.mark.parametrize("odd", ["m=application 9/2 ", "m=application  9 "])
def test_what_only_the_careful_reader_understands_drives_nothing_out(odd: str) -> None:
    parse_description(OFFER)
    known = layout._known.copy()
    for _ in range(2):
        parse_description(OFFER.replace("m=application 9 ", odd))
    assert layout._known == known


def test_nothing_of_a_session_is_kept() -> None:
    parse_description(OFFER)
    (known,) = layout._known
    for secret in ("8hhY", "asd88fgpdd777uzjYhagZg8u", "1001"):
        assert secret not in repr([getattr(known, name) for name in known.__slots__])


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
    ),
    st.sampled_from([OFFER, SPREAD]),
)
def test_a_changed_description_says_what_it_says_to_who_knows_nothing(
    changes: list[tuple[str, int, str]], known: str
) -> None:
    lines = known.splitlines()
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
    parse_description(known)
    assert outcome(text) == expected
    assert outcome(text) == expected
