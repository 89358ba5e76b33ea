"""A telephone event (RFC 4733) in a call comes up as events of the connection, in order."""

from __future__ import annotations

import struct

from tests.scenarios.live_call import LiveCall
from tests.scenarios.start import OPUS, WARP
from warp.peer import AudioReceived
from warp.rtp import PayloadKind, SourceBegan, ToneBegan, ToneEnded


def test_a_tone_reaches_the_application() -> None:
    call = LiveCall(WARP)
    seen: list[object] = []
    server = call.ends["server"]
    drain = server.events

    def events() -> list[object]:
        new = list(drain())
        seen.extend(new)
        return new

    assert call.until_connected()
    (receiver,) = server._bundle.media.session.router.sections
    kinds = {kind: number for number, kind in receiver.config.payload_kinds.items()}
    client = call.ends["client"]._bundle.transport
    for number, (kind, payload) in enumerate(
        [
            (PayloadKind.AUDIO, OPUS),
            (PayloadKind.TELEPHONE_EVENT, struct.pack("!BBH", 5, 10, 960)),
            (PayloadKind.TELEPHONE_EVENT, struct.pack("!BBH", 5, 0x80 | 10, 1920)),
        ]
    ):
        header = struct.pack("!BBHII", 0x80, kinds[kind], 100 + number, 48_000, 77)
        packet = client.srtp.protect_rtp(header + payload)
        server.receive_datagram(packet, call.flow("server"), call.now)
        events()
    names = [type(event) for event in seen]
    assert names[0] is SourceBegan
    assert AudioReceived in names
    assert [kind for kind in names if kind in (ToneBegan, ToneEnded)] == [ToneBegan, ToneEnded]
    tone = next(event for event in seen if isinstance(event, ToneBegan))
    assert (tone.code, tone.volume) == (5, 10)
