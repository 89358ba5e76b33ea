"""SDP: session descriptions, offers and answers (RFC 8866, RFC 9429, RFC 3264, SNAP).

    text --parse_description--> SessionDescription --str()--> text
    LocalDescriptionState --create_offer / create_answer(offer)--> SessionDescription
    (local, remote) --negotiate--> Negotiated: transport, audio, data
    (before, after) --compare--> Changes: what has to be set up anew
    sctp-init bytes --SnapNegotiation--> SNAP or the classic handshake

Malformed text raises `SdpError`, which names the rule and the line. What the model has no field
for is skipped and never written again.
"""

from warp.sdp.codecs import (
    AUDIO_EXTENSIONS,
    AUDIO_LEVEL_URI,
    DEFAULT_AUDIO_CODECS,
    MID_URI,
    TRANSPORT_CC_URI,
    opus,
    red,
    telephone_event,
)
from warp.sdp.errors import SdpError, SdpRule
from warp.sdp.extensions import (
    SctpInitFault,
    decode_sctp_init,
    echo_ice_options,
    encode_sctp_init,
)
from warp.sdp.local import (
    LocalAudio,
    LocalData,
    LocalDescriptionState,
    LocalMedia,
    LocalTransport,
)
from warp.sdp.model import (
    Codec,
    Direction,
    Fingerprint,
    HeaderExtension,
    MediaDescription,
    Origin,
    SctpDescription,
    SessionDescription,
    Setup,
    Source,
    TransportDescription,
)
from warp.sdp.negotiate import (
    AudioParameters,
    Changes,
    DataParameters,
    Negotiated,
    TransportParameters,
    check_answer,
    check_reoffer,
    compare,
    negotiate,
)
from warp.sdp.offer_answer import create_answer, create_offer, offered_ice_options
from warp.sdp.parse import parse_description
from warp.sdp.snap import SnapMode, SnapNegotiation

__all__ = [
    "AUDIO_EXTENSIONS",
    "AUDIO_LEVEL_URI",
    "DEFAULT_AUDIO_CODECS",
    "MID_URI",
    "TRANSPORT_CC_URI",
    "AudioParameters",
    "Changes",
    "Codec",
    "DataParameters",
    "Direction",
    "Fingerprint",
    "HeaderExtension",
    "LocalAudio",
    "LocalData",
    "LocalDescriptionState",
    "LocalMedia",
    "LocalTransport",
    "MediaDescription",
    "Negotiated",
    "Origin",
    "SctpDescription",
    "SctpInitFault",
    "SdpError",
    "SdpRule",
    "SessionDescription",
    "Setup",
    "SnapMode",
    "SnapNegotiation",
    "Source",
    "TransportDescription",
    "TransportParameters",
    "check_answer",
    "check_reoffer",
    "compare",
    "create_answer",
    "create_offer",
    "decode_sctp_init",
    "echo_ice_options",
    "encode_sctp_init",
    "negotiate",
    "offered_ice_options",
    "opus",
    "parse_description",
    "red",
    "telephone_event",
]
