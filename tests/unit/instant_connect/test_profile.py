"""Profile 1: client and server come to the same answer without a word between them."""

from __future__ import annotations

import re

import pytest

from instant_connect.attempt import make_attempt
from instant_connect.profile import (
    client_init,
    compose_answer,
    make_terms,
    server_init,
    stand_in_offer,
)
from tests.unit.instant_connect.door import LOCAL
from tests.vectors.instant_connect import CERTIFICATE, FINGERPRINT
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig
from warp.peer import PeerConfig, PeerConnection, agree
from warp.sctp import SctpConfig, parse_init
from warp.sdp import SdpError, SessionDescription, check_answer, negotiate, parse_description

TERMS = make_terms((LOCAL, ("2001:db8::1", 443)), PeerConfig().sctp())
ATTEMPT = make_attempt(FINGERPRINT, 109, SeededEntropy(1), sctp=(7, 8))


def answer(offer: SessionDescription, sctp: tuple[int, int] | None = (9, 10)) -> SessionDescription:
    return compose_answer(
        offer,
        TERMS,
        ufrag="server-ufrag",
        password="p" * 32,
        fingerprint=CERTIFICATE.fingerprint(),
        attempt=ATTEMPT,
        sctp=sctp,
    )


def real_offer() -> SessionDescription:
    """What our own client offers: header extensions, RED, telephone events and all."""
    peer = PeerConnection(PeerConfig(), certificate=CERTIFICATE, entropy=SeededEntropy(2))
    peer.add_local_address(("192.0.2.1", 4000), 0.0)
    return parse_description(peer.create_offer(0.0))


def transport_part(description: SessionDescription) -> list[str]:
    kinds = "ice-ufrag|ice-pwd|fingerprint|setup|candidate|ice-lite|sctp-init|sctp-port"
    return re.findall(rf"a=(?:{kinds})[^\r]*", str(description))


def test_a_stand_in_is_an_offer_that_can_be_answered() -> None:
    offer = stand_in_offer(ATTEMPT, "abcd")
    given = answer(offer)
    check_answer(offer, given)
    agreed = negotiate(given, offer, is_offerer=False)
    assert agreed.transport.ufrag == "abcd"
    assert agreed.transport.fingerprints == (("sha-256", FINGERPRINT.hex(":").upper()),)
    assert not agreed.transport.is_dtls_client
    [audio] = agreed.audio
    assert [(c.name, c.payload_type, c.feedback) for c in audio.send_codecs] == [("opus", 109, ())]
    assert audio.extensions == ()
    assert agreed.data is not None
    assert agreed.data.send_limit == 65_536


def test_the_answers_to_offer_and_stand_in_have_the_same_transport() -> None:
    """Byte for byte: what the client applied and what signalling says are one transport."""
    assert transport_part(answer(real_offer())) == transport_part(
        answer(stand_in_offer(ATTEMPT, "abcd"))
    )


def test_what_the_profile_does_not_know_is_not_in_the_answer() -> None:
    text = str(answer(real_offer()))
    for word in ("extmap", "red/", "telephone-event", "rtcp-fb", "ssrc", "rtcp-rsize"):
        assert word not in text
    assert text.count("a=rtpmap") == 1


def test_the_whole_answer_as_a_page_has_to_write_it() -> None:
    expected = f"""\
v=0
o=- {int.from_bytes(ATTEMPT.nonce, "big") >> 1} 1 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1
a=ice-lite
m=audio 443 UDP/TLS/RTP/SAVPF 109
c=IN IP4 203.0.113.1
a=candidate:806984555 1 udp 2130706431 203.0.113.1 443 typ host
a=candidate:952223545 1 udp 2130706175 2001:db8::1 443 typ host
a=ice-ufrag:server-ufrag
a=ice-pwd:{"p" * 32}
a=fingerprint:sha-256 {CERTIFICATE.fingerprint()}
a=setup:passive
a=mid:0
a=sendrecv
a=msid:-
a=rtcp-mux
a=rtpmap:109 opus/48000/2
a=fmtp:109 minptime=10;useinbandfec=1
m=application 443 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 203.0.113.1
a=ice-ufrag:server-ufrag
a=ice-pwd:{"p" * 32}
a=fingerprint:sha-256 {CERTIFICATE.fingerprint()}
a=setup:passive
a=mid:1
a=sctp-port:5000
a=max-message-size:262144
a=sctp-init:AQAAJgAAAAkAUAAA/////wAAAArAAAAEgAEACAAAAAGACAAGgsA=
"""
    given = str(answer(stand_in_offer(ATTEMPT, "abcd")))
    assert given.replace("\r\n", "\n") == expected


def test_without_snap_there_is_no_init_in_it() -> None:
    assert "sctp-init" not in str(answer(real_offer(), None))
    plain = stand_in_offer(ATTEMPT._replace(sctp=None), "abcd")
    assert "sctp-init" not in str(plain)
    assert "sctp-init" not in str(answer(plain, None))


def test_only_two_numbers_of_an_init_differ_between_sessions() -> None:
    """Whoever has the template needs only write them into it."""
    template = TERMS.init.to_bytes()
    made = server_init(TERMS, (0x01020304, 0x05060708)).to_bytes()
    patched = bytearray(template)
    patched[4:8] = bytes([1, 2, 3, 4])
    patched[16:20] = bytes([5, 6, 7, 8])
    assert made == bytes(patched)
    ours = parse_init(client_init((3, 4)))
    assert (ours.initiate_tag, ours.initial_tsn) == (3, 4)
    assert ours.capabilities == (True, True, False, False)


def test_an_offer_with_nothing_for_the_profile_is_refused() -> None:
    text = str(real_offer()).replace("opus/48000", "pcma/8000")
    no_audio = answer(parse_description(text))
    assert no_audio.media[0].rejected
    nothing = real_offer()._replace(media=(parse_description(text).media[0],), bundles=(("0",),))
    with pytest.raises(SdpError):
        answer(nothing)


def test_terms_need_an_address() -> None:
    with pytest.raises(InvalidConfig, match="address"):
        make_terms((), SctpConfig())


def test_the_agreement_is_what_both_ends_compute() -> None:
    agreed = agree(answer(stand_in_offer(ATTEMPT, "abcd")), stand_in_offer(ATTEMPT, "abcd"))
    assert agreed.credentials.ufrag == "server-ufrag"
    assert agreed.local_init == server_init(TERMS, (9, 10))
    assert agreed.source is None
