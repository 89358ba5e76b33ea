"""How a DTLS handshake fails: the alert for the peer and the error for the application.

`HandshakeFault` is private to this package: codecs and state machines raise it, the connection's
front door catches it, sends the alert (RFC 8446 section 6.2) and terminates with `error`.
"""

from __future__ import annotations

import enum
from typing import Final

from warp.errors import PeerError, PeerIncompatible, PeerMisbehaved


class Alert(enum.IntEnum):
    """Alert descriptions (RFC 8446 section 6; `NO_RENEGOTIATION`: RFC 5246 section 7.2.2)."""

    CLOSE_NOTIFY = 0
    UNEXPECTED_MESSAGE = 10
    BAD_RECORD_MAC = 20
    RECORD_OVERFLOW = 22
    HANDSHAKE_FAILURE = 40
    BAD_CERTIFICATE = 42
    UNSUPPORTED_CERTIFICATE = 43
    CERTIFICATE_REVOKED = 44
    CERTIFICATE_EXPIRED = 45
    CERTIFICATE_UNKNOWN = 46
    ILLEGAL_PARAMETER = 47
    UNKNOWN_CA = 48
    ACCESS_DENIED = 49
    DECODE_ERROR = 50
    DECRYPT_ERROR = 51
    TOO_MANY_CIDS_REQUESTED = 52
    PROTOCOL_VERSION = 70
    INSUFFICIENT_SECURITY = 71
    INTERNAL_ERROR = 80
    INAPPROPRIATE_FALLBACK = 86
    USER_CANCELED = 90
    NO_RENEGOTIATION = 100
    MISSING_EXTENSION = 109
    UNSUPPORTED_EXTENSION = 110
    UNRECOGNIZED_NAME = 112
    CERTIFICATE_REQUIRED = 116
    NO_APPLICATION_PROTOCOL = 120


class DtlsRule(enum.Enum):
    """What a peer can break; the value is the sentence that a person reads."""

    MALFORMED_MESSAGE = "a handshake message does not parse"
    MALFORMED_ALERT = "an alert does not parse"
    MALFORMED_ACK = "an ACK does not parse"
    DUPLICATE_EXTENSION = "an extension appears twice"
    UNSOLICITED_EXTENSION = "an extension was answered that had not been offered"
    MISSING_EXTENSION = "a mandatory extension is missing"
    UNEXPECTED_MESSAGE = "a message arrived where the protocol has no place for it"
    UNEXPECTED_RECORD = "a record of this type has no place in this epoch"
    RECORD_OVERFLOW = "a record carries more than 2^14 bytes"
    NO_CONTENT_TYPE = "a protected record holds nothing but padding"
    TOO_MANY_FORGERIES = "more records have failed to decrypt than the cipher bears"
    FRAGMENT_MISMATCH = "fragments of one message contradict each other"
    LEFTOVER_FRAGMENTS = "a message straddles a change of keys"
    MESSAGE_TOO_LARGE = "a handshake message is larger than any we can need"
    SESSION_ID_ECHOED = "a session id was echoed that had not been sent"
    LEGACY_COOKIE = "a DTLS 1.3 ClientHello carries a legacy cookie"
    COMPRESSION = "compression was asked for"
    SUITE_NOT_OFFERED = "a cipher suite was chosen that had not been offered"
    GROUP_NOT_OFFERED = "a group was chosen that had not been offered"
    VERSION_NOT_OFFERED = "a version was chosen that had not been offered"
    PROFILE_NOT_OFFERED = "an SRTP profile was chosen that had not been offered"
    SCHEME_NOT_OFFERED = "a signature scheme was used that had not been offered"
    SECOND_RETRY_REQUEST = "the server asked twice for another ClientHello"
    USELESS_RETRY_REQUEST = "the server asked for a ClientHello that would change nothing"
    CHANGED_HELLO = "the second ClientHello changes what it must repeat"
    INVALID_COOKIE = "the cookie is not one of ours"
    BAD_KEY_SHARE = "a key share is not an element of its group"
    BAD_CERTIFICATE = "the certificate has no key that can be used"
    CERTIFICATE_MISSING = "no certificate was presented"
    BAD_SIGNATURE = "a signature does not verify"
    BAD_FINISHED = "the Finished message does not match the handshake"
    DOWNGRADE = "the server speaks DTLS 1.3, yet an older version was chosen"
    NO_EXTENDED_MASTER_SECRET = "the extended master secret was not agreed on"
    BAD_RENEGOTIATION_INFO = "the renegotiation extension is not the one of a first handshake"
    BAD_KEY_UPDATE = "a KeyUpdate asks for neither of the two possible things"
    KEYS_EXHAUSTED = "the keys are used up and a KeyUpdate was never acknowledged"
    MESSAGE_AFTER_KEY_UPDATE = "a message follows KeyUpdate under the old keys"
    SRTP_MISSING = "SRTP is needed, and no profile was agreed on"


class HandshakeFault(Exception):
    """The handshake cannot go on: what to tell the peer, and what to tell the application."""

    def __init__(self, alert: Alert, error: PeerError) -> None:
        super().__init__(f"{alert.name.lower()}: {error}")
        self.alert: Final = alert
        self.error: Final = error


def misbehaved(alert: Alert, rule: DtlsRule, section: str, detail: str = "") -> HandshakeFault:
    """Return the fault of a peer that broke `rule`, stated in `section` ("RFC 8446 section 4")."""
    return HandshakeFault(alert, PeerMisbehaved(rule, section, detail))


def incompatible(alert: Alert, reason: str) -> HandshakeFault:
    """Return the fault of a peer that broke no rule but shares nothing with us."""
    return HandshakeFault(alert, PeerIncompatible(reason))
