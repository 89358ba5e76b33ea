"""Offers in the shape that peers write, transcribed by hand (names and keys are made up).

The order of lines and the attributes are those of the peer; they are not captures.
"""

from __future__ import annotations

FINGERPRINT = ":".join(f"{n:02X}" for n in range(32))


def text(block: str) -> str:
    """Give a block CRLF line ends and the made-up fingerprint."""
    return block.strip().replace("FP", FINGERPRINT).replace("\n", "\r\n") + "\r\n"


FIREFOX = text("""
v=0
o=mozilla...THIS_IS_SDPARTA-99.0 4857346873456 0 IN IP4 0.0.0.0
s=-
t=0 0
a=fingerprint:sha-256 FP
a=group:BUNDLE 0 1
a=ice-options:trickle
a=msid-semantic:WMS *
m=audio 9 UDP/TLS/RTP/SAVPF 109 9 0 8 101
c=IN IP4 0.0.0.0
a=sendrecv
a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level
a=extmap:2/recvonly urn:ietf:params:rtp-hdrext:csrc-audio-level
a=extmap:3 urn:ietf:params:rtp-hdrext:sdes:mid
a=fmtp:109 maxplaybackrate=48000;stereo=1;useinbandfec=1
a=fmtp:101 0-15
a=ice-pwd:ab2f54e0e1f7b5c4d9a02d5f1c0de8a1
a=ice-ufrag:b1c2d3e4
a=mid:0
a=msid:{6d1f0d1e-0f51-4f2f-9a0a-000000000001} {6d1f0d1e-0f51-4f2f-9a0a-000000000002}
a=rtcp-mux
a=rtcp-rsize
a=rtpmap:109 opus/48000/2
a=rtpmap:9 G722/8000/1
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=rtpmap:101 telephone-event/8000/1
a=setup:actpass
a=ssrc:2958710121 cname:{f2a0a7b3-0000-4000-8000-000000000003}
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=sendrecv
a=ice-pwd:ab2f54e0e1f7b5c4d9a02d5f1c0de8a1
a=ice-ufrag:b1c2d3e4
a=mid:1
a=setup:actpass
a=sctp-port:5000
a=max-message-size:1073741823
""")

PION = text("""
v=0
o=- 3948582173749582711 1756000000 IN IP4 0.0.0.0
s=-
t=0 0
a=msid-semantic:WMS*
a=fingerprint:sha-256 FP
a=extmap-allow-mixed
a=group:BUNDLE 0 1
m=audio 9 UDP/TLS/RTP/SAVPF 111 9 0 8
c=IN IP4 0.0.0.0
a=setup:actpass
a=mid:0
a=ice-ufrag:kGhTqWxRbYnMpLsD
a=ice-pwd:QzWxEcRvTbYnUmIkOlPaSdFgHjKlZxCv
a=rtcp-mux
a=rtcp-rsize
a=rtpmap:111 opus/48000/2
a=fmtp:111 minptime=10;useinbandfec=1
a=rtpmap:9 G722/8000
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=extmap:1 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01
a=ssrc:1273645821 cname:pion
a=ssrc:1273645821 msid:pion audio
a=ssrc:1273645821 mslabel:pion
a=ssrc:1273645821 label:audio
a=msid:pion audio
a=sendrecv
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=setup:actpass
a=mid:1
a=sendrecv
a=sctp-port:5000
a=max-message-size:1073741823
a=ice-ufrag:kGhTqWxRbYnMpLsD
a=ice-pwd:QzWxEcRvTbYnUmIkOlPaSdFgHjKlZxCv
a=sctp-init:AQAAHGVPFd8AEAAA/////9tAK2qACAAIgsBAwg==
""")

LIBDATACHANNEL = text("""
v=0
o=rtc 2841136718 0 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0
a=group:LS 0
a=msid-semantic:WMS *
a=setup:actpass
a=ice-ufrag:6JmN
a=ice-pwd:GqWhTdP0aFzX3kV8yRbE2s
a=ice-options:ice2,trickle
a=fingerprint:sha-256 FP
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=mid:0
a=sendrecv
a=sctp-port:5000
a=max-message-size:262144
""")

WERIFT = text("""
v=0
o=- 29384756 0 IN IP4 0.0.0.0
s=-
t=0 0
a=group:BUNDLE 0 1
a=extmap-allow-mixed
a=msid-semantic:WMS *
m=audio 9 UDP/TLS/RTP/SAVPF 96 0
c=IN IP4 0.0.0.0
a=ice-ufrag:9f3c
a=ice-pwd:6f1d9e0b2a7c4f58a0be1d
a=ice-options:trickle
a=fingerprint:sha-256 FP
a=setup:actpass
a=mid:0
a=sendrecv
a=msid:0b0e audio-track
a=rtcp:9 IN IP4 0.0.0.0
a=rtcp-mux
a=rtpmap:96 OPUS/48000/2
a=rtpmap:0 PCMU/8000
a=ssrc:918273645 cname:werift
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:9f3c
a=ice-pwd:6f1d9e0b2a7c4f58a0be1d
a=ice-options:trickle
a=fingerprint:sha-256 FP
a=setup:actpass
a=mid:1
a=sctp-port:5000
a=max-message-size:65536
""")

# what browsers wrote before RFC 8841: port in the m= line, sctpmap
LEGACY_DATA = text("""
v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE data
a=msid-semantic: WMS
m=application 9 DTLS/SCTP 5001
c=IN IP4 0.0.0.0
a=ice-ufrag:abcd
a=ice-pwd:abcdefghijklmnopqrstuv
a=fingerprint:sha-256 FP
a=setup:actpass
a=mid:data
a=sctpmap:5001 webrtc-datachannel 1024
""")

# a page with a camera: the section that carries the candidates is one that we refuse
VIDEO_FIRST = text("""
v=0
o=- 7 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE v a d
a=ice-lite
m=video 40000 UDP/TLS/RTP/SAVPF 96 97
c=IN IP4 192.0.2.7
a=candidate:1 1 udp 2122260223 192.0.2.7 40000 typ host
a=end-of-candidates
a=ice-ufrag:vvvv
a=ice-pwd:vvvvvvvvvvvvvvvvvvvvvv
a=ice-options:trickle ice2
a=fingerprint:sha-256 FP
a=setup:actpass
a=mid:v
a=sendrecv
a=rtcp-mux
a=rtpmap:96 VP8/90000
a=rtcp-fb:96 nack pli
a=rtpmap:97 rtx/90000
a=fmtp:97 apt=96
a=simulcast:send h;l
m=audio 0 UDP/TLS/RTP/SAVPF 111
c=IN IP4 0.0.0.0
a=bundle-only
a=mid:a
a=sendonly
a=rtcp-mux
a=rtpmap:111 opus/48000/2
m=application 0 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=bundle-only
a=mid:d
a=sctp-port:6001
a=max-message-size:0
""")

ALL = {
    "firefox": FIREFOX,
    "pion": PION,
    "libdatachannel": LIBDATACHANNEL,
    "werift": WERIFT,
    "legacy data": LEGACY_DATA,
    "video first": VIDEO_FIRST,
}
